// Windows of a movie in a GPU's memory (ops/cast/windows_cuda.h), on tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace lacuna {

// movie u8 [rows, Y, X], newest i64 [B]: rows of the movie -> [B, lags, Y, X] in dtype, f32 or
// bf16: rows newest, newest - step, .. as (pixel - 127) / 255. Throws Error for tensors that are
// not on one GPU, or of other shapes or types.
at::Tensor gather_windows(const at::Tensor& movie, const at::Tensor& newest, int64_t lags,
                          int64_t step, at::ScalarType dtype);

}  // namespace lacuna
