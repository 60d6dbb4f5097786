// The sums of the first layer on the rows that differ, and their gradients (cone.h, cone_cuda.h).
//
// Forward the wild type's rows are summed, and kept unrounded: a listed row is its gene's sum less
// the neighbours that its sample removes. Back all rows of a gene pass the same to their
// neighbours, so they are added up first; what a removed neighbour must not get is taken off again.
// Both ways a listed row costs a look at its neighbours' numbers, and not their rows.
#include "lacuna/ops/cone/cone_rows.cuh"

namespace lacuna {
namespace {

using namespace cuda;

constexpr int kEpsBlocks = 64;  // a type

// ---- sums over the neighbours of a block's nodes
constexpr int kWarps = kConeThreads / 32;
constexpr uint32_t kLongRow = 256;  // neighbours that are no longer a warp's own work

struct Part {
  uint32_t begin, end, step;  // edges of a node that a group of lanes takes
};

// A warp takes a node, or where that has many neighbours all warps of the block. add(n, part,
// column, sum) adds up some edges for VEC columns; put(n, column, sum) gets the whole sum.
template <class Real, int VEC, class Add, class Put>
__device__ __forceinline__ void sum_nodes(const Csr& csr, int nodes, int width, const Add& add,
                                          const Put& put) {
  const int first_node = int(blockIdx.x) * kWarps, own = first_node + int(threadIdx.x) / 32;
  const auto is_long = [&](int n) { return csr.ptr[n + 1] - csr.ptr[n] > kLongRow; };
  const auto part = [&](int n, int group, int groups) {
    return Part{csr.ptr[n] + uint32_t(group), csr.ptr[n + 1], uint32_t(groups)};
  };
  for (int first = 0; first < width; first += 32 * VEC) {
    const RowGroup<Real, VEC> me(min(width - first, 32 * VEC));
    const int column = first + me.column, groups = 32 / me.lanes, group = me.group % groups;
    if (own < nodes && !is_long(own)) {
      Wide<Real> sum[VEC] = {};
      if (me.active) add(own, part(own, group, groups), column, sum);
      for (int step = me.lanes; step < 32; step *= 2)
#pragma unroll
        for (int k = 0; k < VEC; ++k) sum[k] += __shfl_xor_sync(~0u, sum[k], step);
      if (group == 0 && me.active) put(own, column, sum);
    }
    for (int n = first_node; n < min(first_node + kWarps, nodes); ++n) {
      if (!is_long(n)) continue;
      Wide<Real> sum[VEC] = {};
      if (me.active) add(n, part(n, me.group, me.groups), column, sum);
      sum_groups(sum, me);
      if (me.group == 0 && me.active) put(n, column, sum);
    }
  }
}

// ---- forward
// u = sum + (1 + eps) x, rounded; both directions of a row give the same bits for the same sum.
template <class Real, int VEC>
__device__ __forceinline__ void store_with_self(Wide<Real> (&sum)[VEC], const Real* own_row,
                                                Parameter<Real> eps, Real* out) {
  Pack<Real, VEC> own;
  own.load(own_row);
  const auto self = Wide<Real>(1) + Wide<Real>(eps);
#pragma unroll
  for (int k = 0; k < VEC; ++k) sum[k] += self * Wide<Real>(widen(own.value[k]));
  store_row(out, sum);
}

// Block (four nodes, type): rows of the wild type; base [T, N, H]: their sums over neighbours,
// unrounded.
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    wild_kernel(CsrTable by_target, bool wide_index, Cone cone, int width, const Real* x,
                const Parameter<Real>* eps, Wide<Real>* base, Real* u) {
  const int t = int(blockIdx.y);
  const Csr& csr = by_target.of[t];
  const auto add = [&](int, Part part, int column, Wide<Real>(&sum)[VEC]) {
#pragma unroll 4
    for (uint32_t e = part.begin; e < part.end; e += part.step)
      add_row(sum, x + int64_t(csr.node(e, wide_index)) * width + column);
  };
  const auto put = [&](int n, int column, Wide<Real>(&sum)[VEC]) {
    store_wide<Real, VEC>(base + (int64_t(t) * cone.nodes + n) * width + column, sum);
    store_with_self(sum, x + int64_t(n) * width + column, eps[t],
                    u + (t * cone.rows() + n) * width + column);
  };
  sum_nodes<Real, VEC>(csr, cone.nodes, width, add, put);
}

// A warp a listed row, blockIdx.y a type: what it loses is taken off the wild type's sum. Lanes
// look for removed neighbours; those that are found are taken off in their order.
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    listed_kernel(CsrTable by_target, bool wide_index, Cone cone, int width, const Real* x,
                  const Parameter<Real>* eps, const Wide<Real>* base, Real* u) {
  const int t = int(blockIdx.y), listed = cone.used[t] - cone.nodes, lane = int(threadIdx.x) % 32;
  const Csr& csr = by_target.of[t];
  for (int64_t i = int64_t(blockIdx.x) * kWarps + threadIdx.x / 32; i < listed;
       i += int64_t(gridDim.x) * kWarps) {
    const int at = cone.row[t * cone.capacity + i], n = at / cone.batch, b = at % cone.batch;
    const uint32_t end = csr.ptr[n + 1];
    for (int first = 0; first < width; first += 32 * VEC) {
      const int column = first + lane * VEC;
      const bool active = column < width;
      Wide<Real> sum[VEC] = {};
      if (active) load_wide<Real, VEC>(sum, base + (int64_t(t) * cone.nodes + n) * width + column);
      for (uint32_t e = csr.ptr[n]; e < end; e += 32) {
        const int node = e + lane < end ? int(csr.node(e + lane, wide_index)) : -1;
        const bool lost = node >= 0 && cone.gone(node, b);
        for (uint32_t left = __ballot_sync(~0u, lost); left != 0; left &= left - 1) {
          const int neighbour = __shfl_sync(~0u, node, __ffs(int(left)) - 1);
          if (active) take_row(sum, x + int64_t(neighbour) * width + column);
        }
      }
      if (active)
        store_with_self(sum, x + int64_t(n) * width + column, eps[t],
                        u + (t * cone.rows() + cone.nodes + i) * width + column);
    }
  }
}

// ---- backward
// Thread = VEC columns of (type, node): total [T, N, H], the gradients of all rows of a node.
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    total_kernel(Cone cone, int width, const Real* grad_u, Wide<Real>* total) {
  const int64_t i = (int64_t(blockIdx.x) * kConeThreads + threadIdx.x) * VEC, row = i / width;
  if (row >= int64_t(cone.types) * cone.nodes) return;
  const int t = int(row / cone.nodes), n = int(row % cone.nodes), c = int(i % width);
  const Real* rows = grad_u + int64_t(t) * cone.rows() * width + c;
  const int32_t* place = cone.places(t, n);
  Wide<Real> sum[VEC] = {};
  add_row(sum, rows + int64_t(n) * width);
  for (int b = 0; b < cone.batch; ++b)
    if (place[b] > 0) add_row(sum, rows + int64_t(cone.nodes + place[b] - 1) * width);
  store_wide<Real, VEC>(total + i, sum);
}

// gone [N]: whether any sample removes a node. A thread a node.
__global__ void __launch_bounds__(kConeThreads) gone_kernel(Cone cone, uint8_t* gone) {
  const int n = int(blockIdx.x) * kConeThreads + int(threadIdx.x);
  if (n >= cone.nodes) return;
  bool any = false;
  for (int b = 0; b < cone.batch; ++b) any |= cone.gone(n, b);
  gone[n] = any;
}

// Block (four nodes of x, type): what the rows of their targets pass back, of_type [T, N, H]. A
// sample that removes the node passes nothing: its targets' rows, all of them listed, are taken off
// again.
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    grad_kernel(CsrTable by_source, bool wide_index, Cone cone, int width, const Real* grad_u,
                const Wide<Real>* total, const uint8_t* gone, Wide<Real>* of_type) {
  const int t = int(blockIdx.y);
  const Csr& csr = by_source.of[t];
  const Wide<Real>* totals = total + int64_t(t) * cone.nodes * width;
  const Real* listed = grad_u + (t * cone.rows() + cone.nodes) * width;
  const auto add = [&](int n, Part part, int column, Wide<Real>(&sum)[VEC]) {
#pragma unroll 4
    for (uint32_t e = part.begin; e < part.end; e += part.step)
      add_wide<Real, VEC>(sum, totals + int64_t(csr.node(e, wide_index)) * width + column);
    for (int b = 0; b < cone.batch && gone[n]; ++b) {
      if (!cone.gone(n, b)) continue;
      for (uint32_t e = part.begin; e < part.end; e += part.step) {
        const int place = cone.places(t, int(csr.node(e, wide_index)))[b];
        if (place > 0) take_row(sum, listed + int64_t(place - 1) * width + column);
      }
    }
  };
  const auto put = [&](int n, int column, Wide<Real>(&sum)[VEC]) {
    store_wide<Real, VEC>(of_type + (int64_t(t) * cone.nodes + n) * width + column, sum);
  };
  sum_nodes<Real, VEC>(csr, cone.nodes, width, add, put);
}

// Thread = VEC columns of a node: all types added up, with their self terms.
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    grad_sum_kernel(int64_t elements, int types, const Wide<Real>* total, const Wide<Real>* of_type,
                    const Parameter<Real>* eps, Real* grad_x) {
  const int64_t i = (int64_t(blockIdx.x) * kConeThreads + threadIdx.x) * VEC;
  if (i >= elements) return;
  Wide<Real> sum[VEC] = {};
  for (int t = 0; t < types; ++t) {
    Wide<Real> own[VEC];
    add_wide<Real, VEC>(sum, of_type + t * elements + i);
    load_wide<Real, VEC>(own, total + t * elements + i);
    const auto self = Wide<Real>(1) + Wide<Real>(eps[t]);
#pragma unroll
    for (int k = 0; k < VEC; ++k) sum[k] += self * own[k];
  }
  store_row(grad_x + i, sum);
}

// Block (part, type): partial [T, kEpsBlocks]
template <class Real>
__global__ void __launch_bounds__(kConeThreads)
    eps_kernel(int64_t elements, const Wide<Real>* total, const Real* x, double* partial) {
  __shared__ double part[kConeThreads];
  const Wide<Real>* of_type = total + blockIdx.y * elements;
  const int64_t begin = elements * blockIdx.x / gridDim.x,
                end = elements * (blockIdx.x + 1) / gridDim.x;
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kConeThreads)
    sum += double(of_type[i]) * double(widen(x[i]));
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 1; i < kConeThreads; ++i) sum += part[i];
  partial[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}
template <class Param>
__global__ void sum_eps_kernel(const double* partial, Param* grad_eps) {
  if (threadIdx.x > 0) return;
  double sum = 0;
  for (int i = 0; i < kEpsBlocks; ++i) sum += partial[blockIdx.x * kEpsBlocks + i];
  grad_eps[blockIdx.x] = Param(sum);
}

}  // namespace

namespace {

// The workspace: two arrays [T, N, H] of the widest kind, the parts of grad_eps, and which nodes
// are removed. Forward the first array holds the wild type's sums, back the totals.
template <class Real>
struct AggregateParts {
  Wide<Real>*first, *second;
  double* partial;
  uint8_t* gone;  // [N]
  uint64_t bytes;

  AggregateParts(const ConeShape& shape, int64_t width, void* workspace) {
    const uint64_t array = aligned(uint64_t(shape.types * shape.nodes * width) * sizeof(double));
    auto* base = static_cast<std::byte*>(workspace);
    first = reinterpret_cast<Wide<Real>*>(base);
    second = reinterpret_cast<Wide<Real>*>(base + array);
    partial = reinterpret_cast<double*>(base + 2 * array);
    gone = reinterpret_cast<uint8_t*>(partial + shape.types * kEpsBlocks);
    bytes = 2 * array + uint64_t(shape.types) * kEpsBlocks * sizeof(double) + uint64_t(shape.nodes);
  }
};

}  // namespace

uint64_t cone_aggregate_workspace(const ConeShape& shape, int64_t width) {
  return AggregateParts<double>(shape, width, nullptr).bytes;
}

template <class Real>
void cone_aggregate_cuda(const CudaGraph& graph, const ConeShape& shape, const ConeLists& lists,
                         int64_t width, const Real* x, const Parameter<Real>* eps, Real* u,
                         const CudaLaunch& launch) {
  if (shape.nodes == 0) return;
  const auto stream = stream_of(launch);
  const Cone cone(shape, lists);
  const CsrTable by_target = csr_table(graph, false);
  const bool wide_index = graph.plan->index_bytes() == 4;
  auto* base = AggregateParts<Real>(shape, width, launch.workspace).first;
  with_vector<Real>(width, {x, u}, [&](auto vec) {
    wild_kernel<Real, vec.value>
        <<<dim3(uint32_t(divide_up(shape.nodes, kWarps)), uint32_t(shape.types)), kConeThreads, 0,
           stream>>>(by_target, wide_index, cone, int(width), x, eps, base, u);
    listed_kernel<Real, vec.value>
        <<<copy_grid(shape.capacity * 32, shape.types), kConeThreads, 0, stream>>>(
            by_target, wide_index, cone, int(width), x, eps, base, u);
  });
  check_launch("cone_aggregate");
}

template <class Real>
void cone_aggregate_backward_cuda(const CudaGraph& graph, const ConeShape& shape,
                                  const ConeLists& lists, int64_t width, const Real* x,
                                  const Parameter<Real>* eps, const Real* grad_u, Real* grad_x,
                                  Parameter<Real>* grad_eps, const CudaLaunch& launch) {
  if (shape.nodes == 0) return;
  const auto stream = stream_of(launch);
  const Cone cone(shape, lists);
  const AggregateParts<Real> parts(shape, width, launch.workspace);
  const auto nodes = uint32_t(shape.nodes), types = uint32_t(shape.types);
  const int64_t elements = shape.nodes * width;
  const auto blocks = [](int64_t count, int vec) {
    return uint32_t(divide_up(count, kConeThreads * vec));
  };
  with_vector<Real>(width, {grad_u, grad_x}, [&](auto vec) {
    total_kernel<Real, vec.value><<<blocks(types * elements, vec.value), kConeThreads, 0, stream>>>(
        cone, int(width), grad_u, parts.first);
    if (!grad_x) return;
    gone_kernel<<<blocks(nodes, 1), kConeThreads, 0, stream>>>(cone, parts.gone);
    grad_kernel<Real, vec.value>
        <<<dim3(uint32_t(divide_up(nodes, kWarps)), types), kConeThreads, 0, stream>>>(
            csr_table(graph, true), graph.plan->index_bytes() == 4, cone, int(width), grad_u,
            parts.first, parts.gone, parts.second);
    grad_sum_kernel<Real, vec.value><<<blocks(elements, vec.value), kConeThreads, 0, stream>>>(
        elements, int(types), parts.first, parts.second, eps, grad_x);
  });
  if (grad_eps) {
    eps_kernel<Real><<<dim3(kEpsBlocks, types), kConeThreads, 0, stream>>>(elements, parts.first, x,
                                                                           parts.partial);
    sum_eps_kernel<<<types, 32, 0, stream>>>(parts.partial, grad_eps);
  }
  check_launch("cone_aggregate backward");
}

#define LACUNA_INSTANTIATE(Real)                                                                \
  template void cone_aggregate_cuda<Real>(const CudaGraph&, const ConeShape&, const ConeLists&, \
                                          int64_t, const Real*, const Parameter<Real>*, Real*,  \
                                          const CudaLaunch&);                                   \
  template void cone_aggregate_backward_cuda<Real>(                                             \
      const CudaGraph&, const ConeShape&, const ConeLists&, int64_t, const Real*,               \
      const Parameter<Real>*, const Real*, Real*, Parameter<Real>*, const CudaLaunch&);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
