// Pixels to numbers: out = (x - 127) / 255, a true division in f32, then rounded once to bf16 where
// that is the output. All 256 grey levels stay distinct in both. The same bits on every processor
// and as NumPy's (x.astype(np.float32) - 127) / 255; multiplying by 1/255 would differ in 126 of
// the 256.
#pragma once

#include <cstdint>

#include "lacuna/core/dtype.h"

namespace lacuna {

inline constexpr float kPixelMiddle = 127, kPixelRange = 255;

// Real is float or BFloat16. x [count], out [count]; out does not overlap x. On this thread alone:
// a loader has threads of its own.
template <class Real>
void normalise_pixels(const uint8_t* x, uint64_t count, Real* out);

}  // namespace lacuna
