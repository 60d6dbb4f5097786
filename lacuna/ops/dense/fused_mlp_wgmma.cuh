// The kernels of fused_mlp.h for width 64 on Hopper (compute capability 9.0a), where `wgmma` takes
// one operand from registers and one from shared memory.
//
// A warp owns 16 rows, a warpgroup of four warps 64. The accumulator of one product has the layout
// of the next product's register operand, so activations never leave registers; weights lie in
// shared memory, 35 KB a graph, brought by one bulk copy. What bounds it is the arithmetic of GELU.
#pragma once

#include "lacuna/ops/dense/fused_mlp.h"

namespace lacuna::wgmma {

inline constexpr int64_t kFusedWidth = 64;

// Bytes of a graph's packed parameters.
inline constexpr int64_t kPackedBytes = 35840;

void pack(const FusedMlpShape& shape, const FusedMlpParameters<const float>& parameters,
          void* packed, CudaStream stream);
void forward(const FusedMlpShape& shape, const void* packed, const BFloat16* u, BFloat16* y,
             CudaStream stream);
uint64_t backward_workspace(const FusedMlpShape& shape);
void backward(const FusedMlpShape& shape, const void* packed, const BFloat16* u,
              const BFloat16* grad_y, BFloat16* grad_u, const FusedMlpParameters<float>& gradients,
              void* workspace, CudaStream stream);

}  // namespace lacuna::wgmma
