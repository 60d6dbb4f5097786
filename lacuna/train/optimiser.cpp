#include "lacuna/train/optimiser.h"

#include <ATen/ATen.h>

namespace lacuna {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;

}  // namespace

Optimiser::Optimiser(const torch::nn::Module& model, const TrainOptions& options)
    : weight_decay_(options.weight_decay), clip_(options.clip) {
  const auto all = model.parameters();
  const auto scalar = all.at(0).options().dtype(at::kFloat).requires_grad(false);
  lr_ = at::full({}, options.lr, scalar);
  step_ = at::zeros({}, scalar.dtype(at::kLong));
  for (const at::Tensor& parameter : all) {
    exp_avg.push_back(at::zeros_like(parameter, parameter.options().requires_grad(false)));
    exp_avg_sq.push_back(at::zeros_like(exp_avg.back()));
    if (!parameter.requires_grad()) continue;
    parameter.mutable_grad() = at::zeros_like(parameter);
    parameters_.push_back(parameter);
    own_avg_.push_back(exp_avg.back());
    own_avg_sq_.push_back(exp_avg_sq.back());
  }
  if (can_fuse_adamw(parameters_))
    fused_ = std::make_unique<FusedAdamw>(AdamwTensors{parameters_, own_avg_, own_avg_sq_},
                                          weight_decay_, clip_);
}

std::vector<at::Tensor> Optimiser::gradients() const {
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : parameters_) result.push_back(parameter.grad());
  return result;
}

void Optimiser::set_learning_rate(double lr) { lr_.fill_(lr); }

void Optimiser::set_steps(uint64_t steps) { step_.fill_(int64_t(steps)); }

void Optimiser::clear_gradients() { at::_foreach_zero_(gradients()); }

at::Tensor Optimiser::update() {
  const at::NoGradGuard guard;
  return fused_ ? fused_->update(lr_, step_) : update_by_torch();
}

at::Tensor Optimiser::update_by_torch() {
  const auto grads = gradients();
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(grads)));
  if (clip_ > 0) at::_foreach_mul_(grads, (clip_ / (norm + 1e-6)).clamp_max(1));
  step_.add_(1);
  const std::vector<at::Tensor> steps(parameters_.size(), step_.to(at::kFloat));
  at::_fused_adamw_(parameters_, grads, own_avg_, own_avg_sq_, {}, steps, lr_, kBeta1, kBeta2,
                    weight_decay_, kEps, /*amsgrad=*/false, /*maximize=*/false);
  at::_foreach_zero_(grads);
  return norm;
}

}  // namespace lacuna
