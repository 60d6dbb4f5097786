// The sums of the first layer on the rows that differ, and their gradients (cone.h, cone_cuda.h).
#include "lacuna/ops/cone/cone_rows.cuh"

namespace lacuna {
namespace {

using namespace cuda;

constexpr int kEpsBlocks = 64;  // a type

// Block (row, type): the sums of a row of the wild type, or of a listed one.
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    aggregate_kernel(CsrTable by_target, bool wide_index, Cone cone, int width, const Real* x,
                     const Parameter<Real>* eps, Real* u) {
  const int t = int(blockIdx.y), used = cone.used[t];
  const Csr& csr = by_target.of[t];
  for (int64_t i = blockIdx.x; i < used; i += gridDim.x) {
    Real* out = u + (int64_t(t) * cone.rows() + i) * width;
    const int listed = i < cone.nodes ? -1 : cone.row[t * cone.capacity + i - cone.nodes];
    const int n = listed < 0 ? int(i) : listed / cone.batch, b = listed % cone.batch;
    for (int first = 0; first < width; first += 32 * VEC) {
      RowGroup<Real, VEC> me(min(width - first, 32 * VEC));
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
#pragma unroll
  for (int k = 0; k < VEC; ++k) total[i + k] = sum[k];
}

// Block = a node of x: what its targets' rows pass back, and the self terms.
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    grad_kernel(CsrTable by_source, bool wide_index, Cone cone, int width, const Real* grad_u,
                const Wide<Real>* total, const Parameter<Real>* eps, Real* grad_x) {
  const int n = int(blockIdx.x);
  int mine = 0;
  for (int b = int(threadIdx.x); b < cone.batch; b += kConeThreads) mine |= cone.gone(n, b);
  const bool ever_gone = __syncthreads_or(mine);
  for (int first = 0; first < width; first += 32 * VEC) {
    RowGroup<Real, VEC> me(min(width - first, 32 * VEC));
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

uint64_t cone_aggregate_workspace(const ConeShape& shape, int64_t width) {
  const uint64_t total = uint64_t(shape.types * shape.nodes * width) * sizeof(double);
  return aligned(total) + uint64_t(shape.types) * kEpsBlocks * sizeof(double);
}

template <class Real>
void cone_aggregate_cuda(const CudaGraph& graph, const ConeShape& shape, const ConeLists& lists,
                         int64_t width, const Real* x, const Parameter<Real>* eps, Real* u,
                         const CudaLaunch& launch) {
  // Enough blocks for the rows that are mostly listed; the rest is a loop.
  const auto blocks = uint32_t(std::min<int64_t>(shape.rows(), 2 * shape.nodes + 1024));
  with_vector<Real>(width, {x, u}, [&](auto vec) {
    aggregate_kernel<Real, vec.value>
        <<<dim3(blocks, uint32_t(shape.types)), kConeThreads, 0, stream_of(launch)>>>(
            csr_table(graph, false), graph.plan->index_bytes() == 4, Cone(shape, lists), int(width),
            x, eps, u);
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
        <<<uint32_t(divide_up(elements, kConeThreads * vec.value)), kConeThreads, 0, stream>>>(
            cone, int(width), grad_u, total);
    if (grad_x)
      grad_kernel<Real, vec.value><<<nodes, kConeThreads, 0, stream>>>(
          csr_table(graph, true), graph.plan->index_bytes() == 4, cone, int(width), grad_u, total,
          eps, grad_x);
  });
  if (grad_eps) {
    eps_kernel<Real><<<dim3(kEpsBlocks, types), kConeThreads, 0, stream>>>(shape.nodes * width,
                                                                           total, x, partial);
    sum_eps_kernel<<<types, 32, 0, stream>>>(partial, grad_eps);
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
