// What the fused kernels of this folder share: bf16 pairs, GELU, barriers in shared memory, bulk
// copies.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace lacuna::cuda {

// ---- registers
__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
// Two floats as a pair of bf16, the first in the low half.
__device__ __forceinline__ uint32_t bf16_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ float low_of(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_of(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}
// Keeps the compiler from computing an address anew before every use.
__device__ __forceinline__ uint32_t opaque(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}
__device__ __forceinline__ float4 load_shared4(uint32_t address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address));
  return v;
}
__device__ __forceinline__ float2 load_shared2(uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address));
  return v;
}
// Sum over the four lanes that hold a row of an accumulator; all of them get it.
__device__ __forceinline__ float quad_sum(float v) {
  v += __shfl_xor_sync(~0u, v, 1);
  return v + __shfl_xor_sync(~0u, v, 2);
}

// ---- GELU
// gelu(x) = max(x, 0) - |x| Q(|x|), Q(t) = the normal's tail = exp(-t^2 / 2) R(t), R a polynomial
// in s = t sqrt(log2(e) / 2): one exponential an element, and no erf, which takes twice the time.
// The weight exp(-t^2 / 2) forgives the tail. R is evaluated at no more than kMostS, where the
// exponential is 0 already: further out its powers would overflow.
inline constexpr float kToS = 0.84932180028801904f;  // sqrt(log2(e) / 2)
inline constexpr float kMostS = 16;
inline constexpr int kGeluDegree = 9;
__device__ __forceinline__ float exp2_fast(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// The exponential is taken at the true s, so that a NaN stays one and an infinity becomes one.
__device__ __forceinline__ float gelu(float x) {
  const float s = fabsf(x) * kToS, e = exp2_fast(-s * s), t = fminf(s, kMostS);
  // Fitted for gelu alone: its largest error is 4.4e-7.
  constexpr float kTerms[] = {0.499989698f,    -0.469500166f,   0.344977653f, -0.211304355f,
                              0.108121357f,    -0.0443276759f,  0.013578669f, -0.00283812161f,
                              0.000354003979f, -1.96259191e-05f};
  float r = kTerms[kGeluDegree] / kToS;
#pragma unroll
  for (int k = kGeluDegree - 1; k >= 0; --k) r = fmaf(r, t, kTerms[k] / kToS);
  return fmaf(-(e * s), r, fmaxf(x, 0.0f));
}
__device__ __forceinline__ uint32_t gelu_pair(float x0, float x1) {
  return bf16_pair(gelu(x0), gelu(x1));
}

struct ValueAndSlope {
  float value, slope;
};
__device__ __forceinline__ ValueAndSlope gelu_with_slope(float x) {
  const float s = fabsf(x) * kToS, e = exp2_fast(-s * s), t = fminf(s, kMostS);
  // Fitted for gelu and its slope together: the largest error of either is 7.0e-7.
  constexpr float kTerms[] = {0.499999587f,   -0.469680456f,   0.346049261f,  -0.214285642f,
                              0.112636128f,   -0.0483236568f,  0.0156954987f, -0.00349638918f,
                              0.00046442546f, -2.73127409e-05f};
  float r = kTerms[kGeluDegree];
#pragma unroll
  for (int k = kGeluDegree - 1; k >= 0; --k) r = fmaf(r, t, kTerms[k]);
  const float half = fmaf(-e, r, 0.5f);  // the normal's share between 0 and |x|
  const float below =
      0.5f + __uint_as_float(__float_as_uint(half) ^ (__float_as_uint(x) & 0x80000000u));
  return {x * below, fmaf(x * 0.3989422804f, e, below)};
}

// ---- barriers in shared memory, and copies that arrive at them
// A wait ends because what it waits for needs nobody who waits here: every kernel says at its top
// who arrives. All blocks of a launch work alone, so none waits for a block that is not running.
__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barriers_are_made() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "AGAIN: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@done bra END;\nbra AGAIN;\nEND:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// One thread: `bytes` (a multiple of 16) from device memory, complete when the barrier's phase is.
__device__ __forceinline__ void bulk_copy(uint32_t to, const void* from, uint32_t bytes,
                                          uint32_t barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// Before the tensor cores read from shared memory what ordinary stores wrote there.
__device__ __forceinline__ void stores_before_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace lacuna::cuda
