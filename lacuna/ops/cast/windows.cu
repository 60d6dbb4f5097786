#include <algorithm>

#include "lacuna/ops/cast/windows_cuda.h"
#include "lacuna/ops/cuda/cuda_device.cuh"

namespace lacuna {
namespace {

using namespace cuda;

constexpr int kThreads = 256, kBlocksEach = 8;  // a multiprocessor

// (pixel - 127) / 255 without a division: the product with 1 / 255, and what is left of it. The
// tests compare all 256 values with the quotient, to the bit.
__device__ __forceinline__ float normalised(uint32_t pixel) {
  constexpr float kShare = 1.0f / 255.0f;
  const float x = float(pixel) - 127.0f, near = x * kShare;
  return __fmaf_rn(__fmaf_rn(-255.0f, near, x), kShare, near);
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

// A warp makes a frame, 16 aligned bytes of output a lane at a time: frames follow each other in
// the output whatever their size, so a few pixels in front and behind stand alone.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    windows_kernel(WindowsShape s, const uint8_t* __restrict__ movie,
                   const int64_t* __restrict__ newest, Real* __restrict__ out) {
  constexpr int kEach = kWide<Real>, kWarps = kThreads / 32;
  const int lane = int(threadIdx.x) % 32;
  const uint8_t* end = movie + s.rows * s.pixels;
  for (int64_t frame = int64_t(blockIdx.x) * kWarps + threadIdx.x / 32; frame < s.batch * s.lags;
       frame += int64_t(gridDim.x) * kWarps) {
    const int64_t row = newest[frame / s.lags] - frame % s.lags * s.step;
    const bool is_there = row >= 0 && row < s.rows;
    const uint8_t* from = movie + (is_there ? row : 0) * s.pixels;
    Real* to = out + frame * s.pixels;
    const auto alone = [&](int64_t i) {
      to[i] = round_to<Real>(is_there ? normalised(from[i]) : NAN);
    };
    const int64_t head = min((kEach - frame * s.pixels % kEach) % kEach, s.pixels);
    const int64_t tail = head + (s.pixels - head) / kEach * kEach;
    if (lane < head) alone(lane);
    if (lane < s.pixels - tail) alone(tail + lane);
#pragma unroll 4
    for (int64_t i = head + lane * kEach; i < tail; i += 32 * kEach) {
      uint32_t pixel[kEach];
      load_bytes(from + i, end, pixel);
      Pack<Real, kEach> pack;
#pragma unroll
      for (int k = 0; k < kEach; ++k)
        pack.value[k] = round_to<Real>(is_there ? normalised(pixel[k]) : NAN);
      pack.store(to + i);
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
  const int64_t blocks = divide_up(shape.batch * shape.lags, int64_t(kThreads / 32));
  windows_kernel<Real><<<uint32_t(std::min<int64_t>(blocks, processors * kBlocksEach)), kThreads, 0,
                         static_cast<cudaStream_t>(stream)>>>(shape, movie, newest, out);
  check_launch("gather_windows");
}

template void gather_windows_cuda<float>(const WindowsShape&, const uint8_t*, const int64_t*,
                                         float*, CudaStream);
template void gather_windows_cuda<BFloat16>(const WindowsShape&, const uint8_t*, const int64_t*,
                                            BFloat16*, CudaStream);

}  // namespace lacuna
