#include <algorithm>

#include "lacuna/ops/cast/windows_cuda.h"
#include "lacuna/ops/cuda/cuda_device.cuh"

namespace lacuna {
namespace {

using namespace cuda;

constexpr int kThreads = 256, kBlocksEach = 8;  // a multiprocessor

// (pixel - 127) / 255 of byte k of four, without a conversion and without a division: the byte
// stands in the digits of 2^23, then comes the product with 1 / 255, which rounds to the same bf16,
// and for f32 what is left of it. The tests compare all 256 values with the quotient, to the bit.
template <class Real>
__device__ __forceinline__ float normalised(uint32_t four, int k) {
  constexpr float kShare = 1.0f / 255.0f, kDigits = 8388608.0f;
  const uint32_t pixel_of_digits = __byte_perm(four, __float_as_uint(kDigits), 0x7440 + k);
  const float x = __uint_as_float(pixel_of_digits) - (kDigits + 127.0f), near = x * kShare;
  if constexpr (sizeof(Real) == 2) return near;
  return __fmaf_rn(__fmaf_rn(-255.0f, near, x), kShare, near);
}

// WORDS * 4 bytes from any address, as aligned words; last: the word of the movie's last byte.
template <int WORDS>
__device__ __forceinline__ void load_bytes(const uint8_t* from, const uint32_t* last,
                                           uint32_t (&four)[WORDS]) {
  const auto address = reinterpret_cast<uintptr_t>(from);
  const auto* word = reinterpret_cast<const uint32_t*>(address & ~uintptr_t(3));
  const uint32_t shift = uint32_t(address & 3) * 8;
  uint32_t aligned[WORDS + 1];
#pragma unroll
  for (int w = 0; w < WORDS; ++w) aligned[w] = __ldg(word + w);
  // Behind the last word no byte is asked for.
  aligned[WORDS] = __ldg(word + WORDS < last ? word + WORDS : last);
#pragma unroll
  for (int w = 0; w < WORDS; ++w) four[w] = __funnelshift_r(aligned[w], aligned[w + 1], shift);
}

// A warp makes a frame, 16 aligned bytes of output a lane at a time: frames follow each other in
// the output whatever their size, so a few pixels in front and behind stand alone.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    windows_kernel(WindowsShape s, const uint8_t* __restrict__ movie,
                   const int64_t* __restrict__ newest, Real* __restrict__ out) {
  constexpr int kEach = kWide<Real>, kWarps = kThreads / 32;
  const int lane = int(threadIdx.x) % 32;
  const auto end = reinterpret_cast<uintptr_t>(movie + s.rows * s.pixels - 1);
  const auto* last = reinterpret_cast<const uint32_t*>(end & ~uintptr_t(3));
  for (int64_t frame = int64_t(blockIdx.x) * kWarps + threadIdx.x / 32; frame < s.batch * s.lags;
       frame += int64_t(gridDim.x) * kWarps) {
    const int64_t row = newest[frame / s.lags] - frame % s.lags * s.step;
    const bool is_there = row >= 0 && row < s.rows;
    const uint8_t* from = movie + (is_there ? row : 0) * s.pixels;
    Real* to = out + frame * s.pixels;
    const auto alone = [&](int64_t i) {
      to[i] = round_to<Real>(is_there ? normalised<Real>(from[i], 0) : NAN);
    };
    const int64_t head = min((kEach - frame * s.pixels % kEach) % kEach, s.pixels);
    const int64_t tail = head + (s.pixels - head) / kEach * kEach;
    if (lane < head) alone(lane);
    if (lane < s.pixels - tail) alone(tail + lane);
// Unrolled it is slower: 0.028, 0.043 and 0.044 ms at 1, 2 and 4 (H200, bf16, batch 256).
#pragma unroll 1
    for (int64_t i = head + lane * kEach; i < tail; i += 32 * kEach) {
      uint32_t four[kEach / 4];
      load_bytes(from + i, last, four);
      Pack<Real, kEach> pack;
#pragma unroll
      for (int k = 0; k < kEach; ++k)
        pack.value[k] = round_to<Real>(is_there ? normalised<Real>(four[k / 4], k % 4) : NAN);
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
