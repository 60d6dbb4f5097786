// How the outputs of all graphs become one: y [G, rows, H] -> [rows, H], each row on its own.
//
//   sum, mean
//   attention   tokens y_g + a learned position, self-attention over the G tokens (4 heads), mean
//               of the tokens
//   pairwise    an own small MLP for each of the G (G + 1) / 2 pairs, and the mean of all y as one
//               more option; a shared scorer, softmax over the options, weighted sum, norm
//
// pairwise forms neither [y_i, y_j] (the first Linear is split into a half for i and a half for j)
// nor the options of the pairs (the scorer and the weighted sum are moved in front of the second
// Linear); both are the same sums in another order. Its [pairs, rows, 32] tensors are still large,
// so rows are taken in blocks, which are computed again in the backward pass; on the CPU those of
// attention too. Where there is a kernel for all of it (torch/fused_pairwise.h,
// torch/fused_attention.h), that one does it.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>

#include "lacuna/nn/layers.h"

namespace lacuna {

class Merge : public torch::nn::Module {
 public:
  // used i32 [1]: how many rows are in use, the others of the result mean nothing; undefined: all.
  virtual at::Tensor forward(const at::Tensor& y, const at::Tensor& used = {}) = 0;
  // Whether forward() computes the rows in use alone, for y of this device, dtype and [G, .., H].
  virtual bool looks_at_used(const at::Tensor&) const { return false; }
  // Where forward(y) is the sum over the graphs times a number, that number: a kernel that has all
  // of a row's y can add them up itself.
  virtual std::optional<double> share_of_sum() const { return {}; }
};

// kind: sum, mean, attention or pairwise; throws Error for another. device: where y will be.
// savings: false for the plain form of pairwise, without blocks and with [y_i, y_j] formed (the
// same numbers to rounding).
std::shared_ptr<Merge> make_merge(const std::string& kind, int64_t graphs, int64_t width,
                                  NormKind norm, at::Device device, bool savings = true);

}  // namespace lacuna
