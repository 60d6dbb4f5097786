// What the kernels of this folder share: a cone as they see it, and rows dealt out to lanes.
//
// Rows are short (128 bytes at width 64 in bf16), so some lanes of a warp share a row, 16 bytes
// each, and a block of 128 threads takes one row with its neighbours dealt out to the groups of
// lanes: a hub of thousands is then no longer than a few hundred reads. Groups are added up in
// order.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "lacuna/ops/aggregate/aggregate_gather.cuh"
#include "lacuna/ops/cone/cone_cuda.h"

namespace lacuna::cuda {

inline constexpr int kConeThreads = 128;

template <class Real>
using Wide = std::conditional_t<sizeof(Real) == 2, float, double>;

struct Cone {
  int nodes, types, batch;
  int64_t capacity;
  const int32_t* place;
  const int32_t* row;
  const int32_t* used;

  Cone(const ConeShape& shape, const ConeLists& lists)
      : nodes(int(shape.nodes)),
        types(int(shape.types)),
        batch(int(shape.batch)),
        capacity(shape.capacity),
        place(lists.place),
        row(lists.row),
        used(lists.used) {}
  __device__ int64_t rows() const { return nodes + capacity; }
  __device__ const int32_t* places(int t, int n) const {  // [B]
    return place + (int64_t(t) * nodes + n) * batch;
  }
  __device__ bool gone(int n, int b) const { return place[int64_t(n) * batch + b] < 0; }
};

// ---- rows dealt out to groups of lanes
// kLanes lanes hold a row of width H, VEC elements each; a block has kConeThreads / kLanes groups.
template <class Real, int VEC>
struct RowGroup {
  int lanes, groups, group, column;
  bool active;  // this lane has a column of the row

  __device__ explicit RowGroup(int width) {
    lanes = 1;
    while (lanes * VEC < width && lanes < 32) lanes *= 2;
    groups = kConeThreads / lanes;
    group = int(threadIdx.x) / lanes;
    column = int(threadIdx.x) % lanes * VEC;
    active = column < width;
  }
};

template <class Real, int VEC>
__device__ __forceinline__ void add_row(Wide<Real> (&sum)[VEC], const Real* p) {
  Pack<Real, VEC> pack;
  pack.load(p);
#pragma unroll
  for (int k = 0; k < VEC; ++k) sum[k] += Wide<Real>(widen(pack.value[k]));
}
template <class Real, int VEC>
__device__ __forceinline__ void take_row(Wide<Real> (&sum)[VEC], const Real* p) {
  Pack<Real, VEC> pack;
  pack.load(p);
#pragma unroll
  for (int k = 0; k < VEC; ++k) sum[k] -= Wide<Real>(widen(pack.value[k]));
}
// Sums as they are, 16 bytes at a time.
template <class Real, int VEC>
inline constexpr int kWideStep = VEC == 1 ? 1 : 16 / int(sizeof(Wide<Real>));
template <class Real, int VEC>
__device__ __forceinline__ void load_wide(Wide<Real> (&sum)[VEC], const Wide<Real>* p) {
  constexpr int kStep = kWideStep<Real, VEC>;
#pragma unroll
  for (int first = 0; first < VEC; first += kStep) {
    Pack<Wide<Real>, kStep> pack;
    pack.load(p + first);
#pragma unroll
    for (int k = 0; k < kStep; ++k) sum[first + k] = pack.value[k];
  }
}
template <class Real, int VEC>
__device__ __forceinline__ void add_wide(Wide<Real> (&sum)[VEC], const Wide<Real>* p) {
  Wide<Real> more[VEC];
  load_wide<Real, VEC>(more, p);
#pragma unroll
  for (int k = 0; k < VEC; ++k) sum[k] += more[k];
}
template <class Real, int VEC>
__device__ __forceinline__ void store_wide(Wide<Real>* p, const Wide<Real> (&sum)[VEC]) {
  constexpr int kStep = kWideStep<Real, VEC>;
#pragma unroll
  for (int first = 0; first < VEC; first += kStep) {
    Pack<Wide<Real>, kStep> pack;
#pragma unroll
    for (int k = 0; k < kStep; ++k) pack.value[k] = sum[first + k];
    pack.store(p + first);
  }
}
template <class Real, int VEC>
__device__ __forceinline__ void store_row(Real* p, const Wide<Real> (&sum)[VEC]) {
  Pack<Real, VEC> pack;
#pragma unroll
  for (int k = 0; k < VEC; ++k) pack.value[k] = round_to<Real>(Sum<Real>(sum[k]));
  pack.store(p);
}

// Adds up the groups of a block, in an order that the width fixes; group 0 gets the sum: first
// those of a warp, then the warps.
template <class Real, int VEC>
__device__ __forceinline__ void sum_groups(Wide<Real> (&sum)[VEC], const RowGroup<Real, VEC>& me) {
  __shared__ Wide<Real> part[kConeThreads / 32][32 * VEC];
  for (int step = me.lanes; step < 32; step *= 2)
#pragma unroll
    for (int k = 0; k < VEC; ++k) sum[k] += __shfl_xor_sync(~0u, sum[k], step);
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  __syncthreads();
  if (lane < me.lanes)
#pragma unroll
    for (int k = 0; k < VEC; ++k) part[warp][lane * VEC + k] = sum[k];
  __syncthreads();
  if (me.group > 0) return;
  for (int w = 1; w < kConeThreads / 32; ++w)
#pragma unroll
    for (int k = 0; k < VEC; ++k) sum[k] += part[w][lane * VEC + k];
}

// Calls body with the number of elements a lane takes: 16 bytes, or one where rows do not allow it.
template <class Real, class Body>
inline void with_vector(int64_t width, std::initializer_list<const void*> arrays,
                        const Body& body) {
  const bool wide = width % kWide<Real> == 0 && std::ranges::all_of(arrays, is_aligned);
  wide ? body(std::integral_constant<int, kWide<Real>>()) : body(std::integral_constant<int, 1>());
}

inline cudaStream_t stream_of(const CudaLaunch& launch) {
  return static_cast<cudaStream_t>(launch.stream);
}

// Enough blocks to keep the device busy, for kernels that loop over `count` pieces of a type.
inline dim3 copy_grid(int64_t count, int64_t types) {
  constexpr int64_t kMostBlocks = 1024;
  const int64_t blocks = std::min(divide_up(count, kConeThreads), kMostBlocks);
  return {uint32_t(std::max<int64_t>(blocks, 1)), uint32_t(types)};
}

}  // namespace lacuna::cuda
