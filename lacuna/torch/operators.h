// What operators with gradients share: calls through the dispatcher, and autocast. Only for the
// .cpp files of the operators.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "lacuna/torch/common.h"
#include "lacuna/torch/find_operator.h"

namespace lacuna::torch_ops {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Under autocast x goes to bf16 where that is autocast's choice, and to f32 where that is f16,
// which no operator here computes in. values and eps stay as they are; f64 is left alone.
template <c10::DeviceType device>
Tensor autocast_real(const Tensor& x) {
  const auto chosen = at::autocast::get_autocast_dtype(device);
  return at::autocast::cached_cast(chosen == at::kBFloat16 ? at::kBFloat16 : at::kFloat, x, device);
}

template <c10::DeviceType device>
c10::impl::ExcludeDispatchKeyGuard without_autocast() {
  return c10::impl::ExcludeDispatchKeyGuard(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
}

}  // namespace lacuna::torch_ops
