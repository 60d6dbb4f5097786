// The pairwise merge of a layer in one kernel forward and a few back (ops/dense/fused_pairwise.h),
// with gradients to y and to every parameter.
#pragma once

#include <ATen/core/Tensor.h>

namespace lacuna {

// P = G (G + 1) / 2 pairs. All f32.
struct PairwiseParameters {
  at::Tensor hidden_weight, hidden_bias;              // [P, 2 H, 32], [P, 1, 32]
  at::Tensor out_weight, out_bias;                    // [P, 32, H], [P, 1, H]
  at::Tensor score_hidden_weight, score_hidden_bias;  // [H, 32], [32]
  at::Tensor score_weight, score_bias;                // [32, 1], [1]
  at::Tensor norm_weight, norm_bias;                  // [H]; undefined: no norm
};

// Whether there is such a kernel for this y [G, rows, H]: bf16, on a GPU that has one, of a width
// and a number of graphs that it takes.
bool can_fuse_pairwise(const at::Tensor& y);

// y [G, rows, H] -> [rows, H]: the weighted sum of the options, with a norm's parameters its layer
// norm. used i32 [1] or undefined: how many rows are in use; the others of the result mean nothing.
// Only where can_fuse_pairwise().
at::Tensor fused_pairwise(const at::Tensor& y, const PairwiseParameters& parameters,
                          const at::Tensor& used = {});

}  // namespace lacuna
