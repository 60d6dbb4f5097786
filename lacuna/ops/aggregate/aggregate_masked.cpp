#include "lacuna/ops/aggregate/aggregate_masked.h"

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/ops/aggregate/aggregate_gradients.h"
#include "lacuna/ops/aggregate/aggregate_pass.h"
#include "lacuna/ops/aggregate/kept_degree.h"

namespace lacuna {
namespace {

// [T][N, B]: in-edges that are on, made into scales.
std::vector<std::vector<double>> masked_scales(const GraphPlan& graph, Reduce reduce,
                                               const MaskView& masks, int threads) {
  std::vector<std::vector<double>> scales(graph.type_count());
  if (reduce == Reduce::sum) return scales;
  const size_t batch = size_t(masks.batch());
  parallel_for(graph.type_count(), threads, [&](uint64_t type) {
    const CsrView csr = graph.by_target(uint32_t(type));
    scales[type].resize(graph.node_count() * batch);
    for (size_t b = 0; b < batch; ++b) {
      const uint8_t* mask = masks.records.data() + b * masks.stride + masks.edge_offsets[type];
      for (uint32_t node = 0; node < graph.node_count(); ++node) {
        double degree = 0;
        for (uint32_t k = csr.ptr[node]; k < csr.ptr[node + 1]; ++k)
          degree += mask[csr.edge[k]] != 0;
        scales[type][node * batch + b] = degree_scale(reduce, degree);
      }
    }
  });
  return scales;
}

template <class Real>
AggregatePass<Real> make_input(const GraphPlan& graph, const AggregateOptions& options,
                               int64_t width, const MaskView& masks, const Parameter<Real>* values,
                               const Parameter<Real>* eps, bool has_values) {
  check_options(options, width, has_values);
  if (options.reduce == Reduce::max)
    throw Error("reduce 'max' is not offered with masks; use sum, mean or gcn");
  check_masks(masks, graph);
  return {graph,
          options,
          width,
          masks.batch(),
          values,
          eps,
          {},
          nullptr,
          {masks.records.data(), masks.stride, masks.edge_offsets}};
}

}  // namespace

void check_masks(const MaskView& masks, const GraphPlan& graph) {
  if (masks.edge_offsets.size() != graph.type_count())
    throw Error("edge_offsets has {} entries, but the graph has {} edge types",
                masks.edge_offsets.size(), graph.type_count());
  for (uint32_t t = 0; t < graph.type_count(); ++t)
    if (masks.edge_offsets[t] > masks.stride ||
        graph.edge_count(t) > masks.stride - masks.edge_offsets[t])
      throw Error("edge_offsets[{}] = {} and {} edges pass the end of a mask record of {} bytes", t,
                  masks.edge_offsets[t], graph.edge_count(t), masks.stride);
  if (masks.stride == 0 ? !masks.records.empty() : masks.records.size() % masks.stride != 0)
    throw Error("records has {} bytes, which is no whole number of records of {} bytes",
                masks.records.size(), masks.stride);
}

template <class Real>
void aggregate_masked(const GraphPlan& graph, const AggregateOptions& options, int64_t width,
                      const Real* x, const MaskView& masks, const Parameter<Real>* values,
                      const Parameter<Real>* eps, Real* out) {
  auto in = make_input<Real>(graph, options, width, masks, values, eps, values != nullptr);
  check_forward(in, x, out);
  in.scales = masked_scales(graph, options.reduce, masks, options.threads);
  run(forward_pass(in, x, out));
}

template <class Real>
void aggregate_masked_backward(const GraphPlan& graph, const AggregateOptions& options,
                               int64_t width, const Real* grad_out, const Real* x,
                               const MaskView& masks, const Parameter<Real>* values,
                               const Parameter<Real>* eps, Real* grad_x, Parameter<Real>* grad_eps,
                               Parameter<Real>* grad_values) {
  auto in = make_input<Real>(graph, options, width, masks, values, eps,
                             values != nullptr || grad_values != nullptr);
  check_backward(in, grad_out, grad_x,
                 grad_eps != nullptr || grad_values != nullptr ? &x : nullptr);
  in.scales = masked_scales(graph, options.reduce, masks, options.threads);
  const ColumnPass<Real> pass = backward_pass(in, grad_out, grad_x);
  run(pass);
  if (grad_eps != nullptr) eps_gradient(pass, x, grad_eps);
  if (grad_values != nullptr) values_gradient(graph, pass, x, grad_values);
}

#define LACUNA_INSTANTIATE(Real)                                                                  \
  template void aggregate_masked(const GraphPlan&, const AggregateOptions&, int64_t, const Real*, \
                                 const MaskView&, const Parameter<Real>*, const Parameter<Real>*, \
                                 Real*);                                                          \
  template void aggregate_masked_backward(const GraphPlan&, const AggregateOptions&, int64_t,     \
                                          const Real*, const Real*, const MaskView&,              \
                                          const Parameter<Real>*, const Parameter<Real>*, Real*,  \
                                          Parameter<Real>*, Parameter<Real>*);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
