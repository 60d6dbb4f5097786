// AdamW over all parameters in two launches (ops/update/adamw.h), on tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lacuna {

// Parameters with gradients, and two averages of each; of one size, f32, on one GPU.
struct AdamwTensors {
  std::vector<at::Tensor> parameters, averages, averages_sq;
};

// Whether there is a kernel for these parameters.
bool can_fuse_adamw(const std::vector<at::Tensor>& parameters);

class FusedAdamw {
 public:
  // Only where can_fuse_adamw().
  FusedAdamw(AdamwTensors tensors, double weight_decay, double clip);

  // One update from the gradients that stand in the parameters; they become zeros in place. lr
  // f32, step i64: scalars on the device; step counts the update. Gives the norm that the gradient
  // had, a scalar that the next update writes anew.
  at::Tensor update(const at::Tensor& lr, const at::Tensor& step);

 private:
  void make_table();

  AdamwTensors tensors_;
  double weight_decay_, clip_;
  std::vector<void*> gradients_;  // where they stood when the table was made
  int64_t parts_ = 0;
  at::Tensor table_, sums_, norm_;  // u8, f64 [parts], f32 scalar
};

}  // namespace lacuna
