#include "lacuna/ops/aggregate/aggregate.h"

#include <array>

#include "lacuna/core/error.h"
#include "lacuna/ops/aggregate/aggregate_gradients.h"
#include "lacuna/ops/aggregate/aggregate_pass.h"
#include "lacuna/ops/aggregate/kept_degree.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 4> kReduceNames = {"sum", "mean", "gcn", "max"};

}  // namespace

std::string_view name(Reduce reduce) { return kReduceNames.at(size_t(reduce)); }

Reduce reduce_from_name(std::string_view name) {
  for (size_t i = 0; i < kReduceNames.size(); ++i)
    if (kReduceNames[i] == name) return Reduce(i);
  throw Error("reduce is '{}'; it is one of sum, mean, gcn, max", name);
}

void check_removed(const RemovedView& removed, uint32_t node_count) {
  const auto& [index, ptr] = removed;
  if (ptr.empty())
    throw Error("ptr is missing; it has one entry more than there are samples, from 0");
  if (ptr[0] != 0) throw Error("ptr[0] is {}; ptr starts at 0", ptr[0]);
  for (size_t b = 0; b + 1 < ptr.size(); ++b)
    if (ptr[b + 1] < ptr[b])
      throw Error("ptr[{}] = {} is less than ptr[{}] = {}; ptr must not decrease", b + 1,
                  ptr[b + 1], b, ptr[b]);
  if (size_t(ptr.back()) > index.size())
    throw Error("ptr ends at {}, but removed has {} entries", ptr.back(), index.size());
  for (size_t b = 0; b + 1 < ptr.size(); ++b)
    for (int32_t k = ptr[b]; k < ptr[b + 1]; ++k)
      if (index[size_t(k)] < 0 || uint32_t(index[size_t(k)]) >= node_count)
        throw Error(
            "removed[{}] = {} (sample {}) is not a node; the graph has {} nodes, counted from 0", k,
            index[size_t(k)], b, node_count);
}

template <class Real>
void aggregate(const GraphPlan& graph, const AggregateOptions& options, int64_t width,
               const Real* x, const RemovedView& removed, const Parameter<Real>* values,
               const Parameter<Real>* eps, Real* out) {
  check_options(options, width, values != nullptr);
  check_removed(removed, graph.node_count());
  const RemovedSets sets = removed_sets(removed);
  AggregatePass<Real> in = {graph, options, width, removed.batch(), values, eps, {}, &sets, {}};
  check_forward(in, x, out);
  in.scales = degree_scales(graph, options.reduce, sets, removed.batch(), options.threads);
  run(forward_pass(in, x, out));
}

template <class Real>
void aggregate_backward(const GraphPlan& graph, const AggregateOptions& options, int64_t width,
                        const Real* grad_out, const Real* x, const RemovedView& removed,
                        const Parameter<Real>* values, const Parameter<Real>* eps, Real* grad_x,
                        Parameter<Real>* grad_eps, Parameter<Real>* grad_values) {
  check_options(options, width, values != nullptr || grad_values != nullptr);
  check_removed(removed, graph.node_count());
  const RemovedSets sets = removed_sets(removed);
  AggregatePass<Real> in = {graph, options, width, removed.batch(), values, eps, {}, &sets, {}};
  const bool maximum = options.reduce == Reduce::max;
  check_backward(in, grad_out, grad_x,
                 grad_eps != nullptr || grad_values != nullptr || maximum ? &x : nullptr);
  in.scales = degree_scales(graph, options.reduce, sets, removed.batch(), options.threads);
  const ColumnPass<Real> pass = backward_pass(in, grad_out, grad_x);
  maximum ? run_max_backward(graph, x, pass) : run(pass);
  if (grad_eps != nullptr) eps_gradient(pass, x, grad_eps);
  if (grad_values != nullptr) values_gradient(graph, pass, x, grad_values);
}

#define LACUNA_INSTANTIATE(Real)                                                              \
  template void aggregate(const GraphPlan&, const AggregateOptions&, int64_t, const Real*,    \
                          const RemovedView&, const Parameter<Real>*, const Parameter<Real>*, \
                          Real*);                                                             \
  template void aggregate_backward(const GraphPlan&, const AggregateOptions&, int64_t,        \
                                   const Real*, const Real*, const RemovedView&,              \
                                   const Parameter<Real>*, const Parameter<Real>*, Real*,     \
                                   Parameter<Real>*, Parameter<Real>*);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
