#include "lacuna/torch/stop_point.h"

#include <ATen/ATen.h>

#include "lacuna/core/system/stop.h"

namespace lacuna {

void stop_point(const at::Tensor& x) {
  throw_if_stopped();
  if (x.is_cpu() && x.requires_grad() && !x.is_leaf())
    x.register_hook([](const at::Tensor&) { throw_if_stopped(); });
}

}  // namespace lacuna
