// Windows of a movie that lies in a GPU's memory, gathered and normalised there in one pass, for
// the rung device:resident:
//
//   out[b, k] = (movie[newest[b] - k * step] - 127) / 255      k = 0 .. lags - 1, newest first
//
//   movie  [rows, pixels]     u8          newest [B]  i64, rows of the movie
//   out    [B, lags, pixels]  f32 or bf16, the same bits as normalise_pixels() (pixels.h)
//
// A row that is not in the movie is not read; its frame becomes NaN, which no training overlooks.
#pragma once

#include <cstdint>

#include "lacuna/core/dtype.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

struct WindowsShape {
  int64_t rows, pixels;       // of the movie
  int64_t batch, lags, step;  // B; rows from one lag to the next
};

// Device pointers; movie and out aligned to 16 bytes, and the movie readable up to the next
// multiple of four bytes, as what every CUDA allocator gives is. Nothing waits, nothing is
// allocated.
template <class Real>
void gather_windows_cuda(const WindowsShape& shape, const uint8_t* movie, const int64_t* newest,
                         Real* out, CudaStream stream);

}  // namespace lacuna
