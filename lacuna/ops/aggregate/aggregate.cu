#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "lacuna/ops/aggregate/aggregate_cuda.h"
#include "lacuna/ops/aggregate/aggregate_gather.cuh"
#include "lacuna/ops/slab/slab_aggregate.cuh"

namespace lacuna {
namespace {

using namespace cuda;

// Scratch memory, dealt out in order.
class Scratch {
 public:
  explicit Scratch(void* base) : base_(static_cast<std::byte*>(base)) {}
  template <class T>
  T* take(uint64_t count) {
    T* p = reinterpret_cast<T*>(base_ + used_);
    used_ += aligned(count * sizeof(T));
    return p;
  }
  void* rest() const { return base_ + used_; }
  uint64_t used() const { return used_; }

 private:
  std::byte* base_;
  uint64_t used_ = 0;
};

void check_arguments(const CudaGraph& graph, const CudaAggregateOptions& options, int64_t batch,
                     int64_t width, bool has_values) {
  if (graph.plan == nullptr || graph.device == nullptr) {
    throw_error("aggregate_cuda: graph has no plan on the device");
  }
  if (graph.plan->type_count() > kMaxTypes) {
    throw_error("aggregate_cuda: graph has " + std::to_string(graph.plan->type_count()) +
                " edge types, at most " + std::to_string(kMaxTypes) + " are supported");
  }
  if (batch < 0 || width < 0 || width > INT32_MAX) {
    throw_error("aggregate_cuda: batch " + std::to_string(batch) + " and width " +
                std::to_string(width) + " must not be negative");
  }
  if (graph.slabs != nullptr) graph.slabs->check_graph(*graph.plan);
  if (has_values && options.reduce != Reduce::sum) {
    throw_error("values are only for reduce 'sum', not '" + std::string(name(options.reduce)) +
                "'");
  }
  if (options.reduce == Reduce::max && options.sum_types) {
    throw_error("sum_types is not for reduce 'max'");
  }
}

template <class Real>
GatherArgs<Real> gather_args(const CudaGraph& graph, const CudaAggregateOptions& options,
                             bool backward, int64_t width, int64_t batch, const Real* source,
                             const Parameter<Real>* values, const Parameter<Real>* eps, Real* out) {
  GatherArgs<Real> a = {};
  a.csr = csr_table(graph, backward);
  a.wide_index = graph.plan->index_bytes() == 4;
  a.nodes = graph.plan->node_count();
  a.types = int(graph.plan->type_count());
  a.edges = int64_t(graph.plan->edge_count());
  a.all_types = options.sum_types || backward;
  a.columns = batch * width;
  a.width = int(std::max<int64_t>(width, 1));
  a.source = source;
  a.source_stride = backward && !options.sum_types ? int64_t(a.nodes) * a.columns : 0;
  a.values = values;
  a.eps = eps;
  a.out = out;
  return a;
}

// The slab ways; `removed` stays as it is, no bits are needed.
template <class Real>
void run_slabs(const CudaGraph& graph, CudaPass pass, CudaPath path, const GatherArgs<Real>& a,
               const CudaRemoved& removed, void* scratch, int32_t* error, cudaStream_t stream) {
  if constexpr (!std::is_same_v<Real, double>) {
    SlabArgs<Real> s = {};
    s.nodes = a.nodes;
    s.types = a.types;
    s.columns = int(a.columns);
    s.width = a.width;
    s.source = a.source;
    s.source_stride = a.source_stride;
    s.removed = removed;
    s.values = a.values;
    s.eps = a.eps;
    s.row_scale = a.row_scale;
    s.out = a.out;
    s.error = error;
    aggregate_slabs<Real>(graph, pass == CudaPass::forward,
                          path == CudaPath::slab_tensor ? SlabKernel::chunks : SlabKernel::rows, s,
                          scratch, stream);
  }
}

}  // namespace

template <class Real>
CudaPath aggregate_cuda_path(const CudaGraph& graph, const CudaAggregateOptions& options,
                             CudaPass pass, int64_t batch, int64_t width, bool has_values) {
  if constexpr (std::is_same_v<Real, double>) {
    return CudaPath::gather;
  } else {
    const bool forward = pass == CudaPass::forward;
    if (graph.slabs == nullptr || options.sum_types || graph.plan->type_count() == 0 ||
        !(options.reduce == Reduce::sum || (forward && options.reduce == Reduce::mean))) {
      return CudaPath::gather;
    }
    const SlabPlan& plan = *graph.slabs;
    const auto& slabs = forward ? plan.forward() : plan.backward();
    if (!slabs_fit<Real>(plan, slabs, batch * width, width)) return CudaPath::gather;
    return std::is_same_v<Real, BFloat16> && !has_values ? CudaPath::slab_tensor
                                                         : CudaPath::slab_rows;
  }
}

template <class Real>
uint64_t aggregate_cuda_workspace(const CudaGraph& graph, const CudaAggregateOptions& options,
                                  int64_t batch, int64_t width) {
  const uint64_t nodes = graph.plan->node_count(), types = graph.plan->type_count();
  Scratch scratch(nullptr);
  scratch.take<std::byte>(removed_bits_bytes(uint32_t(nodes), batch));
  scratch.take<double>(types * kDotBlocks);
  if (options.reduce == Reduce::mean || options.reduce == Reduce::gcn) {
    scratch.take<Sum<Real>>(types * nodes * uint64_t(batch));
  }
  if (options.reduce == Reduce::max) {
    scratch.take<uint32_t>(types * nodes * uint64_t(batch) * uint64_t(width));
  }
  if (!std::is_same_v<Real, double> && graph.slabs != nullptr) {
    const SlabPlan& plan = *graph.slabs;
    const int columns = 2 * kWide<Real>;
    const bool values = options.reduce == Reduce::sum;
    scratch.take<std::byte>(std::max(slab_scratch_bytes(plan, plan.forward(), columns, values),
                                     slab_scratch_bytes(plan, plan.backward(), columns, values)));
  }
  return scratch.used();
}

template <class Real>
void aggregate_cuda(const CudaGraph& graph, const CudaAggregateOptions& options, int64_t width,
                    const Real* x, const CudaRemoved& removed, const Parameter<Real>* values,
                    const Parameter<Real>* eps, Real* out, void* workspace, int32_t* error,
                    CudaStream stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  check_arguments(graph, options, removed.batch, width, values != nullptr);
  const uint32_t nodes = graph.plan->node_count();
  Scratch scratch(workspace);
  auto a = gather_args<Real>(graph, options, false, width, removed.batch, x, values, eps, out);
  if (nodes == 0 || a.columns == 0) return;
  if (options.sum_types && a.types == 0) {
    check(cudaMemsetAsync(out, 0, sizeof(Real) * nodes * a.columns, stream), "clear out");
    return;
  }
  CudaPath path = aggregate_cuda_path<Real>(graph, options, CudaPass::forward, removed.batch, width,
                                            values != nullptr);
  if (!is_aligned(x) || !is_aligned(out)) path = CudaPath::gather;
  auto* bits = scratch.take<std::byte>(removed_bits_bytes(nodes, removed.batch));
  if (path == CudaPath::gather || options.reduce != Reduce::sum) {
    a.removed = make_removed_bits(removed, nodes, bits, error, stream);
  }
  if (options.reduce == Reduce::max) return gather_max<Real>(a, out, nullptr, stream);
  if (options.reduce != Reduce::sum) {
    auto* scale = scratch.take<Sum<Real>>(uint64_t(a.types) * nodes * removed.batch);
    make_degree_scale<Real>(graph, options.reduce, a.removed, removed.batch, scale, stream);
    a.row_scale = scale;
    if (options.reduce == Reduce::gcn) a.neighbour_scale = scale;
  }
  if (path == CudaPath::gather) return gather<Real>(a, stream);
  run_slabs<Real>(graph, CudaPass::forward, path, a, removed, scratch.rest(), error, stream);
}

template <class Real>
void aggregate_backward_cuda(const CudaGraph& graph, const CudaAggregateOptions& options,
                             int64_t width, const Real* grad_out, const Real* x,
                             const CudaRemoved& removed, const Parameter<Real>* values,
                             const Parameter<Real>* eps, Real* grad_x, Parameter<Real>* grad_eps,
                             Parameter<Real>* grad_values, void* workspace, int32_t* error,
                             CudaStream stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  check_arguments(graph, options, removed.batch, width,
                  values != nullptr || grad_values != nullptr);
  if (x == nullptr &&
      (grad_eps != nullptr || grad_values != nullptr || options.reduce == Reduce::max)) {
    throw_error("x is needed for the gradients of eps and values and for reduce 'max'");
  }
  const uint32_t nodes = graph.plan->node_count();
  Scratch scratch(workspace);
  auto a =
      gather_args<Real>(graph, options, true, width, removed.batch, grad_out, values, eps, grad_x);
  if (nodes == 0 || a.columns == 0) return;
  if (a.types == 0) {
    check(cudaMemsetAsync(grad_x, 0, sizeof(Real) * nodes * a.columns, stream), "clear grad_x");
    return;
  }
  CudaPath path = aggregate_cuda_path<Real>(graph, options, CudaPass::backward, removed.batch,
                                            width, values != nullptr);
  if (!is_aligned(grad_out) || !is_aligned(grad_x)) path = CudaPath::gather;
  auto* bits = scratch.take<std::byte>(removed_bits_bytes(nodes, removed.batch));
  if (path == CudaPath::gather || grad_values != nullptr) {
    a.removed = make_removed_bits(removed, nodes, bits, error, stream);
  }
  auto* partial = scratch.take<double>(uint64_t(a.types) * kDotBlocks);
  if (grad_eps != nullptr) {
    dot_types<Real>(grad_out, a.source_stride, x, int64_t(nodes) * a.columns, a.types, partial,
                    grad_eps, stream);
  }
  if (options.reduce == Reduce::max) {
    auto* arg = scratch.take<uint32_t>(uint64_t(a.types) * nodes * a.columns);
    auto forward = gather_args<Real>(graph, options, false, width, removed.batch, x, nullptr,
                                     nullptr, nullptr);
    forward.removed = a.removed;
    gather_max<Real>(forward, nullptr, arg, stream);
    return gather_max_backward<Real>(a, arg, stream);
  }
  if (options.reduce != Reduce::sum) {
    auto* scale = scratch.take<Sum<Real>>(uint64_t(a.types) * nodes * removed.batch);
    make_degree_scale<Real>(graph, options.reduce, a.removed, removed.batch, scale, stream);
    a.neighbour_scale = scale;
    if (options.reduce == Reduce::gcn) a.row_scale = scale;
  }
  if (path == CudaPath::gather) {
    gather<Real>(a, stream);
  } else {
    run_slabs<Real>(graph, CudaPass::backward, path, a, removed, scratch.rest(), error, stream);
  }
  if (grad_values != nullptr) {
    auto by_target = a;
    by_target.csr = csr_table(graph, false);
    std::vector<uint64_t> counts;
    for (int t = 0; t < a.types; ++t) counts.push_back(graph.plan->edge_count(uint32_t(t)));
    dot_edges<Real>(by_target, x, counts.data(), grad_values, stream);
  }
}

#define LACUNA_INSTANTIATE(Real)                                                                   \
  template CudaPath aggregate_cuda_path<Real>(const CudaGraph&, const CudaAggregateOptions&,       \
                                              CudaPass, int64_t, int64_t, bool);                   \
  template uint64_t aggregate_cuda_workspace<Real>(const CudaGraph&, const CudaAggregateOptions&,  \
                                                   int64_t, int64_t);                              \
  template void aggregate_cuda<Real>(const CudaGraph&, const CudaAggregateOptions&, int64_t,       \
                                     const Real*, const CudaRemoved&, const Parameter<Real>*,      \
                                     const Parameter<Real>*, Real*, void*, int32_t*, CudaStream);  \
  template void aggregate_backward_cuda<Real>(                                                     \
      const CudaGraph&, const CudaAggregateOptions&, int64_t, const Real*, const Real*,            \
      const CudaRemoved&, const Parameter<Real>*, const Parameter<Real>*, Real*, Parameter<Real>*, \
      Parameter<Real>*, void*, int32_t*, CudaStream);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
