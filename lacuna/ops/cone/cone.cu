// See cone.h and cone_cuda.h.
//
// Rows are short (128 bytes at width 64 in bf16), so some lanes of a warp share a row, 16 bytes
// each, and a block of 128 threads takes one row with its neighbours dealt out to the groups of
// lanes: a hub of thousands is then no longer than a few hundred reads. Groups are added up in
// order.
#include <algorithm>

#include "lacuna/ops/aggregate/aggregate_gather.cuh"
#include "lacuna/ops/cone/cone_cuda.h"

namespace lacuna {
namespace {

using namespace cuda;

constexpr int kThreads = 128;
constexpr int kChunk = 2048;                        // places that a block counts
constexpr int kEpsBlocks = 64, kClearBlocks = 128;  // a type

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

// ---- lists
// Block (place in `removed`, type): marks the targets of one removed gene.
__global__ void mark_kernel(CsrTable by_source, bool wide_index, CudaRemoved removed, int nodes,
                            int32_t* place, int32_t* error) {
  const int i = int(blockIdx.x), t = int(blockIdx.y);
  int low = 0, high = int(removed.batch);  // the sample of place i
  while (low < high) {
    const int mid = (low + high) / 2;
    if (removed.ptr[mid + 1] <= i) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  if (low == removed.batch || removed.ptr[low] > i) return;
  const int gene = removed.index[i];
  if (gene < 0 || gene >= nodes) {
    if (threadIdx.x == 0 && error) atomicOr(error, kBadRemovedIndex);
    return;
  }
  const Csr& csr = by_source.of[t];
  int32_t* of_type = place + int64_t(t) * nodes * removed.batch;
  for (uint32_t e = csr.ptr[gene] + threadIdx.x; e < csr.ptr[gene + 1]; e += blockDim.x)
    of_type[int64_t(csr.node(e, wide_index)) * removed.batch + low] = 1;
}
// After it: removed genes themselves. Thread (place in `removed`), type.
__global__ void mark_removed_kernel(CudaRemoved removed, int nodes, int32_t* place) {
  const int b = int(blockIdx.x), t = int(blockIdx.y);
  for (int i = removed.ptr[b] + int(threadIdx.x); i < removed.ptr[b + 1]; i += int(blockDim.x)) {
    const int gene = i < removed.capacity ? removed.index[i] : -1;
    if (gene >= 0 && gene < nodes) place[(int64_t(t) * nodes + gene) * removed.batch + b] = -1;
  }
}

// Sum over the block, in the order of the threads for the running one.
__device__ int count_before(int mine, int& total) {
  __shared__ int of_warp[kThreads / 32];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  int running = mine;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, running, step);
    if (lane >= step) running += other;
  }
  __syncthreads();
  if (lane == 31) of_warp[warp] = running;
  __syncthreads();
  int before = 0;
  total = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    before += w < warp ? of_warp[w] : 0;
    total += of_warp[w];
  }
  return before + running - mine;
}

// Block (chunk, type): counts [T, chunks]
__global__ void __launch_bounds__(kThreads) count_kernel(Cone cone, int32_t* counts) {
  const int64_t places = int64_t(cone.nodes) * cone.batch, first = int64_t(blockIdx.x) * kChunk;
  const int32_t* place = cone.place + int64_t(blockIdx.y) * places;
  int mine = 0, total = 0;
  for (int64_t i = first + threadIdx.x; i < min(first + kChunk, places); i += kThreads)
    mine += place[i] > 0;
  count_before(mine, total);
  if (threadIdx.x == 0) counts[blockIdx.y * gridDim.x + blockIdx.x] = total;
}

// The same grid: numbers what is marked, in order.
__global__ void __launch_bounds__(kThreads)
    number_kernel(Cone cone, const int32_t* counts, int32_t* place_, int32_t* row, int32_t* used,
                  int32_t* error) {
  const int t = int(blockIdx.y), chunks = int(gridDim.x);
  int before = 0, total = 0;
  for (int c = int(threadIdx.x); c < int(blockIdx.x); c += kThreads)
    before += counts[t * chunks + c];
  count_before(before, total);
  int64_t next = total;
  const int64_t places = int64_t(cone.nodes) * cone.batch, first = int64_t(blockIdx.x) * kChunk;
  int32_t* place = place_ + int64_t(t) * places;
  for (int64_t begin = first; begin < min(first + kChunk, places); begin += kThreads) {
    const int64_t i = begin + threadIdx.x;
    const bool listed = i < min(first + kChunk, places) && place[i] > 0;
    int in_round = 0;
    const int64_t e = next + count_before(listed, in_round);
    if (listed && e < cone.capacity) {
      place[i] = int32_t(e) + 1;
      row[t * cone.capacity + e] = int32_t(i);
    } else if (listed) {
      place[i] = 0;
      if (error) atomicOr(error, kConeTooLong);
    }
    next += in_round;
  }
  if (int(blockIdx.x) == chunks - 1 && threadIdx.x == 0)
    used[t] = cone.nodes + int32_t(min(next, cone.capacity));
}

// ---- rows dealt out to groups of lanes
// kLanes lanes hold a row of width H, VEC elements each; a block has kThreads / kLanes groups.
template <class Real, int VEC>
struct Group {
  int lanes, groups, group, column;
  bool active;  // this lane has a column of the row

  __device__ explicit Group(int width) {
    lanes = 1;
    while (lanes * VEC < width && lanes < 32) lanes *= 2;
    groups = kThreads / lanes;
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
__device__ __forceinline__ void store_row(Real* p, const Wide<Real> (&sum)[VEC]) {
  Pack<Real, VEC> pack;
#pragma unroll
  for (int k = 0; k < VEC; ++k) pack.value[k] = round_to<Real>(Sum<Real>(sum[k]));
  pack.store(p);
}

// Adds up the groups of a block, in an order that the width fixes; group 0 gets the sum: first
// those of a warp, then the warps.
template <class Real, int VEC>
__device__ __forceinline__ void sum_groups(Wide<Real> (&sum)[VEC], const Group<Real, VEC>& me) {
  __shared__ Wide<Real> part[kThreads / 32][32 * VEC];
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
  for (int w = 1; w < kThreads / 32; ++w)
#pragma unroll
    for (int k = 0; k < VEC; ++k) sum[k] += part[w][lane * VEC + k];
}

// Block (row, type): the sums of a row of the wild type, or of a listed one.
template <class Real, int VEC>
__global__ void __launch_bounds__(kThreads)
    aggregate_kernel(CsrTable by_target, bool wide_index, Cone cone, int width, const Real* x,
                     const Parameter<Real>* eps, Real* u) {
  const int t = int(blockIdx.y), used = cone.used[t];
  const Csr& csr = by_target.of[t];
  for (int64_t i = blockIdx.x; i < used; i += gridDim.x) {
    Real* out = u + (int64_t(t) * cone.rows() + i) * width;
    const int listed = i < cone.nodes ? -1 : cone.row[t * cone.capacity + i - cone.nodes];
    const int n = listed < 0 ? int(i) : listed / cone.batch, b = listed % cone.batch;
    for (int first = 0; first < width; first += 32 * VEC) {
      Group<Real, VEC> me(min(width - first, 32 * VEC));
      const Real* from = x + first + me.column;
      Wide<Real> sum[VEC] = {};
      for (uint32_t e = csr.ptr[n] + me.group; e < csr.ptr[n + 1]; e += me.groups) {
        const int neighbour = int(csr.node(e, wide_index));
        if (listed >= 0 && cone.gone(neighbour, b)) continue;
        if (me.active) add_row(sum, from + int64_t(neighbour) * width);
      }
      sum_groups(sum, me);
      if (me.group == 0 && me.active) {
        Pack<Real, VEC> own;
        own.load(from + int64_t(n) * width);
        const auto self = Wide<Real>(1) + Wide<Real>(eps[t]);
#pragma unroll
        for (int k = 0; k < VEC; ++k) sum[k] += self * Wide<Real>(widen(own.value[k]));
        store_row(out + first + me.column, sum);
      }
    }
  }
}

// ---- backward
// Thread = VEC columns of (type, node): total [T, N, H], the gradients of all rows of a node.
template <class Real, int VEC>
__global__ void __launch_bounds__(kThreads)
    total_kernel(Cone cone, int width, const Real* grad_u, Wide<Real>* total) {
  const int64_t i = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * VEC, row = i / width;
  if (row >= int64_t(cone.types) * cone.nodes) return;
  const int t = int(row / cone.nodes), n = int(row % cone.nodes), c = int(i % width);
  const Real* rows = grad_u + int64_t(t) * cone.rows() * width + c;
  const int32_t* place = cone.places(t, n);
  Wide<Real> sum[VEC] = {};
  add_row(sum, rows + int64_t(n) * width);
  for (int b = 0; b < cone.batch; ++b)
    if (place[b] > 0) add_row(sum, rows + int64_t(cone.nodes + place[b] - 1) * width);
#pragma unroll
  for (int k = 0; k < VEC; ++k) total[i + k] = sum[k];
}

// Block = a node of x: what its targets' rows pass back, and the self terms.
template <class Real, int VEC>
__global__ void __launch_bounds__(kThreads)
    grad_kernel(CsrTable by_source, bool wide_index, Cone cone, int width, const Real* grad_u,
                const Wide<Real>* total, const Parameter<Real>* eps, Real* grad_x) {
  const int n = int(blockIdx.x);
  int mine = 0;
  for (int b = int(threadIdx.x); b < cone.batch; b += kThreads) mine |= cone.gone(n, b);
  const bool ever_gone = __syncthreads_or(mine);
  for (int first = 0; first < width; first += 32 * VEC) {
    Group<Real, VEC> me(min(width - first, 32 * VEC));
    Wide<Real> sum[VEC] = {};
    for (int t = 0; t < cone.types; ++t) {
      const Csr& csr = by_source.of[t];
      const Real* rows = grad_u + int64_t(t) * cone.rows() * width + first + me.column;
      const Wide<Real>* totals = total + int64_t(t) * cone.nodes * width + first + me.column;
      for (uint32_t e = csr.ptr[n] + me.group; e < csr.ptr[n + 1]; e += me.groups) {
        if (!me.active) continue;
        const int target = int(csr.node(e, wide_index));
        if (!ever_gone) {
#pragma unroll
          for (int k = 0; k < VEC; ++k) sum[k] += totals[int64_t(target) * width + k];
          continue;
        }
        add_row(sum, rows + int64_t(target) * width);
        const int32_t* place = cone.places(t, target);
        for (int b = 0; b < cone.batch; ++b)
          if (place[b] > 0 && !cone.gone(n, b))
            add_row(sum, rows + int64_t(cone.nodes + place[b] - 1) * width);
      }
      if (me.group == 0 && me.active) {
        const auto self = Wide<Real>(1) + Wide<Real>(eps[t]);
#pragma unroll
        for (int k = 0; k < VEC; ++k) sum[k] += self * totals[int64_t(n) * width + k];
      }
    }
    sum_groups(sum, me);
    if (me.group == 0 && me.active) store_row(grad_x + int64_t(n) * width + first + me.column, sum);
  }
}

// Block (part, type): partial [T, kEpsBlocks]
template <class Real>
__global__ void __launch_bounds__(kThreads)
    eps_kernel(int64_t elements, const Wide<Real>* total, const Real* x, double* partial) {
  __shared__ double part[kThreads];
  const Wide<Real>* of_type = total + blockIdx.y * elements;
  const int64_t begin = elements * blockIdx.x / gridDim.x,
                end = elements * (blockIdx.x + 1) / gridDim.x;
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads)
    sum += double(of_type[i]) * double(widen(x[i]));
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 1; i < kThreads; ++i) sum += part[i];
  partial[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}
template <class Param>
__global__ void sum_eps_kernel(const double* partial, Param* grad_eps) {
  if (threadIdx.x > 0) return;
  double sum = 0;
  for (int i = 0; i < kEpsBlocks; ++i) sum += partial[blockIdx.x * kEpsBlocks + i];
  grad_eps[blockIdx.x] = Param(sum);
}

// ---- the types added up, and back into place
// Block = a node; its wild type's sum is kept for the samples that differ in no type.
template <class Real, int VEC>
__global__ void __launch_bounds__(kThreads)
    cone_sum_kernel(Cone cone, int width, double share, const Real* y, Real* out) {
  const int n = int(blockIdx.x);
  for (int first = 0; first < width; first += 32 * VEC) {
    Group<Real, VEC> me(min(width - first, 32 * VEC));
    const Real* rows = y + first + me.column;
    Real* to = out + int64_t(n) * (cone.batch + 1) * width + first + me.column;
    Wide<Real> shared[VEC] = {};
    for (int t = 0; t < cone.types && me.active; ++t)
      add_row(shared, rows + (t * cone.rows() + n) * width);
#pragma unroll
    for (int k = 0; k < VEC; ++k) shared[k] *= Wide<Real>(share);
    for (int b = me.group; b <= cone.batch && me.active; b += me.groups) {
      int differs = 0;
      for (int t = 0; t < cone.types && b < cone.batch; ++t) differs |= cone.places(t, n)[b];
      if (differs == 0) {
        store_row(to + int64_t(b) * width, shared);
        continue;
      }
      Wide<Real> sum[VEC] = {};
      for (int t = 0; t < cone.types && differs > 0; ++t) {
        const int place = cone.places(t, n)[b];
        add_row(sum, rows + (t * cone.rows() + (place > 0 ? cone.nodes + place - 1 : n)) * width);
      }
#pragma unroll
      for (int k = 0; k < VEC; ++k) sum[k] *= Wide<Real>(share);
      store_row(to + int64_t(b) * width, sum);
    }
  }
}

// Block = a node; a group takes a type after another.
template <class Real, int VEC>
__global__ void __launch_bounds__(kThreads)
    cone_sum_backward_kernel(Cone cone, int width, double share, const Real* grad_out,
                             Real* grad_y) {
  const int n = int(blockIdx.x);
  for (int first = 0; first < width; first += 32 * VEC) {
    Group<Real, VEC> me(min(width - first, 32 * VEC));
    const Real* from = grad_out + int64_t(n) * (cone.batch + 1) * width + first + me.column;
    for (int t = me.group; t < cone.types && me.active; t += me.groups) {
      Real* rows = grad_y + t * cone.rows() * width + first + me.column;
      const int32_t* place = cone.places(t, n);
      Wide<Real> sum[VEC] = {};
      for (int b = 0; b <= cone.batch; ++b) {
        const int at = b < cone.batch ? place[b] : 0;
        if (at < 0) continue;
        if (at == 0) {
          add_row(sum, from + int64_t(b) * width);
          continue;
        }
        Wide<Real> own[VEC] = {};
        add_row(own, from + int64_t(b) * width);
#pragma unroll
        for (int k = 0; k < VEC; ++k) own[k] *= Wide<Real>(share);
        store_row(rows + int64_t(cone.nodes + at - 1) * width, own);
      }
#pragma unroll
      for (int k = 0; k < VEC; ++k) sum[k] *= Wide<Real>(share);
      store_row(rows + int64_t(n) * width, sum);
    }
  }
}
// Rows behind the listed ones. Block (part, type).
template <class Real, int VEC>
__global__ void clear_kernel(Cone cone, int width, Real* rows) {
  const int64_t end = cone.rows() * width;
  Real* of_type = rows + blockIdx.y * end;
  const Wide<Real> nothing[VEC] = {};
  for (int64_t i = int64_t(cone.used[blockIdx.y]) * width +
                   (int64_t(blockIdx.x) * kThreads + threadIdx.x) * VEC;
       i < end; i += int64_t(gridDim.x) * kThreads * VEC)
    store_row(of_type + i, nothing);
}

// Calls body with the number of elements a lane takes: 16 bytes, or one where rows do not allow it.
template <class Real, class Body>
void with_vector(int64_t width, std::initializer_list<const void*> arrays, const Body& body) {
  const bool wide = width % kWide<Real> == 0 && std::ranges::all_of(arrays, is_aligned);
  wide ? body(std::integral_constant<int, kWide<Real>>()) : body(std::integral_constant<int, 1>());
}

int64_t chunks_of(const ConeShape& shape) {
  return std::max<int64_t>(divide_up(shape.nodes * shape.batch, kChunk), 1);
}

cudaStream_t stream_of(const CudaLaunch& launch) {
  return static_cast<cudaStream_t>(launch.stream);
}

}  // namespace

uint64_t cone_cuda_workspace(const ConeShape& shape, int64_t width) {
  const uint64_t counts = uint64_t(shape.types * chunks_of(shape)) * sizeof(int32_t);
  const uint64_t total = uint64_t(shape.types * shape.nodes * width) * sizeof(double);
  const uint64_t partial = uint64_t(shape.types) * kEpsBlocks * sizeof(double);
  return std::max(counts, aligned(total) + partial);
}

void cone_lists_cuda(const CudaGraph& graph, const CudaRemoved& removed, const ConeShape& shape,
                     const ConeLists& lists, const CudaLaunch& launch) {
  const auto stream = stream_of(launch);
  const Cone cone(shape, lists);
  const int64_t places = shape.types * shape.nodes * shape.batch;
  check(cudaMemsetAsync(lists.place, 0, uint64_t(places) * sizeof(int32_t), stream),
        "clearing the places of a cone");
  if (removed.capacity > 0 && removed.batch > 0) {
    mark_kernel<<<dim3(uint32_t(removed.capacity), uint32_t(shape.types)), 64, 0, stream>>>(
        csr_table(graph, true), graph.plan->index_bytes() == 4, removed, cone.nodes, lists.place,
        launch.error);
    mark_removed_kernel<<<dim3(uint32_t(removed.batch), uint32_t(shape.types)), 32, 0, stream>>>(
        removed, cone.nodes, lists.place);
  }
  auto* counts = static_cast<int32_t*>(launch.workspace);
  const dim3 grid(uint32_t(chunks_of(shape)), uint32_t(shape.types));
  count_kernel<<<grid, kThreads, 0, stream>>>(cone, counts);
  number_kernel<<<grid, kThreads, 0, stream>>>(cone, counts, lists.place, lists.row, lists.used,
                                               launch.error);
  check_launch("cone_lists");
}

template <class Real>
void cone_aggregate_cuda(const CudaGraph& graph, const ConeShape& shape, const ConeLists& lists,
                         int64_t width, const Real* x, const Parameter<Real>* eps, Real* u,
                         const CudaLaunch& launch) {
  // Enough blocks for the rows that are mostly listed; the rest is a loop.
  const auto blocks = uint32_t(std::min<int64_t>(shape.rows(), 2 * shape.nodes + 1024));
  with_vector<Real>(width, {x, u}, [&](auto vec) {
    aggregate_kernel<Real, vec.value>
        <<<dim3(blocks, uint32_t(shape.types)), kThreads, 0, stream_of(launch)>>>(
            csr_table(graph, false), graph.plan->index_bytes() == 4, Cone(shape, lists), int(width),
            x, eps, u);
    clear_kernel<Real, vec.value>
        <<<dim3(kClearBlocks, uint32_t(shape.types)), kThreads, 0, stream_of(launch)>>>(
            Cone(shape, lists), int(width), u);
  });
  check_launch("cone_aggregate");
}

template <class Real>
void cone_aggregate_backward_cuda(const CudaGraph& graph, const ConeShape& shape,
                                  const ConeLists& lists, int64_t width, const Real* x,
                                  const Parameter<Real>* eps, const Real* grad_u, Real* grad_x,
                                  Parameter<Real>* grad_eps, const CudaLaunch& launch) {
  const auto stream = stream_of(launch);
  const Cone cone(shape, lists);
  auto* total = static_cast<Wide<Real>*>(launch.workspace);
  auto* partial = reinterpret_cast<double*>(
      static_cast<std::byte*>(launch.workspace) +
      aligned(uint64_t(shape.types * shape.nodes * width) * sizeof(double)));
  const auto nodes = uint32_t(shape.nodes), types = uint32_t(shape.types);
  with_vector<Real>(width, {grad_u, grad_x}, [&](auto vec) {
    const int64_t elements = shape.types * shape.nodes * width;
    total_kernel<Real, vec.value>
        <<<uint32_t(divide_up(elements, kThreads * vec.value)), kThreads, 0, stream>>>(
            cone, int(width), grad_u, total);
    if (grad_x)
      grad_kernel<Real, vec.value>
          <<<nodes, kThreads, 0, stream>>>(csr_table(graph, true), graph.plan->index_bytes() == 4,
                                           cone, int(width), grad_u, total, eps, grad_x);
  });
  if (grad_eps) {
    eps_kernel<Real>
        <<<dim3(kEpsBlocks, types), kThreads, 0, stream>>>(shape.nodes * width, total, x, partial);
    sum_eps_kernel<<<types, 32, 0, stream>>>(partial, grad_eps);
  }
  check_launch("cone_aggregate backward");
}

template <class Real>
void cone_sum_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width, double share,
                   const Real* y, Real* out, const CudaLaunch& launch) {
  with_vector<Real>(width, {y, out}, [&](auto vec) {
    cone_sum_kernel<Real, vec.value><<<uint32_t(shape.nodes), kThreads, 0, stream_of(launch)>>>(
        Cone(shape, lists), int(width), share, y, out);
  });
  check_launch("cone_sum");
}

template <class Real>
void cone_sum_backward_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width,
                            double share, const Real* grad_out, Real* grad_y,
                            const CudaLaunch& launch) {
  const auto stream = stream_of(launch);
  const Cone cone(shape, lists);
  with_vector<Real>(width, {grad_out, grad_y}, [&](auto vec) {
    cone_sum_backward_kernel<Real, vec.value>
        <<<uint32_t(shape.nodes), kThreads, 0, stream>>>(cone, int(width), share, grad_out, grad_y);
    clear_kernel<Real, vec.value>
        <<<dim3(kClearBlocks, uint32_t(shape.types)), kThreads, 0, stream>>>(cone, int(width),
                                                                             grad_y);
  });
  check_launch("cone_sum backward");
}

#define LACUNA_INSTANTIATE(Real)                                                                  \
  template void cone_aggregate_cuda<Real>(const CudaGraph&, const ConeShape&, const ConeLists&,   \
                                          int64_t, const Real*, const Parameter<Real>*, Real*,    \
                                          const CudaLaunch&);                                     \
  template void cone_aggregate_backward_cuda<Real>(                                               \
      const CudaGraph&, const ConeShape&, const ConeLists&, int64_t, const Real*,                 \
      const Parameter<Real>*, const Real*, Real*, Parameter<Real>*, const CudaLaunch&);           \
  template void cone_sum_cuda<Real>(const ConeShape&, const ConeLists&, int64_t, double,          \
                                    const Real*, Real*, const CudaLaunch&);                       \
  template void cone_sum_backward_cuda<Real>(const ConeShape&, const ConeLists&, int64_t, double, \
                                             const Real*, Real*, const CudaLaunch&);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
