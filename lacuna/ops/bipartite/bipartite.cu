#include "lacuna/ops/aggregate/aggregate_gather.cuh"
#include "lacuna/ops/bipartite/bipartite_cuda.h"

namespace lacuna {
namespace {

using namespace cuda;

// What a term or a row is divided by.
enum class Mean { none, row_degree, row_kept, neighbour_degree, neighbour_kept };

template <class Real>
struct StepArgs {
  Csr csr;   // row -> neighbours
  Csr back;  // neighbour -> rows
  bool wide_index;
  uint32_t rows;
  int64_t columns;
  int width;
  const uint32_t* row_off;        // [rows, words] or null: such a row is 0
  const uint32_t* neighbour_off;  // [neighbours, words] or null: such a neighbour is not summed
  const uint32_t* back_off;  // as row_off, of the rows that `back` leads to; for neighbour_kept
  int words;
  Mean mean;
  const float* coefficients;  // [E] or null
  const Real* source;
  Real* out;
};

__device__ __forceinline__ bool is_off(const uint32_t* bits, int words, uint32_t node, int64_t b) {
  return bits != nullptr && (bits[int64_t(node) * words + (b >> 5)] >> (b & 31) & 1) != 0;
}

// A reaction is off where any of its genes is removed: a thread a (reaction, word).
__global__ void reactions_off(Csr genes, bool wide_index, uint32_t reactions, int words,
                              const uint32_t* gene_bits, uint32_t* off) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const uint32_t r = uint32_t(i / words), w = uint32_t(i % words);
  if (r >= reactions) return;
  uint32_t bits = 0;
  for (uint32_t k = genes.ptr[r]; k < genes.ptr[r + 1]; ++k) {
    bits |= gene_bits[int64_t(genes.node(k, wide_index)) * words + w];
  }
  off[i] = bits;
}

// A thread a (row, column).
template <class Real>
__global__ void step_kernel(const __grid_constant__ StepArgs<Real> a) {
  using S = Sum<Real>;
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = i / a.columns, column = i % a.columns, b = column / a.width;
  if (row >= a.rows) return;
  S sum = 0;
  if (!is_off(a.row_off, a.words, uint32_t(row), b)) {
    const uint32_t begin = a.csr.ptr[row], end = a.csr.ptr[row + 1];
    uint32_t kept = 0;
    for (uint32_t k = begin; k < end; ++k) {
      const uint32_t u = a.csr.node(k, a.wide_index);
      if (is_off(a.neighbour_off, a.words, u, b)) continue;
      ++kept;
      S weight = a.coefficients == nullptr ? S(1) : S(a.coefficients[a.csr.edge[k]]);
      if (a.mean == Mean::neighbour_degree) weight = S(1) / S(a.back.ptr[u + 1] - a.back.ptr[u]);
      if (a.mean == Mean::neighbour_kept) {
        uint32_t count = 0;
        for (uint32_t j = a.back.ptr[u]; j < a.back.ptr[u + 1]; ++j) {
          count += !is_off(a.back_off, a.words, a.back.node(j, a.wide_index), b);
        }
        weight = S(1) / S(count);
      }
      sum = fma(weight, S(widen(a.source[int64_t(u) * a.columns + column])), sum);
    }
    if (a.mean == Mean::row_degree && end > begin) sum /= S(end - begin);
    if (a.mean == Mean::row_kept && kept > 0) sum /= S(kept);
  }
  a.out[i] = round_to<Real>(sum);
}

template <class Real>
void run_step(const CudaBipartite& g, BipartiteStep step, bool forward, int64_t width,
              const Real* source, const CudaRemoved& removed, Real* out, void* workspace,
              int32_t* error, cudaStream_t stream) {
  if (g.graph == nullptr || g.device == nullptr) {
    throw_error("bipartite_cuda: graph has no plan on the device");
  }
  const BipartiteGraph& graph = *g.graph;
  const CudaGraph plan = {&graph.plan, g.device, nullptr, nullptr};
  const int words = int(divide_up(removed.batch, 32));
  const bool wide = graph.plan.index_bytes() == 4;
  const Csr genes_of_reaction = csr_table(plan, false).of[0];
  auto* bits = static_cast<std::byte*>(workspace);
  const RemovedBits gene_bits = make_removed_bits(removed, graph.genes, bits, error, stream);
  auto* off =
      reinterpret_cast<uint32_t*>(bits + aligned(removed_bits_bytes(graph.genes, removed.batch)));
  if (graph.reactions > 0 && words > 0) {
    reactions_off<<<uint32_t(divide_up(int64_t(graph.reactions) * words, 256)), 256, 0, stream>>>(
        genes_of_reaction, wide, graph.reactions, words, gene_bits.word, off);
  }
  const bool genes =
      step == BipartiteStep::gene_to_reaction || step == BipartiteStep::reaction_to_gene;
  const bool from_reactions =
      step == BipartiteStep::reaction_to_metabolite || step == BipartiteStep::reaction_to_gene;
  const bool along = (step == BipartiteStep::gene_to_reaction ||
                      step == BipartiteStep::reaction_to_metabolite) == forward;
  const int edges = genes ? 0 : 1;
  StepArgs<Real> a = {};
  a.csr = csr_table(plan, !along).of[edges];
  a.back = csr_table(plan, along).of[edges];
  a.wide_index = wide;
  a.rows = forward ? target_count(graph, step) : source_count(graph, step);
  a.columns = removed.batch * width;
  a.width = int(width);
  a.words = words;
  const bool rows_are_reactions = from_reactions != forward;
  (rows_are_reactions ? a.row_off : a.neighbour_off) = off;
  if (rows_are_reactions) a.back_off = off;
  if (step == BipartiteStep::gene_to_reaction) {
    a.mean = forward ? Mean::row_degree : Mean::neighbour_degree;
  } else if (step == BipartiteStep::reaction_to_gene) {
    a.mean = forward ? Mean::row_kept : Mean::neighbour_kept;
  } else {
    a.coefficients = g.coefficients;
  }
  a.source = source;
  a.out = out;
  const int64_t elements = int64_t(a.rows) * a.columns;
  if (elements == 0) return;
  step_kernel<Real><<<uint32_t(divide_up(elements, 256)), 256, 0, stream>>>(a);
  check_launch("bipartite");
}

}  // namespace

uint64_t bipartite_cuda_workspace(const BipartiteGraph& graph, int64_t batch) {
  return aligned(removed_bits_bytes(graph.genes, batch)) +
         aligned(removed_bits_bytes(graph.reactions, batch));
}

template <class Real>
void bipartite_cuda(const CudaBipartite& graph, BipartiteStep step, int64_t width, const Real* x,
                    const CudaRemoved& removed, Real* out, void* workspace, int32_t* error,
                    CudaStream stream) {
  run_step<Real>(graph, step, true, width, x, removed, out, workspace, error,
                 static_cast<cudaStream_t>(stream));
}

template <class Real>
void bipartite_backward_cuda(const CudaBipartite& graph, BipartiteStep step, int64_t width,
                             const Real* grad_out, const CudaRemoved& removed, Real* grad_x,
                             void* workspace, int32_t* error, CudaStream stream) {
  run_step<Real>(graph, step, false, width, grad_out, removed, grad_x, workspace, error,
                 static_cast<cudaStream_t>(stream));
}

#define LACUNA_INSTANTIATE(Real)                                                                \
  template void bipartite_cuda<Real>(const CudaBipartite&, BipartiteStep, int64_t, const Real*, \
                                     const CudaRemoved&, Real*, void*, int32_t*, CudaStream);   \
  template void bipartite_backward_cuda<Real>(const CudaBipartite&, BipartiteStep, int64_t,     \
                                              const Real*, const CudaRemoved&, Real*, void*,    \
                                              int32_t*, CudaStream);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
