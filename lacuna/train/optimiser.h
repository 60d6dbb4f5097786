// AdamW over all parameters of a model at once, those without a gradient (frozen) left alone, with
// the gradient's norm clipped. Learning rate and step stand in tensors on the device, so that an
// update can be recorded and replayed. On a GPU it is two launches (torch/adamw.h), elsewhere
// torch's; equal to rounding.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "lacuna/run/config.h"
#include "lacuna/torch/adamw.h"

namespace lacuna {

class Optimiser {
 public:
  Optimiser(const torch::nn::Module& model, const TrainOptions& options);

  void set_learning_rate(double lr);
  // One update from the gradients that were accumulated, which are then set to zero in place. Gives
  // the norm that the gradient had, a scalar on the device, which the next update may write anew.
  at::Tensor update();
  std::vector<at::Tensor> gradients() const;  // accumulated since the last update
  void clear_gradients();

  // By parameter, in the model's order; what a checkpoint holds.
  std::vector<at::Tensor> exp_avg, exp_avg_sq;
  void set_steps(uint64_t steps);

 private:
  at::Tensor update_by_torch();

  std::vector<at::Tensor> parameters_;            // those that are trained
  std::vector<at::Tensor> own_avg_, own_avg_sq_;  // of these; they are among exp_avg, exp_avg_sq
  at::Tensor lr_, step_;                          // scalars, f32 and i64
  double weight_decay_, clip_;
  std::unique_ptr<FusedAdamw> fused_;  // or null
};

}  // namespace lacuna
