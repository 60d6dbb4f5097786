// Bytes to numbers: out = x * scale + shift, in one rounding to f32 (a fused multiply-add), then to
// bf16 where that is the output. The same bits on every processor.
#pragma once

#include <cstdint>

#include "lacuna/core/dtype.h"

namespace lacuna {

// Real is float or BFloat16. x [count], out [count]; out does not overlap x. threads 0: all
// available.
template <class Real>
void cast(const uint8_t* x, int64_t count, float scale, float shift, Real* out, int threads = 0);

}  // namespace lacuna
