// A shared x on a GPU (aggregate_cuda.h says how). A row whose corrected sum is not finite is
// summed anew. Every result is a sum in fixed order: the same bits in every run.
#include <algorithm>

#include "lacuna/ops/aggregate/aggregate_gather.cuh"

namespace lacuna::cuda {
namespace {

constexpr int kWarps = 8;
// Removed in-neighbours of a row that are listed; a row with more is summed anew. Enough for 600
// samples of three: a hub that is summed anew for every sample takes longer than all other rows.
constexpr int kListed = 2048;

template <class Real>
struct SharedArgs {
  CsrTable by_target, by_source;
  bool wide_index;
  uint32_t nodes;
  int types;
  bool sum_types, mean;
  int width;
  int64_t batch;
  RemovedBits removed;
  const Parameter<Real>* values;
  const Parameter<Real>* eps;
  const Real* x;         // [N, H]
  const Real* grad_out;  // [T, N, B, H], or [N, B, H] with sum_types
  // [T, N, H]: sums of the wild type; backward: grad_out summed over the samples that keep the row.
  double* product;
  double* all;  // [T, N, H]: grad_out summed over all samples

  __device__ double value(int t, const Csr& csr, uint32_t i) const {
    return values == nullptr ? 1.0 : double(values[csr.first_edge + csr.edge[i]]);
  }
  __device__ bool gone(uint32_t node, int64_t b) const {
    return removed.word[int64_t(node) * removed.words + (b >> 5)] >> (b & 31) & 1;
  }
  __device__ bool ever_gone(uint32_t node) const {
    uint32_t any = 0;
    for (int w = 0; w < removed.words; ++w) any |= removed.word[int64_t(node) * removed.words + w];
    return any != 0;
  }
  __device__ const Real* grad(int t, uint32_t v, int64_t b) const {
    return grad_out + ((int64_t(sum_types ? 0 : t) * nodes + v) * batch + b) * width;
  }
  // 1 / kept in-neighbours of v for mean, else 1.
  __device__ double scale(int t, uint32_t v, int64_t b) const {
    if (!mean) return 1;
    const Csr& csr = by_target.of[t];
    uint32_t kept = 0;
    for (uint32_t i = csr.ptr[v]; i < csr.ptr[v + 1]; ++i)
      kept += !gone(csr.node(i, wide_index), b);
    return kept == 0 ? 0.0 : 1.0 / kept;
  }
};

// The warps of a block share the neighbours [begin, end) of a row; lane h of each adds up a column.
// Every lane of warp 0 gets the sum, in the order of the warps.
template <class Term>
__device__ double block_row_sum(uint32_t begin, uint32_t end, Term term) {
  __shared__ double part[kWarps][32];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  double sum = 0;
  for (uint32_t i = begin + warp; i < end; i += kWarps) sum += term(i);
  __syncthreads();
  part[warp][lane] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += part[w][lane];
  return sum;
}

// Block (type and row, 32 columns).
template <class Real>
__global__ void __launch_bounds__(kWarps * 32)
    product_kernel(const __grid_constant__ SharedArgs<Real> a) {
  const int t = int(blockIdx.x / a.nodes);
  const uint32_t v = blockIdx.x % a.nodes;
  const int h = blockIdx.y * 32 + (threadIdx.x & 31);
  const Csr& csr = a.by_target.of[t];
  const double sum = block_row_sum(csr.ptr[v], csr.ptr[v + 1], [&](uint32_t i) {
    if (h >= a.width) return 0.0;
    return a.value(t, csr, i) *
           double(widen(a.x[int64_t(csr.node(i, a.wide_index)) * a.width + h]));
  });
  if (threadIdx.x < 32 && h < a.width) a.product[int64_t(blockIdx.x) * a.width + h] = sum;
}

// Block = an output row of all samples: the product, less the terms of removed in-neighbours.
template <class Real>
__global__ void __launch_bounds__(kWarps * 32)
    correct_kernel(const __grid_constant__ SharedArgs<Real> a, Real* out) {
  __shared__ uint32_t listed[kListed];  // places of in-neighbours that some sample removes
  __shared__ int count;
  const int t0 = a.sum_types ? 0 : int(blockIdx.x / a.nodes), t1 = a.sum_types ? a.types : t0 + 1;
  const uint32_t v = blockIdx.x % a.nodes;
  const int64_t elements = a.batch * a.width;
  constexpr int kThreads = kWarps * 32;
  for (int64_t first = 0; first < elements; first += kThreads) {
    const int64_t c = first + threadIdx.x, b = c / a.width;
    const int h = int(c % a.width);
    const bool active = c < elements, kept_row = active && !a.gone(v, b);
    double total = 0;
    for (int t = t0; t < t1; ++t) {
      const Csr& csr = a.by_target.of[t];
      const uint32_t begin = csr.ptr[v], end = csr.ptr[v + 1];
      if (first == 0 || a.sum_types) {  // list them in order, a warp at work
        __syncthreads();
        if (threadIdx.x < 32) {
          int n = 0;
          for (uint32_t base = begin; base < end; base += 32) {
            const uint32_t i = base + threadIdx.x;
            const bool odd = i < end && a.ever_gone(csr.node(i, a.wide_index));
            const uint32_t found = __ballot_sync(~0u, odd);
            const int at = n + __popc(found & ((1u << threadIdx.x) - 1));
            if (odd && at < kListed) listed[at] = i;
            n += __popc(found);
          }
          if (threadIdx.x == 0) count = n;
        }
        __syncthreads();
      }
      if (!kept_row) continue;
      double sum = a.product[(int64_t(t) * a.nodes + v) * a.width + h];
      uint32_t kept = end - begin;
      bool anew = count > kListed;
      for (int k = 0; k < min(count, kListed); ++k) {
        const uint32_t i = listed[k], u = csr.node(i, a.wide_index);
        if (!a.gone(u, b)) continue;
        sum -= a.value(t, csr, i) * double(widen(a.x[int64_t(u) * a.width + h]));
        --kept;
        anew = anew || !isfinite(sum);
      }
      if (anew) {
        sum = 0;
        kept = 0;
        for (uint32_t i = begin; i < end; ++i) {
          const uint32_t u = csr.node(i, a.wide_index);
          if (a.gone(u, b)) continue;
          sum += a.value(t, csr, i) * double(widen(a.x[int64_t(u) * a.width + h]));
          ++kept;
        }
      }
      if (kept == 0) sum = 0;  // all terms were taken off: no rounding is left
      total += a.mean && kept > 0 ? sum / kept : sum;
    }
    if (!active) continue;
    for (int t = t0; t < t1 && a.eps != nullptr; ++t) {
      total += (1 + double(a.eps[t])) * double(widen(a.x[int64_t(v) * a.width + h]));
    }
    out[int64_t(blockIdx.x) * elements + c] = round_to<Real>(Sum<Real>(total));
  }
}

// Thread = (type, row, column): grad_out summed over the samples.
template <class Real>
__global__ void sum_samples(const __grid_constant__ SharedArgs<Real> a) {
  const int64_t place = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = place / a.width;
  if (row >= int64_t(a.nodes) * a.types) return;
  const int t = int(row / a.nodes), h = int(place % a.width);
  const uint32_t v = uint32_t(row % a.nodes);
  double kept = 0, all = 0;
  for (int64_t b = 0; b < a.batch; ++b) {
    const double g = double(widen(a.grad(t, v, b)[h]));
    all += g;
    if (!a.gone(v, b)) {
      const double s = a.scale(t, v, b);
      if (s != 0) kept += s * g;
    }
  }
  a.product[place] = kept;
  a.all[place] = all;
}

// Block (node, 32 columns): the transposed product, less the samples that remove the node.
template <class Real>
__global__ void __launch_bounds__(kWarps * 32)
    shared_grad_kernel(const __grid_constant__ SharedArgs<Real> a, Real* grad_x) {
  const uint32_t u = blockIdx.x;
  const int h = blockIdx.y * 32 + (threadIdx.x & 31);
  const bool active = h < a.width, odd = a.ever_gone(u);
  double total = 0;
  for (int t = 0; t < a.types; ++t) {
    const Csr& csr = a.by_source.of[t];
    auto term = [&](uint32_t i) {
      if (!active) return 0.0;
      const uint32_t v = csr.node(i, a.wide_index);
      return a.value(t, csr, i) * a.product[(int64_t(t) * a.nodes + v) * a.width + h];
    };
    // gone: the samples that remove u; otherwise those that keep it.
    auto samples = [&](uint32_t i, bool gone) {
      const uint32_t v = csr.node(i, a.wide_index);
      double sum = 0;
      for (int64_t b = 0; active && b < a.batch; ++b) {
        if (a.gone(u, b) != gone || a.gone(v, b)) continue;
        const double s = a.scale(t, v, b);
        if (s != 0) sum += s * a.value(t, csr, i) * double(widen(a.grad(t, v, b)[h]));
      }
      return sum;
    };
    double sum = block_row_sum(csr.ptr[u], csr.ptr[u + 1], term);
    if (odd) {  // the same for all threads of the block
      const double off =
          block_row_sum(csr.ptr[u], csr.ptr[u + 1], [&](uint32_t i) { return samples(i, true); });
      const double rest = sum - off;
      if (__syncthreads_or(!isfinite(rest))) {
        sum = block_row_sum(csr.ptr[u], csr.ptr[u + 1],
                            [&](uint32_t i) { return samples(i, false); });
      } else {
        sum = rest;
      }
    }
    total += sum;
    if (a.eps != nullptr && active) {
      total += (1 + double(a.eps[t])) * a.all[(int64_t(t) * a.nodes + u) * a.width + h];
    }
  }
  if (threadIdx.x < 32 && active)
    grad_x[int64_t(u) * a.width + h] = round_to<Real>(Sum<Real>(total));
}

// Block = type.
template <class Real>
__global__ void shared_grad_eps(const __grid_constant__ SharedArgs<Real> a,
                                Parameter<Real>* grad_eps) {
  __shared__ double part[256];
  const int64_t elements = int64_t(a.nodes) * a.width;
  const double* all = a.all + blockIdx.x * elements;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < elements; i += 256) sum += all[i] * double(widen(a.x[i]));
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0;
    for (int i = 0; i < 256; ++i) sum += part[i];
    grad_eps[blockIdx.x] = Parameter<Real>(sum);
  }
}

// Warp = place in a type's CSR by source.
template <class Real>
__global__ void shared_grad_values(const __grid_constant__ SharedArgs<Real> a, int t,
                                   uint32_t edges, Parameter<Real>* grad_values) {
  const Csr& csr = a.by_source.of[t];
  const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread / 32 >= edges) return;
  const uint32_t i = uint32_t(thread / 32);
  uint32_t low = 0, high = a.nodes;  // the row of place i
  while (low < high) {
    const uint32_t mid = (low + high) / 2;
    if (csr.ptr[mid + 1] <= i) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  const uint32_t u = low, v = csr.node(i, a.wide_index);
  const bool odd = a.ever_gone(u);
  double sum = 0;
  for (int h = threadIdx.x & 31; h < a.width; h += 32) {
    double g = a.product[(int64_t(t) * a.nodes + v) * a.width + h];
    if (odd) {
      g = 0;
      for (int64_t b = 0; b < a.batch; ++b) {
        if (!a.gone(u, b) && !a.gone(v, b)) g += double(widen(a.grad(t, v, b)[h]));
      }
    }
    sum += g * double(widen(a.x[int64_t(u) * a.width + h]));
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if ((threadIdx.x & 31) == 0) {
    grad_values[csr.first_edge + csr.edge[i]] = Parameter<Real>(sum);
  }
}

template <class Real>
SharedArgs<Real> shared_args(const CudaGraph& graph, const AggregateCall<Real>& call,
                             const CudaLaunch& launch) {
  SharedArgs<Real> a = {};
  a.by_target = csr_table(graph, false);
  a.by_source = csr_table(graph, true);
  a.wide_index = graph.plan->index_bytes() == 4;
  a.nodes = graph.plan->node_count();
  a.types = int(graph.plan->type_count());
  a.sum_types = call.sum_types;
  a.mean = call.reduce == Reduce::mean;
  a.width = int(call.width);
  a.batch = call.keep.batch();
  a.values = call.values;
  a.eps = call.eps;
  a.x = call.x;
  auto* memory = static_cast<std::byte*>(launch.workspace);
  a.removed = make_removed_bits(cuda_removed(call.keep.removed), a.nodes, memory, launch.error,
                                static_cast<cudaStream_t>(launch.stream));
  memory += aligned(removed_bits_bytes(a.nodes, a.batch));
  a.product = reinterpret_cast<double*>(memory);
  a.all = a.product + int64_t(a.types) * a.nodes * a.width;
  return a;
}

}  // namespace

template <class Real>
uint64_t shared_workspace(const CudaGraph& graph, const AggregateCall<Real>& call) {
  const uint64_t nodes = graph.plan->node_count(), types = graph.plan->type_count();
  return aligned(removed_bits_bytes(uint32_t(nodes), call.keep.batch())) +
         2 * types * nodes * uint64_t(call.width) * sizeof(double);
}

template <class Real>
void aggregate_shared(const CudaGraph& graph, const AggregateCall<Real>& call, Real* out,
                      const CudaLaunch& launch) {
  const auto stream = static_cast<cudaStream_t>(launch.stream);
  const auto a = shared_args(graph, call, launch);
  if (a.nodes == 0 || a.batch == 0) return;
  const uint32_t rows = a.nodes * uint32_t(a.types);
  if (rows > 0) {
    const dim3 grid(rows, uint32_t(divide_up(a.width, 32)));
    product_kernel<Real><<<grid, kWarps * 32, 0, stream>>>(a);
  }
  const uint32_t out_rows = call.sum_types ? a.nodes : rows;
  if (out_rows > 0) correct_kernel<Real><<<out_rows, kWarps * 32, 0, stream>>>(a, out);
  check_launch("aggregate_shared");
}

template <class Real>
void aggregate_shared_backward(const CudaGraph& graph, const AggregateCall<Real>& call,
                               const AggregateGradients<Real>& gradients,
                               const CudaLaunch& launch) {
  const auto stream = static_cast<cudaStream_t>(launch.stream);
  auto a = shared_args(graph, call, launch);
  a.grad_out = gradients.out;
  if (a.nodes == 0) return;
  const int64_t places = int64_t(a.types) * a.nodes * a.width;
  if (places > 0) {
    sum_samples<Real><<<uint32_t(divide_up(places, 256)), 256, 0, stream>>>(a);
  }
  const dim3 grid(a.nodes, uint32_t(divide_up(a.width, 32)));
  shared_grad_kernel<Real><<<grid, kWarps * 32, 0, stream>>>(a, gradients.x);
  if (gradients.eps != nullptr && a.types > 0) {
    shared_grad_eps<Real><<<uint32_t(a.types), 256, 0, stream>>>(a, gradients.eps);
  }
  for (int t = 0; t < a.types && gradients.values != nullptr; ++t) {
    const uint32_t edges = uint32_t(graph.plan->edge_count(uint32_t(t)));
    if (edges == 0) continue;
    shared_grad_values<Real>
        <<<uint32_t(divide_up(edges, 8)), 256, 0, stream>>>(a, t, edges, gradients.values);
  }
  check_launch("aggregate_shared backward");
}

#define LACUNA_INSTANTIATE(Real)                                                        \
  template uint64_t shared_workspace(const CudaGraph&, const AggregateCall<Real>&);     \
  template void aggregate_shared(const CudaGraph&, const AggregateCall<Real>&, Real*,   \
                                 const CudaLaunch&);                                    \
  template void aggregate_shared_backward(const CudaGraph&, const AggregateCall<Real>&, \
                                          const AggregateGradients<Real>&, const CudaLaunch&);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna::cuda
