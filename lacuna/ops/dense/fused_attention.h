// Self-attention over the G graphs of a row on a GPU, y [G, rows, H] -> z [rows, H], each row on
// its own, with four heads of H / 4 columns:
//
//   tokens           t_g = y_g + position_g                       rounded to bf16
//   of a head        q_g = Q t_g + b,  k_g = K t_g,  v_g = V t_g
//   attention        a_ij = softmax over j of q_i . k_j / sqrt(H / 4)
//   z = mean over i of the sum over j of a_ij v_j, + the bias of v
//
//   y    [G, rows, H]  bf16
//   z    [rows, H]     bf16
//   parameters         f32, weights [in, out], rounded to bf16 when packed; products are summed in
//                      f32
//
// Neither q, k, v nor the attention is written to memory. The backward pass computes them again
// from y, so that a layer keeps y alone. The bias of k adds the same to all scores of a softmax:
// it has no influence on z, and its gradient is 0.
//
// All sums are in an order that shape and device fix: the same bits in every run.
//
// Numbers that are not finite: a NaN in y makes its row of z (and every gradient of a parameter)
// NaN; an infinity inside makes NaN. Values up to 1e15 are handled.
//
// Widths 32, 64 and 128, 1 to 16 graphs, on GPUs of compute capability 8.0 and later. Sizes follow
// the device's shared memory. Time follows 16 tokens a row, however many there are.
#pragma once

#include <cstdint>

#include "lacuna/core/dtype.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

inline constexpr int kAttentionLinears = 3;  // of q, k and v

struct FusedAttentionShape {
  int64_t graphs, rows, width;  // G, rows, H
  // One number in device memory: how many rows are in use; the others are not read, and become 0 in
  // z and in the gradient of y. Null: all.
  const int32_t* used = nullptr;
  // For tests and measurements: no more shared memory a block than so many bytes (0: what the
  // device has; 99 KB at least).
  int shared_limit = 0;
};

// Parameters, or where their gradients go. Device memory, f32.
template <class Real>
struct FusedAttentionParameters {
  Real* position;                   // [G, H]
  Real* weight[kAttentionLinears];  // of q, k, v, each [in, out]; a head's outputs side by side
  Real* bias[kAttentionLinears];    // each [out]; that of k is read by nobody
};

// Whether the current device can do it; else the caller computes in pieces.
bool fused_attention_fits(int64_t graphs, int64_t width);

// Device pointers, aligned to 16 bytes; nothing waits, nothing is allocated.
// packed [fused_attention_packed_bytes()]: the parameters as the kernels want them, made anew after
// every change.
uint64_t fused_attention_packed_bytes(const FusedAttentionShape& shape);
void fused_attention_pack(const FusedAttentionShape& shape,
                          const FusedAttentionParameters<const float>& parameters, void* packed,
                          CudaStream stream);
void fused_attention(const FusedAttentionShape& shape, const void* packed, const BFloat16* y,
                     BFloat16* z, CudaStream stream);

// grad_y [G, rows, H]. Gradients of parameters are written, not added.
uint64_t fused_attention_backward_workspace(const FusedAttentionShape& shape);
void fused_attention_backward(const FusedAttentionShape& shape, const void* packed,
                              const BFloat16* y, const BFloat16* grad_z, BFloat16* grad_y,
                              const FusedAttentionParameters<float>& gradients, void* workspace,
                              CudaStream stream);

}  // namespace lacuna
