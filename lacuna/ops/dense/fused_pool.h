// Softmax pooling over the kept genes of every sample on a GPU, forward and back, with nothing but
// x and the logits in memory:
//
//   l[n, b] = gelu(x W_g + b_g) . w_s + b_s      v = gelu(x W_v + b_v)
//   pooled[b] = sum over kept n of softmax_n(l)[n, b] v[n, b]
//
//   x      [N, B, H]  bf16           keep   [N, B]  u8, 0: removed
//   pooled [B, H]     f32            logits [B, N]  f32, of kept genes
//   lse    [B]        f32, log of the sum of exp(l); 0 where no gene is kept, and pooled is 0 then
//
// v and the sums are f32: what a few removed genes change in a sum over thousands is small. All
// samples are summed in the same order, so that what two of them share rounds alike; and in every
// run.
//
// Widths: 64, on GPUs of compute capability 9.0.
#pragma once

#include <cstdint>

#include "lacuna/core/dtype.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

struct FusedPoolShape {
  int64_t nodes, batch, width;  // N, B, H
};

// Parameters, or where their gradients go. Device memory, f32.
template <class Real>
struct FusedPoolParameters {
  Real* gate_hidden_weight;  // [H, H / 2]
  Real* gate_hidden_bias;    // [H / 2]
  Real* gate_weight;         // [H / 2]
  Real* gate_bias;           // [1]
  Real* value_weight;        // [H, H]
  Real* value_bias;          // [H]
};

bool fused_pool_fits(int64_t width);  // on the current device

// Device pointers, aligned to 16 bytes; nothing waits, nothing is allocated.
uint64_t fused_pool_packed_bytes();
uint64_t fused_pool_workspace(const FusedPoolShape& shape);  // of either pass
void fused_pool_pack(const FusedPoolParameters<const float>& parameters, void* packed,
                     CudaStream stream);
void fused_pool(const FusedPoolShape& shape, const void* packed, const BFloat16* x,
                const uint8_t* keep, float* pooled, float* logits, float* lse, void* workspace,
                CudaStream stream);
// grad_pooled [B, H], grad_x [N, B, H]. Gradients of parameters are written, not added.
void fused_pool_backward(const FusedPoolShape& shape, const void* packed, const BFloat16* x,
                         const uint8_t* keep, const float* pooled, const float* logits,
                         const float* lse, const float* grad_pooled, BFloat16* grad_x,
                         const FusedPoolParameters<float>& gradients, void* workspace,
                         CudaStream stream);

}  // namespace lacuna
