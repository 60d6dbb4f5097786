// The dense part of a layer on a GPU, all graphs in one launch and nothing but its ends in memory:
//
//   u -> Linear -> GELU -> Linear -> GELU -> Linear -> GELU -> Linear -> layer norm -> GELU = y
//
// with weights of its own for every graph, and the merges `sum` and `mean` on the way out.
//
//   u      [G, rows, H]  bf16
//   y      [G, rows, H]  bf16, or with a merge [rows, H]
//   weight [G, in, out]  f32, rounded to bf16 when packed; products are summed in f32
//
// The backward pass computes the forward again from u, so that a layer keeps u alone. All sums are
// in an order that shape and device fix: the same bits in every run.
//
// Numbers that are not finite: a NaN in u makes its row of y (and every gradient) NaN; an infinity
// inside makes NaN, as it does without fusing. Values up to the largest f32 are handled.
//
// Widths: 32, 64 and 128, on GPUs of compute capability 8.0 and later (fused_mlp_mma.cu); 64 on 9.0
// with instructions of its own (fused_mlp_wgmma.cu). Sizes follow the device's shared memory.
#pragma once

#include <cstdint>

#include "lacuna/core/dtype.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

inline constexpr int kMlpLinears = 4;

struct FusedMlpShape {
  int64_t graphs, rows, width;  // G, rows a graph, H
  bool merged = false;          // y is [rows, H]: the sum over the graphs, times `share`
  float share = 1;              // 1 / G for `mean`
  // [G] in device memory: how many rows of each graph are in use, the others are left alone; null:
  // all. Not with a merge.
  const int32_t* used = nullptr;
  // For tests and measurements, the same in every call that belongs together: take the kernels of
  // compute capability 8.0 on a newer device too, and no more shared memory a block than so many
  // bytes (0: what the device has; 99 KB at least). A limit is kept by the portable kernels alone.
  bool portable = false;
  int shared_limit = 0;
};

// Parameters, or where their gradients go. Device memory, f32.
template <class Real>
struct FusedMlpParameters {
  Real* weight[kMlpLinears];  // each [G, in, out]
  Real* bias[kMlpLinears];    // each [G, out]
  Real* norm_weight;          // [G, H]
  Real* norm_bias;            // [G, H]
};

// Whether the current device can do it; else the caller computes in pieces.
bool fused_mlp_fits(int64_t width, bool portable = false);

// Device pointers, aligned to 16 bytes; nothing waits, nothing is allocated.
// packed [fused_mlp_packed_bytes()]: the parameters as the kernels want them, made anew after every
// change.
uint64_t fused_mlp_packed_bytes(const FusedMlpShape& shape);
void fused_mlp_pack(const FusedMlpShape& shape, const FusedMlpParameters<const float>& parameters,
                    void* packed, CudaStream stream);
void fused_mlp(const FusedMlpShape& shape, const void* packed, const BFloat16* u, BFloat16* y,
               CudaStream stream);

// grad_y as y; grad_u [G, rows, H]. Gradients of parameters are written, not added.
uint64_t fused_mlp_backward_workspace(const FusedMlpShape& shape);
void fused_mlp_backward(const FusedMlpShape& shape, const void* packed, const BFloat16* u,
                        const BFloat16* grad_y, BFloat16* grad_u,
                        const FusedMlpParameters<float>& gradients, void* workspace,
                        CudaStream stream);

}  // namespace lacuna
