#include <algorithm>
#include <string>
#include <vector>

#include "lacuna/ops/aggregate/aggregate_gather.cuh"
#include "lacuna/ops/aggregate/aggregate_masked_cuda.h"

namespace lacuna {
namespace {

using namespace cuda;

template <class Real>
GatherArgs<Real> masked_args(const CudaGraph& graph, const CudaAggregateOptions& options,
                             bool backward, int64_t width, const CudaMasks& masks,
                             bool has_values) {
  if (graph.plan == nullptr || graph.device == nullptr) {
    throw_error("aggregate_masked_cuda: graph has no plan on the device");
  }
  const GraphPlan& plan = *graph.plan;
  if (plan.type_count() > kMaxTypes) {
    throw_error("aggregate_masked_cuda: graph has " + std::to_string(plan.type_count()) +
                " edge types, at most " + std::to_string(kMaxTypes) + " are supported");
  }
  if (options.reduce == Reduce::max) throw_error("reduce 'max' is not offered with masks");
  if (has_values && options.reduce != Reduce::sum) {
    throw_error("values are only for reduce 'sum', not '" + std::string(name(options.reduce)) +
                "'");
  }
  if (masks.edge_offsets.size() != plan.type_count()) {
    throw_error("masks: has " + std::to_string(masks.edge_offsets.size()) + " offsets for " +
                std::to_string(plan.type_count()) + " edge types");
  }
  GatherArgs<Real> a = {};
  for (uint32_t t = 0; t < plan.type_count(); ++t) {
    if (masks.edge_offsets[t] + plan.edge_count(t) > masks.stride) {
      throw_error("masks: the mask of type " + std::to_string(t) + " passes the end of a record");
    }
    a.masks.offset[t] = int64_t(masks.edge_offsets[t]);
  }
  a.masks.base = masks.records;
  a.masks.stride = int64_t(masks.stride);
  a.csr = csr_table(graph, backward);
  a.wide_index = plan.index_bytes() == 4;
  a.nodes = plan.node_count();
  a.types = int(plan.type_count());
  a.edges = int64_t(plan.edge_count());
  a.all_types = options.sum_types || backward;
  a.columns = masks.batch * width;
  a.width = int(std::max<int64_t>(width, 1));
  a.source_stride = backward && !options.sum_types ? int64_t(a.nodes) * a.columns : 0;
  return a;
}

}  // namespace

template <class Real>
uint64_t aggregate_masked_cuda_workspace(const CudaGraph& graph,
                                         const CudaAggregateOptions& options, int64_t batch) {
  const uint64_t types = graph.plan->type_count(), nodes = graph.plan->node_count();
  const bool scaled = options.reduce == Reduce::mean || options.reduce == Reduce::gcn;
  return aligned(types * kDotBlocks * sizeof(double)) +
         (scaled ? aligned(types * nodes * uint64_t(batch) * sizeof(Sum<Real>)) : 0);
}

template <class Real>
void aggregate_masked_cuda(const CudaGraph& graph, const CudaAggregateOptions& options,
                           int64_t width, const Real* x, const CudaMasks& masks,
                           const Parameter<Real>* values, const Parameter<Real>* eps, Real* out,
                           void* workspace, CudaStream stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  auto a = masked_args<Real>(graph, options, false, width, masks, values != nullptr);
  a.source = x;
  a.values = values;
  a.eps = eps;
  a.out = out;
  if (a.nodes == 0 || a.columns == 0) return;
  if (options.sum_types && a.types == 0) {
    check(cudaMemsetAsync(out, 0, sizeof(Real) * a.nodes * a.columns, stream), "clear out");
    return;
  }
  if (options.reduce != Reduce::sum) {
    auto* scale = static_cast<Sum<Real>*>(workspace);
    make_masked_degree_scale<Real>(a, csr_table(graph, false), options.reduce, masks.batch, scale,
                                   stream);
    a.row_scale = scale;
    if (options.reduce == Reduce::gcn) a.neighbour_scale = scale;
  }
  gather<Real>(a, stream);
}

template <class Real>
void aggregate_masked_backward_cuda(const CudaGraph& graph, const CudaAggregateOptions& options,
                                    int64_t width, const Real* grad_out, const Real* x,
                                    const CudaMasks& masks, const Parameter<Real>* values,
                                    const Parameter<Real>* eps, Real* grad_x,
                                    Parameter<Real>* grad_eps, Parameter<Real>* grad_values,
                                    void* workspace, CudaStream stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  auto a = masked_args<Real>(graph, options, true, width, masks,
                             values != nullptr || grad_values != nullptr);
  if (x == nullptr && (grad_eps != nullptr || grad_values != nullptr)) {
    throw_error("x is needed for the gradients of eps and values");
  }
  a.source = grad_out;
  a.values = values;
  a.eps = eps;
  a.out = grad_x;
  if (a.nodes == 0 || a.columns == 0) return;
  if (a.types == 0) {
    check(cudaMemsetAsync(grad_x, 0, sizeof(Real) * a.nodes * a.columns, stream), "clear grad_x");
    return;
  }
  auto* memory = static_cast<std::byte*>(workspace);
  auto* partial = reinterpret_cast<double*>(memory);
  if (grad_eps != nullptr) {
    dot_types<Real>(grad_out, a.source_stride, x, int64_t(a.nodes) * a.columns, a.types, partial,
                    grad_eps, stream);
  }
  if (options.reduce != Reduce::sum) {
    auto* scale = reinterpret_cast<Sum<Real>*>(
        memory + aligned(uint64_t(a.types) * kDotBlocks * sizeof(double)));
    make_masked_degree_scale<Real>(a, csr_table(graph, false), options.reduce, masks.batch, scale,
                                   stream);
    a.neighbour_scale = scale;
    if (options.reduce == Reduce::gcn) a.row_scale = scale;
  }
  gather<Real>(a, stream);
  if (grad_values != nullptr) {
    auto by_target = a;
    by_target.csr = csr_table(graph, false);
    std::vector<uint64_t> counts;
    for (int t = 0; t < a.types; ++t) counts.push_back(graph.plan->edge_count(uint32_t(t)));
    dot_edges<Real>(by_target, x, counts.data(), grad_values, stream);
  }
}

#define LACUNA_INSTANTIATE(Real)                                                                 \
  template uint64_t aggregate_masked_cuda_workspace<Real>(const CudaGraph&,                      \
                                                          const CudaAggregateOptions&, int64_t); \
  template void aggregate_masked_cuda<Real>(                                                     \
      const CudaGraph&, const CudaAggregateOptions&, int64_t, const Real*, const CudaMasks&,     \
      const Parameter<Real>*, const Parameter<Real>*, Real*, void*, CudaStream);                 \
  template void aggregate_masked_backward_cuda<Real>(                                            \
      const CudaGraph&, const CudaAggregateOptions&, int64_t, const Real*, const Real*,          \
      const CudaMasks&, const Parameter<Real>*, const Parameter<Real>*, Real*, Parameter<Real>*, \
      Parameter<Real>*, void*, CudaStream);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
