// The kernels of fused_mlp.h for widths 32, 64 and 128 on every GPU of compute capability 8.0 and
// later (mma_parts.cuh). Where a GPU has more shared memory than 99 KB they use it.
//
// A warp owns 16 rows. The accumulator of one product has the layout of the next product's register
// operand, so activations never leave registers; weights come to shared memory with `cp.async`, a
// graph at a time, for width 128 a Linear at a time.
//
// The backward pass goes in phases of a few tiles a block. In a phase every warp computes its rows
// forward again and walks back; the inputs a of the Linears and the gradients dz behind them go to
// the block's own part of the workspace, mostly by way of the L2 cache. Then all warps
// together turn these into gradients of weights, a^T dz, which are added to the block's slot.
#pragma once

#include "lacuna/ops/dense/fused_mlp.h"

namespace lacuna::mma {

// shared: how much shared memory a block may have.
bool fits(int64_t width, int shared);
uint64_t packed_bytes(const FusedMlpShape& shape);
void pack(const FusedMlpShape& shape, const FusedMlpParameters<const float>& parameters,
          void* packed, CudaStream stream);
void forward(const FusedMlpShape& shape, int shared, const void* packed, const BFloat16* u,
             BFloat16* y, CudaStream stream);
uint64_t backward_workspace(const FusedMlpShape& shape, int shared);
void backward(const FusedMlpShape& shape, int shared, const void* packed, const BFloat16* u,
              const BFloat16* grad_y, BFloat16* grad_u, const FusedMlpParameters<float>& gradients,
              void* workspace, CudaStream stream);

}  // namespace lacuna::mma
