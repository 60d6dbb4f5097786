// cast() (cast.h) on a GPU: device pointers, the same bits.
#pragma once

#include <cstdint>

#include "lacuna/core/dtype.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

// Real is float or BFloat16. x [count], out [count]; no alignment is asked for, 16 bytes are
// fastest.
template <class Real>
void cast_cuda(const uint8_t* x, int64_t count, float scale, float shift, Real* out,
               CudaStream stream);

}  // namespace lacuna
