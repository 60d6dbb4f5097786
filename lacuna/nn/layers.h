// The small dense pieces that models are made of.
//
// Every Linear starts Kaiming normal (fan out, ReLU gain) with bias 0. Weights stand as [.., in,
// out], so that y = x W + b. A dimension G in front holds the weights of all graphs in one tensor,
// and one batched product serves them all.
//
// Parameters are f32 (f64 for the reference); a piece computes in the dtype of its input, so bf16
// in gives bf16 out with the weights rounded on the way.
//
// A step of a large model on the CPU takes many seconds; these pieces are where it can be stopped
// (stop_point.h).
#pragma once

#include <torch/nn/module.h>

#include <string>

#include "lacuna/torch/fused_mlp.h"

namespace lacuna {

// Linears that give a score start with weights of this spread, so that first predictions lie near
// the mean label and first weights of a softmax near each other. (The published models start at
// 1.41, the Kaiming value for one output, and spend their first epoch shrinking it.)
inline constexpr double kScoreStd = 0.02;

// y = x W + b over the last dimension: x [.., in] -> [.., out].
class Dense : public torch::nn::Module {
 public:
  // std: of the initial weights; 0 = Kaiming.
  Dense(int64_t in, int64_t out, double std = 0);
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor weight, bias;  // [in, out], [out]
};

// The same for G graphs at once: x [G, rows, in] -> [G, rows, out].
class GraphDense : public torch::nn::Module {
 public:
  GraphDense(int64_t graphs, int64_t in, int64_t out);
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor weight, bias;  // [G, in, out], [G, 1, out]
};

enum class NormKind { layer, batch_graph };
NormKind norm_kind_from_name(const std::string& name);  // throws Error, listing both

// `layer`: every row by its own mean and variance. `batch_graph`: one mean and one standard
// deviation over all rows and channels that are given, x / (std + eps); it couples the samples of a
// batch and is there for parity with published models only. graphs > 0: x [G, rows, H], each graph
// with its own scale, shift and (batch_graph) statistics; else x [.., H].
class Norm : public torch::nn::Module {
 public:
  Norm(NormKind kind, int64_t width, int64_t graphs = 0);
  at::Tensor forward(const at::Tensor& x) const;
  at::Tensor gelu_forward(const at::Tensor& x) const;  // gelu(forward(x))

  at::Tensor weight, bias;  // [H] or [G, 1, H]

 private:
  NormKind kind_;
  int64_t width_;
};

// The dense part of a layer for G graphs: four Linears with GELU between, norm, GELU.
// u [G, rows, H] -> [G, rows, H]
class GraphMlp : public torch::nn::Module {
 public:
  GraphMlp(int64_t graphs, int64_t width, NormKind norm);
  // used i32 [G] or undefined: how many rows of each graph are in use; the others mean nothing.
  at::Tensor forward(const at::Tensor& u, const at::Tensor& used = {}) const;
  // Whether one kernel does all of it for this u (torch/fused_mlp.h).
  bool is_fused(const at::Tensor& u) const;
  // [rows, H]: the sum of forward(u) over the graphs, times share. Only where is_fused().
  at::Tensor forward_sum(const at::Tensor& u, double share) const;

 private:
  MlpParameters parameters() const;

  NormKind norm_kind_;
  std::vector<std::shared_ptr<GraphDense>> dense_;
  std::shared_ptr<Norm> norm_;
};

// Multi-head attention of a set of tokens to itself; q, k, v [.., tokens, H] -> [.., tokens, H].
// blocked [.., tokens, tokens] bool: pairs that do not see each other, the same in every head;
// undefined = none. A token that sees nobody gets 0.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads,
                  const at::Tensor& blocked = {});

}  // namespace lacuna
