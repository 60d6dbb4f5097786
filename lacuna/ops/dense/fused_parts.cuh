// What the fused kernels of this folder share: bf16 pairs, GELU, rows in registers and the layer
// norm over them, and of Hopper barriers in shared memory and bulk copies.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "lacuna/core/dtype.h"
#include "lacuna/ops/dense/norm_gelu_cuda.h"

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
__device__ __forceinline__ void store_shared4(uint32_t address, float x, float y, float z,
                                              float w) {
  asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(address), "f"(x), "f"(y), "f"(z),
               "f"(w)
               : "memory");
}
__device__ __forceinline__ void store_shared2(uint32_t address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}
// Sum over the four lanes that hold a row of an accumulator; all of them get it.
__device__ __forceinline__ float quad_sum(float v) {
  v += __shfl_xor_sync(~0u, v, 1);
  return v + __shfl_xor_sync(~0u, v, 2);
}
// Sum over the eight lanes that hold the same columns of an accumulator.
__device__ __forceinline__ float column_sum(float v) {
  v += __shfl_xor_sync(~0u, v, 4);
  v += __shfl_xor_sync(~0u, v, 8);
  return v + __shfl_xor_sync(~0u, v, 16);
}

// ---- GELU
// gelu(x) = max(x, 0) - |x| Q(|x|), Q(t) = the normal's tail = exp(-t^2 / 2) R(t), R a polynomial
// in s = t sqrt(log2(e) / 2): one exponential an element, and no erf, which takes twice the time.
// The weight exp(-t^2 / 2) forgives the tail. R is evaluated at no more than kMostS, where the
// exponential is 0 already: further out its powers would overflow.
//
// degree: of R, 9 or 6. Results that are rounded to bf16 at once, or where the time counts more,
// can do with 6.
inline constexpr float kToS = 0.84932180028801904f;  // sqrt(log2(e) / 2)
inline constexpr float kMostS = 16;
inline constexpr int kGeluDegree = 9;
__device__ __forceinline__ float exp2_fast(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// Fitted for gelu alone: its largest error is 4.4e-7 (degree 9), 1.1e-5 (6).
template <int degree>
__host__ __device__ constexpr float gelu_term(int k) {
  static_assert(degree == 6 || degree == 9, "fit a polynomial of that degree first");
  constexpr float kNine[] = {0.499989698f,    -0.469500166f,   0.344977653f, -0.211304355f,
                             0.108121357f,    -0.0443276759f,  0.013578669f, -0.00283812161f,
                             0.000354003979f, -1.96259191e-05f};
  constexpr float kSix[] = {0.499621858f,  -0.464693525f,  0.323936695f,  -0.167658043f,
                            0.0588366015f, -0.0120572402f, 0.00106333618f};
  return degree == 9 ? kNine[k] : kSix[k % 7];
}
// Fitted for gelu and its slope together: the largest error of either is 7.0e-7 (9), 2.6e-5 (6).
template <int degree>
__host__ __device__ constexpr float gelu_slope_term(int k) {
  static_assert(degree == 6 || degree == 9, "fit a polynomial of that degree first");
  constexpr float kNine[] = {0.499999587f,   -0.469680456f,   0.346049261f,  -0.214285642f,
                             0.112636128f,   -0.0483236568f,  0.0156954987f, -0.00349638918f,
                             0.00046442546f, -2.73127409e-05f};
  constexpr float kSix[] = {0.499974368f,  -0.468436704f,  0.336137983f,  -0.184856944f,
                            0.0705197929f, -0.0158069498f, 0.00151741578f};
  return degree == 9 ? kNine[k] : kSix[k % 7];
}

// The exponential is taken at the true s, so that a NaN stays one and an infinity becomes one.
template <int degree = kGeluDegree>
__device__ __forceinline__ float gelu(float x) {
  const float s = fabsf(x) * kToS, e = exp2_fast(-s * s), t = fminf(s, kMostS);
  float r = gelu_term<degree>(degree) / kToS;
#pragma unroll
  for (int k = degree - 1; k >= 0; --k) r = fmaf(r, t, gelu_term<degree>(k) / kToS);
  return fmaf(-(e * s), r, fmaxf(x, 0.0f));
}
__device__ __forceinline__ uint32_t gelu_pair(float x0, float x1) {
  return bf16_pair(gelu(x0), gelu(x1));
}

struct ValueAndSlope {
  float value, slope;
};
template <int degree = kGeluDegree>
__device__ __forceinline__ ValueAndSlope gelu_with_slope(float x) {
  const float s = fabsf(x) * kToS, e = exp2_fast(-s * s), t = fminf(s, kMostS);
  float r = gelu_slope_term<degree>(degree);
#pragma unroll
  for (int k = degree - 1; k >= 0; --k) r = fmaf(r, t, gelu_slope_term<degree>(k));
  const float half = fmaf(-e, r, 0.5f);  // the normal's share between 0 and |x|
  const float below =
      0.5f + __uint_as_float(__float_as_uint(half) ^ (__float_as_uint(x) & 0x80000000u));
  return {x * below, fmaf(x * 0.3989422804f, e, below)};
}

// ---- rows in registers
// A warp holds 16 rows. Lane with q = lane / 4 and t = lane % 4 has of rows q and q + 8, as sums,
// in d[4 j + e] column 8 j + 2 t + (e & 1) of row q (e < 2) or q + 8: the accumulator of a product.
// As the operand of the next product, pairs of them are a[2 j] (row q) and a[2 j + 1] (row q + 8).
// For a width H these are H / 2 sums and H / 4 pairs.
//
// A lane's columns are pairs all over the row. In memory they are runs of 8: rows move as 16-byte
// pieces between memory and registers, and the weights that meet them are permuted instead when
// they are packed (a product does not care in which order its inner index runs).
__host__ __device__ constexpr int memory_column(int n) {
  return 32 * (n >> 5) + 8 * ((n >> 1) & 3) + 2 * ((n >> 3) & 3) + (n & 1);
}

// p0, p1: this lane's place (column 8 t) in rows q, q + 8.
template <int kPairs>
__device__ __forceinline__ void load_rows(uint32_t (&a)[kPairs], const BFloat16* p0,
                                          const BFloat16* p1) {
#pragma unroll
  for (int i = 0; i < kPairs; i += 8) {
    const uint4 v = __ldg(reinterpret_cast<const uint4*>(p0 + 4 * i));
    const uint4 w = __ldg(reinterpret_cast<const uint4*>(p1 + 4 * i));
    a[i] = v.x, a[i + 2] = v.y, a[i + 4] = v.z, a[i + 6] = v.w;
    a[i + 1] = w.x, a[i + 3] = w.y, a[i + 5] = w.z, a[i + 7] = w.w;
  }
}
template <int kSums>
__device__ __forceinline__ void store_rows(const float (&d)[kSums], BFloat16* p, int row, int rows,
                                           int t) {
  constexpr int kWidth = 2 * kSums;
#pragma unroll
  for (int below = 0; below < 2; ++below)
#pragma unroll
    for (int i = 0; i < kSums; i += 16)
      if (row + 8 * below < rows) {
        const float* c = d + i + 2 * below;
        *reinterpret_cast<uint4*>(p + size_t(row + 8 * below) * kWidth + 2 * i + 8 * t) =
            make_uint4(bf16_pair(c[0], c[1]), bf16_pair(c[4], c[5]), bf16_pair(c[8], c[9]),
                       bf16_pair(c[12], c[13]));
      }
}

// ---- layer norm of the two rows that a quad of lanes holds
struct TwoRows {
  float upper, lower;
};
// Leaves d centred; -> 1 / std
template <int kSums>
__device__ __forceinline__ TwoRows centre_rows(float (&d)[kSums], float eps) {
  constexpr float kShare = 0.5f / kSums;
  float sum0 = 0, sum1 = 0;
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    sum0 += d[i] + d[i + 1];
    sum1 += d[i + 2] + d[i + 3];
  }
  const float mean0 = quad_sum(sum0) * kShare, mean1 = quad_sum(sum1) * kShare;
  float square0 = 0, square1 = 0;
#pragma unroll
  for (int i = 0; i < kSums; i += 4)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& upper = d[i + e];
      float& lower = d[i + 2 + e];
      upper -= mean0;
      lower -= mean1;
      square0 = fmaf(upper, upper, square0);
      square1 = fmaf(lower, lower, square1);
    }
  return {rsqrtf(quad_sum(square0) * kShare + eps), rsqrtf(quad_sum(square1) * kShare + eps)};
}

// d: the last Linear -> y in f32. packed.norm_weight(j), .norm_bias(j): of columns 8 j + 2 t and
// 8 j + 2 t + 1.
template <int kSums, class Packed>
__device__ __forceinline__ void norm_gelu_rows(float (&d)[kSums], const Packed& packed) {
  const TwoRows scale = centre_rows(d, kNormEps);
#pragma unroll
  for (int j = 0; j < kSums / 4; ++j) {
    const float2 w = packed.norm_weight(j), b = packed.norm_bias(j);
    d[4 * j] = gelu(fmaf(d[4 * j] * scale.upper, w.x, b.x));
    d[4 * j + 1] = gelu(fmaf(d[4 * j + 1] * scale.upper, w.y, b.y));
    d[4 * j + 2] = gelu(fmaf(d[4 * j + 2] * scale.lower, w.x, b.x));
    d[4 * j + 3] = gelu(fmaf(d[4 * j + 3] * scale.lower, w.y, b.y));
  }
}

// Two columns in, one out: sums over a pair of lanes while halving the columns that a lane holds.
__device__ __forceinline__ float fold(float v0, float v1, int lane, int bit) {
  const bool takes_second = lane & bit;
  return (takes_second ? v1 : v0) + __shfl_xor_sync(~0u, takes_second ? v0 : v1, bit);
}
// Gradients of the norm's parameters: one column of every 32 for each lane.
template <int kWidth>
struct NormSums {
  float weight[kWidth / 32] = {}, bias[kWidth / 32] = {};

  __device__ static int column(int k, int lane) {
    return 8 * (((lane >> 3) & 3) + 4 * k) + 2 * (lane & 3) + ((lane >> 2) & 1);
  }
  __device__ void store(float* to, int lane) const {  // weight [H], bias [H]
#pragma unroll
    for (int k = 0; k < kWidth / 32; ++k) {
      to[column(k, lane)] = weight[k];
      to[kWidth + column(k, lane)] = bias[k];
    }
  }
};

// The way back through GELU and norm. d: the last Linear; dy: gradients of y, to be multiplied by
// share -> a: gradients of d. Adds to the norm's own.
template <int kSums, class Packed>
__device__ __forceinline__ void norm_back(float (&d)[kSums], const uint32_t (&dy)[kSums / 2],
                                          uint32_t (&a)[kSums / 2], const Packed& packed,
                                          float share, int lane, NormSums<2 * kSums>& sums) {
  const TwoRows scale = centre_rows(d, kNormEps);
  float h[kSums], of_bias[4], of_weight[4];
  float sum[2] = {}, product[2] = {};  // of the upper and the lower row
#pragma unroll
  for (int j = 0; j < kSums / 4; ++j) {
    const float2 w = packed.norm_weight(j), b = packed.norm_bias(j);
    float db[2], dw[2];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int column = e & 1, row = e >> 1;
      const float weight = column ? w.y : w.x, bias = column ? b.y : b.x;
      const float x = d[4 * j + e] * (row ? scale.lower : scale.upper);
      const uint32_t pair = dy[2 * j + row];
      const float grad = gelu_with_slope(fmaf(x, weight, bias)).slope *
                         ((column ? high_of(pair) : low_of(pair)) * share);
      db[column] = row ? db[column] + grad : grad;
      dw[column] = row ? fmaf(grad, x, dw[column]) : grad * x;
      d[4 * j + e] = x;
      h[4 * j + e] = grad * weight;
      sum[row] += h[4 * j + e];
      product[row] = fmaf(h[4 * j + e], x, product[row]);
    }
    of_bias[j & 3] = fold(db[0], db[1], lane, 4);
    of_weight[j & 3] = fold(dw[0], dw[1], lane, 4);
    if (j & 1) {
      of_bias[j & 2] = fold(of_bias[j & 2], of_bias[j & 3], lane, 8);
      of_weight[j & 2] = fold(of_weight[j & 2], of_weight[j & 3], lane, 8);
    }
    if ((j & 3) == 3) {
      sums.bias[j >> 2] += fold(of_bias[0], of_bias[2], lane, 16);
      sums.weight[j >> 2] += fold(of_weight[0], of_weight[2], lane, 16);
    }
  }
  constexpr float kShare = 0.5f / kSums;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float mean = quad_sum(sum[row]) * kShare, slope = quad_sum(product[row]) * kShare;
    const float s = row ? scale.lower : scale.upper;
#pragma unroll
    for (int j = 0; j < kSums / 4; ++j) {
      const int i = 4 * j + 2 * row;
      a[2 * j + row] = bf16_pair(s * (h[i] - fmaf(d[i], slope, mean)),
                                 s * (h[i + 1] - fmaf(d[i + 1], slope, mean)));
    }
  }
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
// Whether that wait would end at once.
__device__ __forceinline__ bool barrier_done(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred done;\n"
      "mbarrier.test_wait.parity.shared.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}
// A barrier's phase ends when this many bytes have come, too.
__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// One of several copies that a barrier_expect() counts together.
__device__ __forceinline__ void bulk_copy_part(uint32_t to, const void* from, uint32_t bytes,
                                               uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// One thread: `bytes` (a multiple of 16) from device memory, complete when the barrier's phase is.
__device__ __forceinline__ void bulk_copy(uint32_t to, const void* from, uint32_t bytes,
                                          uint32_t barrier) {
  barrier_expect(barrier, bytes);
  bulk_copy_part(to, from, bytes, barrier);
}
// `threads` threads of a block meet; number: 1 to 15, 0 is __syncthreads(). After
// meeting_arrive() a thread goes on at once.
__device__ __forceinline__ void meet(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void meeting_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
// Before the tensor cores read from shared memory what ordinary stores wrote there.
__device__ __forceinline__ void stores_before_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace lacuna::cuda
