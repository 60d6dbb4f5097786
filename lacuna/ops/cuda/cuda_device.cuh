// Small things that every kernel of this folder uses: element types, 16-byte reads, launch checks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "lacuna/core/dtype.h"
#include "lacuna/ops/cuda/cuda_error.h"

namespace lacuna::cuda {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw_cuda_error(what, cudaGetErrorString(status));
}
inline void check_launch(const char* what) { check(cudaGetLastError(), what); }
inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline uint64_t aligned(uint64_t bytes) { return (bytes + 255) / 256 * 256; }
// Whether 16 bytes can be read at once from there.
inline bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// What sums of an element type are kept in.
template <class Real>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<double> {
  using Type = double;
};
template <class Real>
using Sum = typename SumOf<Real>::Type;

__device__ __forceinline__ float widen(BFloat16 v) {
  return __uint_as_float(uint32_t(v.bits) << 16);
}
__device__ __forceinline__ float widen(float v) { return v; }
__device__ __forceinline__ double widen(double v) { return v; }
template <class Real>
__device__ __forceinline__ Real round_to(Sum<Real> v) {
  if constexpr (sizeof(Real) == 2) {
    BFloat16 r;
    r.bits = __bfloat16_as_ushort(__float2bfloat16_rn(v));
    return r;
  } else {
    return v;
  }
}

// How many elements 16 bytes hold.
template <class Real>
inline constexpr int kWide = 16 / int(sizeof(Real));

// VEC elements in flight, as they lie in memory: 16 bytes, or one element.
template <class Real, int VEC>
struct Pack {
  union {
    uint4 raw;
    Real value[VEC];
  };
  __device__ Pack() : raw{0, 0, 0, 0} {}
  __device__ __forceinline__ void load(const Real* p) {
    if constexpr (VEC == 1) {
      value[0] = *p;
    } else {
      raw = __ldg(reinterpret_cast<const uint4*>(p));
    }
  }
  __device__ __forceinline__ void store(Real* p) const {
    if constexpr (VEC == 1) {
      *p = value[0];
    } else {
      *reinterpret_cast<uint4*>(p) = raw;
    }
  }
};

// One CSR of the graph's plan, in device memory.
struct Csr {
  const uint32_t* ptr;    // [N + 1]
  const void* neighbour;  // [E] u16 or u32
  const uint32_t* edge;   // [E]
  uint64_t first_edge;    // of the type, when the edges of all types stand in one row

  __device__ __forceinline__ uint32_t node(uint32_t place, bool wide) const {
    return wide ? static_cast<const uint32_t*>(neighbour)[place]
                : uint32_t(static_cast<const uint16_t*>(neighbour)[place]);
  }
};

inline constexpr int kMaxTypes = 64;  // edge types a launch can name
struct CsrTable {
  Csr of[kMaxTypes];
};

}  // namespace lacuna::cuda
