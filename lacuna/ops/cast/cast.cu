#include <algorithm>

#include "lacuna/ops/cast/cast_cuda.h"
#include "lacuna/ops/cuda/cuda_device.cuh"

namespace lacuna {
namespace {

using namespace cuda;

constexpr int kThreads = 256;

// A thread makes 16 bytes of output from as many elements of input.
template <class Real, bool WIDE>
__global__ void __launch_bounds__(kThreads)
    cast_kernel(const uint8_t* x, int64_t count, float scale, float shift, Real* out) {
  constexpr int kEach = WIDE ? kWide<Real> : 1;
  const int64_t step = int64_t(gridDim.x) * kThreads * kEach;
  for (int64_t i = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * kEach; i < count; i += step) {
    if (WIDE && i + kEach <= count) {
      uint8_t byte[kEach];
      if constexpr (kEach == 8) {
        *reinterpret_cast<uint2*>(byte) = __ldg(reinterpret_cast<const uint2*>(x + i));
      } else if constexpr (kEach == 4) {
        *reinterpret_cast<uint32_t*>(byte) = __ldg(reinterpret_cast<const uint32_t*>(x + i));
      }
      Pack<Real, kWide<Real>> result;
#pragma unroll
      for (int c = 0; c < kEach; ++c) {
        result.value[c] = round_to<Real>(fmaf(float(byte[c]), scale, shift));
      }
      result.store(out + i);
    } else {
      for (int64_t k = i; k < min(i + kEach, count); ++k) {
        out[k] = round_to<Real>(fmaf(float(x[k]), scale, shift));
      }
    }
  }
}

}  // namespace

template <class Real>
void cast_cuda(const uint8_t* x, int64_t count, float scale, float shift, Real* out,
               CudaStream stream_) {
  if (count < 0) throw_error("count must not be negative");
  if (count == 0) return;
  const auto stream = static_cast<cudaStream_t>(stream_);
  const bool wide =
      reinterpret_cast<uintptr_t>(x) % 8 == 0 && reinterpret_cast<uintptr_t>(out) % 16 == 0;
  const int64_t each = int64_t(kThreads) * (wide ? kWide<Real> : 1);
  const uint32_t blocks = uint32_t(std::min<int64_t>(divide_up(count, each), 132 * 32));
  if (wide) {
    cast_kernel<Real, true><<<blocks, kThreads, 0, stream>>>(x, count, scale, shift, out);
  } else {
    cast_kernel<Real, false><<<blocks, kThreads, 0, stream>>>(x, count, scale, shift, out);
  }
  check_launch("cast");
}

template void cast_cuda<float>(const uint8_t*, int64_t, float, float, float*, CudaStream);
template void cast_cuda<BFloat16>(const uint8_t*, int64_t, float, float, BFloat16*, CudaStream);

}  // namespace lacuna
