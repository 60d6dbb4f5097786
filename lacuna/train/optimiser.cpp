#include "lacuna/train/optimiser.h"

#include <ATen/ATen.h>

namespace lacuna {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;

}  // namespace

Optimiser::Optimiser(const torch::nn::Module& model, const TrainOptions& options)
    : parameters_(model.parameters()), weight_decay_(options.weight_decay), clip_(options.clip) {
  const auto scalar = parameters_.at(0).options().dtype(at::kFloat).requires_grad(false);
  lr_ = at::full({}, options.lr, scalar);
  for (const at::Tensor& parameter : parameters_) {
    parameter.mutable_grad() = at::zeros_like(parameter);
    exp_avg.push_back(at::zeros_like(parameter));
    exp_avg_sq.push_back(at::zeros_like(parameter));
    steps_.push_back(at::zeros({}, scalar));
  }
}

std::vector<at::Tensor> Optimiser::gradients() const {
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : parameters_) result.push_back(parameter.grad());
  return result;
}

void Optimiser::set_learning_rate(double lr) { lr_.fill_(lr); }

void Optimiser::set_steps(uint64_t steps) {
  for (const at::Tensor& step : steps_) step.fill_(double(steps));
}

void Optimiser::clear_gradients() { at::_foreach_zero_(gradients()); }

at::Tensor Optimiser::update() {
  const at::NoGradGuard guard;
  const auto grads = gradients();
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(grads)));
  if (clip_ > 0) at::_foreach_mul_(grads, (clip_ / (norm + 1e-6)).clamp_max(1));
  at::_foreach_add_(steps_, 1);
  at::_fused_adamw_(parameters_, grads, exp_avg, exp_avg_sq, {}, steps_, lr_, kBeta1, kBeta2,
                    weight_decay_, kEps, /*amsgrad=*/false, /*maximize=*/false);
  at::_foreach_zero_(grads);
  return norm;
}

}  // namespace lacuna
