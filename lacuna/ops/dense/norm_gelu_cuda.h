// Layer norm with scale and shift, then GELU, of short rows on a GPU, in one pass each way:
//
//   y = gelu(t),  t = (x - mean) / sqrt(var + eps) * weight[g] + bias[g]
//
//   x, y     [G, rows, H]   f32 or bf16; mean and var are those of a row of H
//   weight, bias [G, H]     f32, one a graph
//
// A library's layer norm gives a row to a block, which suits rows of thousands; here a few lanes of
// a warp share a row, so that rows of 64 run at the speed of memory. All sums are f32, in an order
// that the shape alone fixes: the same bits in every run. The backward pass computes mean and var
// again instead of keeping them.
#pragma once

#include <cstdint>

#include "lacuna/core/dtype.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

struct NormGeluShape {
  int64_t graphs, rows, width;  // G, rows a graph, H
};

inline constexpr float kNormEps = 1e-5f;

// Widths of 8, 16, 32, 64, 128 and 256.
bool norm_gelu_cuda_fits(int64_t width);
// Bytes of scratch memory for the backward pass.
uint64_t norm_gelu_cuda_workspace(const NormGeluShape& shape);

// Device pointers, aligned to 16 bytes; nothing waits, nothing is allocated.
template <class Real>
void norm_gelu_cuda(const NormGeluShape& shape, const Real* x, const float* weight,
                    const float* bias, Real* y, CudaStream stream);

// grad_y, grad_x [G, rows, H]    grad_weight, grad_bias [G, H] f32
template <class Real>
void norm_gelu_backward_cuda(const NormGeluShape& shape, const Real* x, const float* weight,
                             const float* bias, const Real* grad_y, Real* grad_x,
                             float* grad_weight, float* grad_bias, void* workspace,
                             CudaStream stream);

}  // namespace lacuna
