#include "lacuna/nn/layers.h"

#include <ATen/ATen.h>

#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/torch/norm_gelu.h"
#include "lacuna/torch/row_mlp.h"
#include "lacuna/torch/stop_point.h"

namespace lacuna {
namespace {

constexpr double kNormEps = 1e-5;
constexpr double kTinyVariance = 1e-30;  // far below what kNormEps leaves of it
constexpr int kLinears = 4;

at::Tensor initial_weight(c10::IntArrayRef shape, double std) {
  const double fan_out = double(shape.back());
  return at::randn(shape) * (std > 0 ? std : std::sqrt(2.0 / fan_out));
}

// x W + b, both rounded to x's dtype. What is predicted on the CPU does not depend on the rows
// beside it (row_linear.h); one column is a sum of each row.
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto dtype = x.scalar_type();
  const auto rounded = weight.to(dtype), offset = bias.to(dtype);
  if (!x.is_cpu() || at::GradMode::is_enabled()) return at::addmm(offset, x, rounded);
  if (weight.size(1) == 1) return (x * rounded.t()).sum(1, /*keepdim=*/true) + offset;
  const auto wide = dtype == at::kBFloat16 ? at::kFloat : dtype;
  return row_linear(x, rounded.to(wide), offset.to(wide));
}

}  // namespace

Dense::Dense(int64_t in, int64_t out, double std) {
  weight = register_parameter("weight", initial_weight({in, out}, std));
  bias = register_parameter("bias", at::zeros({out}));
}

at::Tensor Dense::forward(const at::Tensor& x) const {
  const auto rows = x.reshape({-1, x.size(-1)});
  auto shape = x.sizes().vec();
  shape.back() = weight.size(1);
  const auto y = affine(rows, weight, bias);
  stop_point(y);
  return y.reshape(shape);
}

GraphDense::GraphDense(int64_t graphs, int64_t in, int64_t out) {
  weight = register_parameter("weight", initial_weight({graphs, in, out}, 0));
  bias = register_parameter("bias", at::zeros({graphs, 1, out}));
}

at::Tensor GraphDense::forward(const at::Tensor& x) const {
  const auto dtype = x.scalar_type();
  // baddbmm() would first spread the bias over the whole result, and then read that again.
  const auto y = at::bmm(x, weight.to(dtype)).add_(bias.to(dtype));
  stop_point(y);
  return y;
}

NormKind norm_kind_from_name(const std::string& name) {
  if (name == "layer") return NormKind::layer;
  if (name == "batch_graph") return NormKind::batch_graph;
  throw Error("unknown norm '{}'; there are layer and batch_graph", name);
}

Norm::Norm(NormKind kind, int64_t width, int64_t graphs) : kind_(kind), width_(width) {
  const std::vector<int64_t> shape =
      graphs > 0 ? std::vector<int64_t>{graphs, 1, width} : std::vector<int64_t>{width};
  weight = register_parameter("weight", at::ones(shape));
  bias = register_parameter("bias", at::zeros(shape));
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  const bool by_graph = weight.dim() == 3;
  const auto scale = weight.to(x.scalar_type()), shift = bias.to(x.scalar_type());
  if (kind_ == NormKind::layer) {
    if (!by_graph) return at::layer_norm(x, {width_}, scale, shift, kNormEps);
    return at::addcmul(shift, at::layer_norm(x, {width_}, {}, {}, kNormEps), scale);
  }
  std::vector<int64_t> all;
  for (int64_t d = by_graph ? 1 : 0; d < x.dim(); ++d) all.push_back(d);
  const auto centred = x - x.mean(all, /*keepdim=*/true);
  // Where all numbers are the same, the gradient of the root would not be finite.
  const auto std = centred.square().mean(all, true).clamp_min(kTinyVariance).sqrt();
  return at::addcmul(shift, centred / (std + kNormEps), scale);
}

at::Tensor Norm::gelu_forward(const at::Tensor& x) const {
  if (kind_ == NormKind::layer && weight.dim() == 3) return norm_gelu(x, weight, bias);
  return at::gelu(forward(x));
}

GraphMlp::GraphMlp(int64_t graphs, int64_t width, NormKind norm) : norm_kind_(norm) {
  for (int i = 0; i < kLinears; ++i)
    dense_.push_back(register_module("dense" + std::to_string(i),
                                     std::make_shared<GraphDense>(graphs, width, width)));
  norm_ = register_module("norm", std::make_shared<Norm>(norm, width, graphs));
}

MlpParameters GraphMlp::parameters() const {
  MlpParameters result;
  result.norm_weight = norm_->weight;
  result.norm_bias = norm_->bias;
  for (size_t i = 0; i < kLinears; ++i) {
    result.weight[i] = dense_[i]->weight;
    result.bias[i] = dense_[i]->bias;
  }
  return result;
}

bool GraphMlp::is_fused(const at::Tensor& u) const {
  const bool fused = norm_kind_ == NormKind::layer && can_fuse_mlp(u);
  if (u.is_cuda())
    tell_way(fused ? "mlp: one kernel each way"
                   : "mlp: in pieces, no kernel for this width, type and norm");
  return fused;
}

at::Tensor GraphMlp::forward_sum(const at::Tensor& u, double share) const {
  return fused_mlp(u, parameters(), share);
}

at::Tensor GraphMlp::forward(const at::Tensor& u, const at::Tensor& used) const {
  if (is_fused(u)) return fused_mlp(u, parameters(), {}, used);
  if (u.is_cpu() && norm_kind_ == NormKind::layer) return row_mlp(u, parameters(), used);
  auto v = u;
  for (int i = 0; i < kLinears; ++i) {
    if (i > 0) v = at::gelu(v);
    stop_point(v);
    v = dense_[size_t(i)]->forward(v);
  }
  const auto y = norm_->gelu_forward(v);
  stop_point(y);
  return y;
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads,
                  const at::Tensor& blocked) {
  const int64_t width = q.size(-1);
  const auto split =
      [&](const at::Tensor& x) {  // [.., tokens, H] -> [.., heads, tokens, H / heads]
        return x.unflatten(-1, {heads, width / heads}).transpose(-3, -2);
      };
  const auto scores =
      at::matmul(split(q), split(k).transpose(-2, -1)) / std::sqrt(double(width) / double(heads));
  at::Tensor weights;
  if (blocked.defined()) {
    const auto hidden = blocked.unsqueeze(-3);
    weights = at::softmax(scores.masked_fill(hidden, -1e30), -1).masked_fill(hidden, 0);
  } else {
    weights = at::softmax(scores, -1);
  }
  stop_point(weights);
  return at::matmul(weights, split(v)).transpose(-3, -2).flatten(-2);
}

}  // namespace lacuna
