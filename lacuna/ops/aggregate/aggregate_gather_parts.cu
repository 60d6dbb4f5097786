// What stands beside the gather kernel: removed bits, kept degrees, the maximum, and the small
// gradients.
#include "lacuna/ops/aggregate/aggregate_gather.cuh"

namespace lacuna::cuda {
namespace {

__global__ void set_removed_bits(CudaRemoved removed, uint32_t nodes, uint32_t* bits, int words,
                                 uint32_t* any, int32_t* error) {
  const int64_t b = blockIdx.x;
  const int64_t begin = removed.ptr[b], end = removed.ptr[b + 1];
  if (begin < 0 || end < begin || end > removed.capacity || (b == 0 && begin != 0)) {
    if (error != nullptr && threadIdx.x == 0) atomicOr(error, kBadRemovedPtr);
    return;
  }
  for (int64_t i = begin + blockIdx.y * blockDim.x + threadIdx.x; i < end;
       i += gridDim.y * blockDim.x) {
    const int32_t node = removed.index[i];
    if (node < 0 || uint32_t(node) >= nodes) {
      if (error != nullptr) atomicOr(error, kBadRemovedIndex);
    } else {
      atomicOr(bits + int64_t(node) * words + (b >> 5), 1u << (b & 31));
      atomicOr(any + (node >> 5), 1u << (node & 31));
    }
  }
}

// A warp a (type, row), a lane a sample.
template <class S>
__global__ void degree_scale(CsrTable table, bool wide, uint32_t nodes, int types, bool root,
                             RemovedBits removed, int64_t batch, S* scale) {
  const int64_t row = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) >> 5;
  const int lane = threadIdx.x & 31;
  if (row >= int64_t(nodes) * types) return;
  const Csr& csr = table.of[row / nodes];
  const uint32_t v = uint32_t(row % nodes), begin = csr.ptr[v], end = csr.ptr[v + 1];
  for (int w = 0; w < removed.words; ++w) {
    uint32_t kept = end - begin;
    for (uint32_t i = begin; i < end; ++i) {
      const uint32_t u = csr.node(i, wide);
      kept -= removed.word[int64_t(u) * removed.words + w] >> lane & 1;
    }
    const int64_t b = int64_t(w) * 32 + lane;
    if (b < batch) {
      scale[row * batch + b] = kept == 0 ? S(0) : root ? S(1) / sqrt(S(kept)) : S(1) / S(kept);
    }
  }
}

// The same, counted from masks: a thread a (type, row, sample).
template <class Real>
__global__ void masked_degree_scale(const __grid_constant__ GatherArgs<Real> a,
                                    const __grid_constant__ CsrTable by_target, bool root,
                                    int64_t batch, Sum<Real>* scale) {
  using S = Sum<Real>;
  const int64_t place = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = place / batch, b = place % batch;
  if (row >= int64_t(a.nodes) * a.types) return;
  const int t = int(row / a.nodes);
  const Csr& csr = by_target.of[t];
  const uint32_t v = uint32_t(row % a.nodes);
  const uint8_t* mask = a.masks.base + b * a.masks.stride + a.masks.offset[t];
  uint32_t kept = 0;
  for (uint32_t i = csr.ptr[v]; i < csr.ptr[v + 1]; ++i) kept += mask[csr.edge[i]] != 0;
  scale[place] = kept == 0 ? S(0) : root ? S(1) / sqrt(S(kept)) : S(1) / S(kept);
}

template <class Real>
__device__ __forceinline__ bool is_removed(const GatherArgs<Real>& a, uint32_t node, int64_t b) {
  return a.removed.word[int64_t(node) * a.removed.words + (b >> 5)] >> (b & 31) & 1;
}

// Whether sample b drops an edge (u -> v) of type t.
template <class Real>
__device__ __forceinline__ bool is_dropped(const GatherArgs<Real>& a, int t, uint32_t u, uint32_t v,
                                           uint32_t edge, int64_t b) {
  if (a.masks.base != nullptr) {
    return a.masks.base[b * a.masks.stride + a.masks.offset[t] + edge] == 0;
  }
  return is_removed(a, u, b) || is_removed(a, v, b);
}

// A thread a (type, row, column). A NaN is larger than everything.
template <class Real>
__global__ void max_kernel(const __grid_constant__ GatherArgs<Real> a, Real* out, uint32_t* arg) {
  using S = Sum<Real>;
  const int64_t place = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = place / a.columns, column = place % a.columns, b = column / a.width;
  if (row >= int64_t(a.nodes) * a.types) return;
  const int t = int(row / a.nodes);
  const uint32_t v = uint32_t(row % a.nodes);
  const Csr& csr = a.csr.of[t];
  S best = 0;
  uint32_t who = ~0u;
  if (!is_removed(a, v, b)) {
    for (uint32_t i = csr.ptr[v]; i < csr.ptr[v + 1]; ++i) {
      const uint32_t u = csr.node(i, a.wide_index);
      if (is_removed(a, u, b)) continue;
      const S x = widen(a.source[int64_t(u) * a.columns + column]);
      if (who == ~0u || x > best || (isnan(x) && !isnan(best))) {
        best = x;
        who = csr.edge[i];
      }
    }
  }
  if (arg != nullptr) arg[place] = who;
  if (out == nullptr) return;
  if (a.eps != nullptr) {
    best = fma(S(1 + a.eps[t]), S(widen(a.source[int64_t(v) * a.columns + column])), best);
  }
  out[place] = round_to<Real>(best);
}

template <class Real>
__global__ void max_backward_kernel(const __grid_constant__ GatherArgs<Real> a,
                                    const uint32_t* arg) {
  using S = Sum<Real>;
  const int64_t place = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t u = place / a.columns, column = place % a.columns, b = column / a.width;
  if (u >= a.nodes) return;
  const bool gone = is_removed(a, uint32_t(u), b);
  S total = 0;
  for (int t = 0; t < a.types; ++t) {
    const Csr& csr = a.csr.of[t];
    const Real* g = a.source + t * a.source_stride + column;
    const uint32_t* chosen = arg + int64_t(t) * a.nodes * a.columns + column;
    for (uint32_t i = csr.ptr[u]; i < csr.ptr[u + 1] && !gone; ++i) {
      const int64_t v = csr.node(i, a.wide_index);
      if (chosen[v * a.columns] == csr.edge[i]) total += S(widen(g[v * a.columns]));
    }
    if (a.eps != nullptr) total = fma(S(1 + a.eps[t]), S(widen(g[u * a.columns])), total);
  }
  a.out[place] = round_to<Real>(total);
}

template <int THREADS>
__device__ double block_sum(double v) {
  __shared__ double part[THREADS / 32];
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  v = 0;
  for (int i = 0; i < THREADS / 32; ++i) v += part[i];
  return v;
}

// Block (k, t): every kDotBlocks-th piece of the dot product of type t. f32 sums of a few thousand
// terms, then f64.
template <class Real, int VEC>
__global__ void __launch_bounds__(256)
    dot_kernel(const Real* grad_out, int64_t stride, const Real* x, int64_t elements,
               double* partial) {
  using S = Sum<Real>;
  const Real* g = grad_out + blockIdx.y * stride;
  double all = 0;
  int64_t i = (int64_t(blockIdx.x) * 256 + threadIdx.x) * VEC;
  while (i < elements) {
    S sum = 0;
    for (int k = 0; k < 64 && i < elements; ++k, i += int64_t(kDotBlocks) * 256 * VEC) {
      Pack<Real, VEC> p, q;
      p.load(g + i);
      q.load(x + i);
#pragma unroll
      for (int c = 0; c < VEC; ++c) sum = fma(S(widen(p.value[c])), S(widen(q.value[c])), sum);
    }
    all += sum;
  }
  all = block_sum<256>(all);
  if (threadIdx.x == 0) partial[blockIdx.y * kDotBlocks + blockIdx.x] = all;
}

template <class P>
__global__ void dot_close(const double* partial, P* grad_eps) {
  double v = 0;
  for (int i = threadIdx.x; i < kDotBlocks; i += 256) v += partial[blockIdx.x * kDotBlocks + i];
  v = block_sum<256>(v);
  if (threadIdx.x == 0) grad_eps[blockIdx.x] = P(v);
}

// A warp takes eight places of the type's CSR by target.
template <class Real, int VEC>
__global__ void __launch_bounds__(256)
    dot_edges_kernel(const __grid_constant__ GatherArgs<Real> a, const Real* x, int t,
                     uint32_t edges, Parameter<Real>* grad_values) {
  using S = Sum<Real>;
  const Csr& csr = a.csr.of[t];
  const int lane = threadIdx.x & 31;
  const uint32_t first = (blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)) * 8;
  if (first >= edges) return;
  uint32_t v = 0;
  for (uint32_t low = 0, high = a.nodes;
       low < high;) {  // the last row that begins at or before `first`
    const uint32_t mid = (low + high) / 2;
    if (csr.ptr[mid + 1] <= first) {
      low = mid + 1;
    } else {
      high = mid;
    }
    v = low;
  }
  for (uint32_t i = first; i < min(first + 8, edges); ++i) {
    while (csr.ptr[v + 1] <= i) ++v;
    const uint32_t u = csr.node(i, a.wide_index);
    const Real* g = a.source + t * a.source_stride + int64_t(v) * a.columns;
    const Real* xu = x + int64_t(u) * a.columns;
    S sum = 0;
    for (int64_t c = lane * VEC; c < a.columns; c += 32 * VEC) {
      const int64_t b = c / a.width;
      if (is_dropped(a, t, u, v, csr.edge[i], b)) continue;
      Pack<Real, VEC> p, q;
      p.load(g + c);
      q.load(xu + c);
#pragma unroll
      for (int k = 0; k < VEC; ++k) sum = fma(S(widen(p.value[k])), S(widen(q.value[k])), sum);
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) grad_values[csr.first_edge + csr.edge[i]] = sum;
  }
}

}  // namespace

CsrTable csr_table(const CudaGraph& graph, bool by_source) {
  const GraphPlan& plan = *graph.plan;
  const std::byte* host = plan.bytes().data();
  auto moved = [&](const void* p) {
    return graph.device + (static_cast<const std::byte*>(p) - host);
  };
  CsrTable table = {};
  for (uint32_t t = 0; t < plan.type_count(); ++t) {
    const CsrView view = by_source ? plan.by_source(t) : plan.by_target(t);
    table.of[t] = {reinterpret_cast<const uint32_t*>(moved(view.ptr)), moved(view.neighbour),
                   reinterpret_cast<const uint32_t*>(moved(view.edge)), plan.first_edge(t)};
  }
  return table;
}

uint64_t removed_bits_bytes(uint32_t nodes, int64_t batch) {
  return uint64_t(nodes) * uint64_t(divide_up(batch, 32)) * 4 + uint64_t(divide_up(nodes, 32)) * 4;
}

RemovedBits make_removed_bits(const CudaRemoved& removed, uint32_t nodes, void* memory,
                              int32_t* error, cudaStream_t stream) {
  auto* const word = static_cast<uint32_t*>(memory);
  const int words = int(divide_up(removed.batch, 32));
  uint32_t* const any = word + int64_t(nodes) * words;
  const RemovedBits bits = {word, words, any};
  check(cudaMemsetAsync(memory, 0, removed_bits_bytes(nodes, removed.batch), stream),
        "clear the removed bits");
  if (removed.batch == 0) return bits;
  set_removed_bits<<<dim3(uint32_t(removed.batch), 4), 256, 0, stream>>>(removed, nodes, word,
                                                                         words, any, error);
  check_launch("removed bits");
  return bits;
}

template <class Real>
void make_degree_scale(const CudaGraph& graph, Reduce reduce, RemovedBits removed, int64_t batch,
                       Sum<Real>* scale, cudaStream_t stream) {
  const GraphPlan& plan = *graph.plan;
  const int64_t rows = int64_t(plan.node_count()) * plan.type_count();
  if (rows == 0 || batch == 0) return;
  degree_scale<Sum<Real>><<<uint32_t(divide_up(rows, 8)), 256, 0, stream>>>(
      csr_table(graph, false), plan.index_bytes() == 4, plan.node_count(), int(plan.type_count()),
      reduce == Reduce::gcn, removed, batch, scale);
  check_launch("kept degrees");
}

template <class Real>
void make_masked_degree_scale(const GatherArgs<Real>& a, const CsrTable& by_target, Reduce reduce,
                              int64_t batch, Sum<Real>* scale, cudaStream_t stream) {
  const int64_t places = int64_t(a.nodes) * a.types * batch;
  if (places == 0) return;
  masked_degree_scale<Real><<<uint32_t(divide_up(places, 256)), 256, 0, stream>>>(
      a, by_target, reduce == Reduce::gcn, batch, scale);
  check_launch("kept degrees from masks");
}

template <class Real>
void gather_max(const GatherArgs<Real>& a, Real* out, uint32_t* arg, cudaStream_t stream) {
  const int64_t places = int64_t(a.nodes) * a.types * a.columns;
  if (places == 0) return;
  max_kernel<Real><<<uint32_t(divide_up(places, 256)), 256, 0, stream>>>(a, out, arg);
  check_launch("aggregate (max)");
}

template <class Real>
void gather_max_backward(const GatherArgs<Real>& a, const uint32_t* arg, cudaStream_t stream) {
  const int64_t places = int64_t(a.nodes) * a.columns;
  if (places == 0) return;
  max_backward_kernel<Real><<<uint32_t(divide_up(places, 256)), 256, 0, stream>>>(a, arg);
  check_launch("aggregate backward (max)");
}

template <class Real>
void dot_types(const Real* grad_out, int64_t stride, const Real* x, int64_t elements, int types,
               double* partial, Parameter<Real>* grad_eps, cudaStream_t stream) {
  if (types == 0) return;
  constexpr int kVec = kWide<Real>;
  const dim3 grid(kDotBlocks, uint32_t(types));
  if (elements % kVec == 0 && stride % kVec == 0 && is_aligned(grad_out) && is_aligned(x)) {
    dot_kernel<Real, kVec><<<grid, 256, 0, stream>>>(grad_out, stride, x, elements, partial);
  } else {
    dot_kernel<Real, 1><<<grid, 256, 0, stream>>>(grad_out, stride, x, elements, partial);
  }
  dot_close<<<uint32_t(types), 256, 0, stream>>>(partial, grad_eps);
  check_launch("gradient of eps");
}

template <class Real>
void dot_edges(const GatherArgs<Real>& a, const Real* x, const uint64_t* edge_counts,
               Parameter<Real>* grad_values, cudaStream_t stream) {
  constexpr int kVec = kWide<Real>;
  const bool wide = a.width % kVec == 0 && is_aligned(a.source) && is_aligned(x);
  for (int t = 0; t < a.types; ++t) {
    const uint32_t edges = uint32_t(edge_counts[t]);
    if (edges == 0) continue;
    const uint32_t blocks = uint32_t(divide_up(edges, 64));
    if (wide) {
      dot_edges_kernel<Real, kVec><<<blocks, 256, 0, stream>>>(a, x, t, edges, grad_values);
    } else {
      dot_edges_kernel<Real, 1><<<blocks, 256, 0, stream>>>(a, x, t, edges, grad_values);
    }
    check_launch("gradient of values");
  }
}

#define LACUNA_INSTANTIATE(Real)                                                                   \
  template void make_degree_scale<Real>(const CudaGraph&, Reduce, RemovedBits, int64_t,            \
                                        Sum<Real>*, cudaStream_t);                                 \
  template void make_masked_degree_scale<Real>(const GatherArgs<Real>&, const CsrTable&, Reduce,   \
                                               int64_t, Sum<Real>*, cudaStream_t);                 \
  template void gather_max<Real>(const GatherArgs<Real>&, Real*, uint32_t*, cudaStream_t);         \
  template void gather_max_backward<Real>(const GatherArgs<Real>&, const uint32_t*, cudaStream_t); \
  template void dot_types<Real>(const Real*, int64_t, const Real*, int64_t, int, double*,          \
                                Parameter<Real>*, cudaStream_t);                                   \
  template void dot_edges<Real>(const GatherArgs<Real>&, const Real*, const uint64_t*,             \
                                Parameter<Real>*, cudaStream_t);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna::cuda
