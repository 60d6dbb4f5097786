// From node states to labels: pooling over kept genes, the global head, the local head.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "lacuna/nn/layers.h"

namespace lacuna {

// Softmax-weighted sum over the kept genes: x [N, B, H], keep [N, B] bool -> [B, H]; 0 where no
// gene is kept. Sums are taken in f32 or wider.
class Pool : public torch::nn::Module {
 public:
  explicit Pool(int64_t width);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& keep);

 private:
  std::shared_ptr<Dense> gate_hidden_, gate_, value_;
};

// Difference of pooled states [B, H] -> [B, L].
class GlobalHead : public torch::nn::Module {
 public:
  GlobalHead(int64_t width, int64_t labels);
  at::Tensor forward(const at::Tensor& difference);

 private:
  std::shared_ptr<Dense> hidden_, score_;
};

// How much the removed genes of a sample change each other. Two layers of self-attention inside the
// set, without a gene's own token: score = Linear((dynamic - static)^2), mean over the set. A set
// of one passes through; an empty set scores 0. On the CPU sets are predicted with those of their
// own size: what stands beside a sample does not change the order of its sums.
class LocalHead : public torch::nn::Module {
 public:
  LocalHead(int64_t width, int64_t heads, int64_t labels);
  // genes [N, H]: states of the wild type; sets [B, k] as in ModelInput -> [B, L]
  at::Tensor forward(const at::Tensor& genes, const at::Tensor& sets);

 private:
  struct Layer : torch::nn::Module {
    explicit Layer(int64_t width);
    std::shared_ptr<Dense> query, key, value, out;
    at::Tensor beta;  // scalar
  };
  at::Tensor score_sets(const at::Tensor& genes, const at::Tensor& sets);

  int64_t heads_;
  std::shared_ptr<Dense> static_, score_;
  std::vector<std::shared_ptr<Layer>> layers_;
};

enum class Output { average, gate, global, local };
Output output_from_name(const std::string& name);  // throws Error, listing the four

}  // namespace lacuna
