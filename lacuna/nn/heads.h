// From node states to labels: pooling over kept genes, the global head, the local head.
#pragma once

#include <torch/nn/module.h>

#include <functional>
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

// What the removed genes of a sample say one by one and two by two, whatever their order:
//
//   sum over genes of offset(a) + mean over pairs of pair([a + b, a * b, |a - b|])
//
// offset = Linear(H, H), GELU, Linear(H, L); pair = Linear(3 H, H), GELU, dropout, Linear(H, L). A
// set of one has its offset alone; an empty set scores 0. On the CPU sets are predicted with those
// of their own size, as above.
class PairHead : public torch::nn::Module {
 public:
  PairHead(int64_t width, int64_t labels);
  // rows [B, k, H]: a state a place of the sets; sets [B, k] as in ModelInput -> [B, L]. drop_out:
  // what dropout does with numbers [B, ..] of the samples.
  using DropOut = std::function<at::Tensor(const at::Tensor&)>;
  at::Tensor forward(const at::Tensor& rows, const at::Tensor& sets, const DropOut& drop_out);

 private:
  at::Tensor score_sets(const at::Tensor& rows, const at::Tensor& sets, const DropOut& drop_out);

  std::shared_ptr<Dense> offset_hidden_, offset_, pair_hidden_, pair_;
};

// Two genes by the products of their factors:
//
//   sum over genes of their offsets
//     + mean over pairs of (a * b) W + second(gelu(first([a + b, a * b]))) + bias
//
// A gene's row has H factors and, behind them, an offset for every label. W [H, L] starts at 1 and
// -1 by turns, so that like genes can do the same and the opposite. hidden: the width between first
// and second; 0: products alone. A set of one has its offsets and the bias; an empty set the bias.
class ProductHead : public torch::nn::Module {
 public:
  ProductHead(int64_t width, int64_t hidden, int64_t labels);
  // rows [B, k, H + L]: a row a place of the sets; sets [B, k] as in ModelInput -> [B, L].
  at::Tensor forward(const at::Tensor& rows, const at::Tensor& sets);

 private:
  at::Tensor score_sets(const at::Tensor& rows, const at::Tensor& sets);

  int64_t width_;
  std::shared_ptr<Dense> first_, second_;  // null where hidden is 0
  at::Tensor products_, bias_;             // W [H, L], [L]
};

// genes [N, H], sets [B, k] -> [B, k, H]; of a place without a gene that of gene 0, which is not
// looked at.
at::Tensor rows_of_sets(const at::Tensor& genes, const at::Tensor& sets);

// What a local head reads.
enum class Local {
  attention,   // LocalHead on the wild type's states of the removed genes
  wild_type,   // PairHead on these
  neighbours,  // PairHead on the sample's states of their neighbours
};
Local local_from_name(const std::string& name);  // throws Error, listing the three

enum class Output { average, gate, global, local };
Output output_from_name(const std::string& name);  // throws Error, listing the four

}  // namespace lacuna
