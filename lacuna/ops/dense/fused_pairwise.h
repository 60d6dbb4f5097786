// The `pairwise` merge of a layer on a GPU, y [G, rows, H] -> x [rows, H], each row on its own:
//
//   option of a pair i <= j   o = W gelu(U [y_i, y_j] + b) + d        each pair has its own weights
//   one more option           o = mean over g of y_g
//   score of an option        s = w . gelu(V o + c) + e               the same scorer for all
//   x = layer norm of the sum over options of softmax(s) o            (the norm may be left out)
//
// for P = G (G + 1) / 2 pairs, counted (0, 0), (0, 1) .. (0, G - 1), (1, 1) ..
//
//   y    [G, rows, H]  bf16
//   x    [rows, H]     bf16
//   parameters         f32, weights [.., in, out], rounded to bf16 when packed; products are summed
//                      in f32
//
// No option is ever formed: the scorer's first Linear is folded into the pair's second when the
// parameters are packed, V (W h + d) + c = (V W) h + (V d + c), and the weighted sum of options is
// W (p h) + d p, added up under an online softmax. The backward pass computes each pair again from
// y and from what the forward kept of a row: the sum, the mean and the logarithm of the softmax'
// denominator. e has no influence on x; its gradient is 0.
//
// All sums are in an order that shape and device fix: the same bits in every run.
//
// Numbers that are not finite: a NaN in y makes its row of x (and every gradient) NaN; an infinity
// inside makes NaN. Values up to 1e15 are handled.
//
// Width 64, 2 to 18 graphs, on GPUs of compute capability 9.0 (fused_pairwise_wgmma.cu). Ten graphs
// and more take half the rows at a time, and more time for each.
#pragma once

#include <cstdint>

#include "lacuna/core/dtype.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

inline constexpr int64_t kPairwiseHidden = 32;  // of a pair's MLP and of the scorer

struct FusedPairwiseShape {
  int64_t graphs, rows, width;  // G, rows, H
  bool normed = true;  // false: x is the sum itself, and the norm's parameters are not read
  // One number in device memory: how many rows are in use, the others are left alone; null: all.
  const int32_t* used = nullptr;

  int64_t pairs() const { return graphs * (graphs + 1) / 2; }
};

// Parameters, or where their gradients go. Device memory, f32.
template <class Real>
struct FusedPairwiseParameters {
  Real* hidden_weight;        // U [P, 2 H, 32]
  Real* hidden_bias;          // b [P, 32]
  Real* out_weight;           // W [P, 32, H]
  Real* out_bias;             // d [P, H]
  Real* score_hidden_weight;  // V [H, 32]
  Real* score_hidden_bias;    // c [32]
  Real* score_weight;         // w [32]
  Real* score_bias;           // e [1]; read by nobody, its gradient is written
  Real* norm_weight;          // [H]; not touched where the shape is not normed
  Real* norm_bias;            // [H]
};

// What the backward pass needs of a forward pass. Device memory.
template <class Half, class Float>
struct FusedPairwiseRows {
  Half* sum = nullptr;       // [rows, H] x before the norm
  Half* mean = nullptr;      // [rows, H] of y
  Float* log_sum = nullptr;  // [rows] log2 of the sum of 2^(scores in units of log 2)
};
using FusedPairwiseKept = FusedPairwiseRows<const BFloat16, const float>;

// Whether the current device can do it; else the caller computes in pieces.
bool fused_pairwise_fits(int64_t graphs, int64_t width);

// Device pointers, aligned to 16 bytes; nothing waits, nothing is allocated.
// packed [fused_pairwise_packed_bytes()]: the parameters as the kernels want them, made anew after
// every change.
uint64_t fused_pairwise_packed_bytes(const FusedPairwiseShape& shape);
void fused_pairwise_pack(const FusedPairwiseShape& shape,
                         const FusedPairwiseParameters<const float>& parameters, void* packed,
                         CudaStream stream);
// keep: pointers that are null are not written.
void fused_pairwise(const FusedPairwiseShape& shape, const void* packed, const BFloat16* y,
                    BFloat16* x, const FusedPairwiseRows<BFloat16, float>& keep, CudaStream stream);

// parameters: those that were packed. grad_y [G, rows, H]. Gradients of parameters are written, not
// added.
uint64_t fused_pairwise_backward_workspace(const FusedPairwiseShape& shape);
void fused_pairwise_backward(const FusedPairwiseShape& shape, const void* packed,
                             const FusedPairwiseParameters<const float>& parameters,
                             const BFloat16* y, const FusedPairwiseKept& kept,
                             const BFloat16* grad_x, BFloat16* grad_y,
                             const FusedPairwiseParameters<float>& gradients, void* workspace,
                             CudaStream stream);

}  // namespace lacuna
