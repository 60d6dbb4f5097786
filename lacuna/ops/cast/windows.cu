#include <algorithm>

#include "lacuna/ops/cast/windows_cuda.h"
#include "lacuna/ops/cuda/cuda_device.cuh"

namespace lacuna {
namespace {

using namespace cuda;

constexpr int kThreads = 256, kBlocksEach = 8;  // a multiprocessor

__device__ __forceinline__ float normalised(uint32_t pixel) {
  return __fdiv_rn(float(pixel) - 127.0f, 255.0f);
}

// Where a frame of a window starts in the movie; -1: nowhere.
__device__ __forceinline__ int64_t frame_start(const WindowsShape& s, const int64_t* newest,
                                               int64_t frame) {
  const int64_t row = newest[frame / s.lags] - frame % s.lags * s.step;
  return row < 0 || row >= s.rows ? -1 : row * s.pixels;
}

// EACH bytes from any address, as aligned words of four.
template <int EACH>
__device__ __forceinline__ void load_bytes(const uint8_t* from, const uint8_t* end,
                                           uint32_t (&pixel)[EACH]) {
  const auto address = reinterpret_cast<uintptr_t>(from);
  const auto* word = reinterpret_cast<const uint32_t*>(address & ~uintptr_t(3));
  const uint32_t shift = uint32_t(address & 3) * 8;
  uint32_t low = __ldg(word);
#pragma unroll
  for (int w = 0; w < EACH / 4; ++w) {
    // The word behind the last byte is read only where the bytes reach into it.
    const bool reaches = shift != 0 || w + 1 < EACH / 4;
    const uint32_t high =
        reaches && reinterpret_cast<const uint8_t*>(word + w + 1) < end ? __ldg(word + w + 1) : 0;
    const uint32_t four = __funnelshift_r(low, high, shift);
#pragma unroll
    for (int k = 0; k < 4; ++k) pixel[4 * w + k] = (four >> (8 * k)) & 255;
    low = high;
  }
}

// A thread makes 16 bytes of output at a time. Frames follow each other in the output whatever
// their size, so a thread's piece may begin in one frame and end in the next.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    windows_kernel(WindowsShape s, const uint8_t* __restrict__ movie,
                   const int64_t* __restrict__ newest, Real* __restrict__ out) {
  constexpr int kEach = kWide<Real>;
  const int64_t count = s.batch * s.lags * s.pixels, step = int64_t(gridDim.x) * kThreads * kEach;
  for (int64_t i = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * kEach; i < count; i += step) {
    const int64_t frame = i / s.pixels, at = i % s.pixels, start = frame_start(s, newest, frame);
    if (at + kEach <= s.pixels && start >= 0) {
      uint32_t pixel[kEach];
      load_bytes(movie + start + at, movie + s.rows * s.pixels, pixel);
      Pack<Real, kEach> pack;
#pragma unroll
      for (int k = 0; k < kEach; ++k) pack.value[k] = round_to<Real>(normalised(pixel[k]));
      pack.store(out + i);
      continue;
    }
    for (int64_t k = i; k < min(i + kEach, count); ++k) {
      const int64_t begin = frame_start(s, newest, k / s.pixels);
      out[k] = round_to<Real>(begin < 0 ? NAN : normalised(movie[begin + k % s.pixels]));
    }
  }
}

}  // namespace

template <class Real>
void gather_windows_cuda(const WindowsShape& shape, const uint8_t* movie, const int64_t* newest,
                         Real* out, CudaStream stream) {
  const int64_t count = shape.batch * shape.lags * shape.pixels;
  if (count <= 0) return;
  if (!is_aligned(out)) throw_error("gather_windows: out must be aligned to 16 bytes");
  int device = 0, processors = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
        "the number of multiprocessors");
  const int64_t blocks = divide_up(count, int64_t(kThreads) * kWide<Real>);
  windows_kernel<Real><<<uint32_t(std::min<int64_t>(blocks, processors * kBlocksEach)), kThreads, 0,
                         static_cast<cudaStream_t>(stream)>>>(shape, movie, newest, out);
  check_launch("gather_windows");
}

template void gather_windows_cuda<float>(const WindowsShape&, const uint8_t*, const int64_t*,
                                         float*, CudaStream);
template void gather_windows_cuda<BFloat16>(const WindowsShape&, const uint8_t*, const int64_t*,
                                            BFloat16*, CudaStream);

}  // namespace lacuna
