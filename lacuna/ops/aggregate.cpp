#include "lacuna/ops/aggregate.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lacuna/core/error.h"
#include "lacuna/core/threads.h"
#include "lacuna/ops/aggregate_gradients.h"
#include "lacuna/ops/kept_degree.h"
#include "lacuna/ops/slice_pass.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 4> kReduceNames = {"sum", "mean", "gcn", "max"};

void check(const GraphPlan& graph, const AggregateOptions& options, int64_t width, bool has_values,
           const RemovedView& removed) {
  if (width < 1) throw Error("width is {}; a row needs at least one channel", width);
  if (has_values && options.reduce != Reduce::sum)
    throw Error("values are given, but reduce is '{}'; edge values go with 'sum'",
                name(options.reduce));
  if (options.sum_types && options.reduce == Reduce::max)
    throw Error("sum_types does not go with reduce 'max'; take the types one by one");
  check_removed(removed, graph.node_count());
}

void check_given(const void* pointer, const char* argument, uint64_t elements) {
  if (pointer == nullptr && elements > 0)
    throw Error("{} is missing; it needs {} elements", argument, elements);
}

// The part of a pass that forward and backward share.
template <class Real>
SlicePass<Real> make_pass(const GraphPlan& graph, const AggregateOptions& options, int64_t width,
                          const RemovedSets& removed) {
  const int64_t nodes = graph.node_count();
  SlicePass<Real> pass = {.sources = nodes,
                          .rows = nodes,
                          .batch = int64_t(removed.ptr.size()) - 1,
                          .width = width,
                          .index_bytes = graph.index_bytes()};
  pass.removed_sources = pass.removed_rows = &removed;
  pass.threads = options.threads;
  return pass;
}

template <class Real>
std::optional<Parameter<Real>> self_factor(const Parameter<Real>* eps, uint32_t type) {
  if (eps == nullptr) return {};
  return 1 + eps[type];
}

const double* data_or_null(const std::vector<double>& values) {
  return values.empty() ? nullptr : values.data();
}

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
  check(graph, options, width, values != nullptr, removed);
  const int64_t batch = removed.batch(), elements = graph.node_count() * batch * width;
  const int64_t out_types = options.sum_types ? 1 : graph.type_count();
  check_given(x, "x", uint64_t(elements));
  check_given(out, "out", uint64_t(elements * out_types));

  const RemovedSets sets = removed_sets(removed);
  const auto scales = degree_scales(graph, options.reduce, sets, batch, options.threads);
  SlicePass<Real> pass = make_pass<Real>(graph, options, width, sets);
  pass.maximum = options.reduce == Reduce::max;
  pass.sum_types = options.sum_types;
  pass.summed_out = out;
  for (uint32_t t = 0; t < graph.type_count(); ++t) {
    TypePass<Real> type = {.source = x, .csr = graph.by_target(t)};
    type.values = values == nullptr ? nullptr : values + graph.first_edge(t);
    type.load_scale = options.reduce == Reduce::gcn ? data_or_null(scales[t]) : nullptr;
    type.store_scale = data_or_null(scales[t]);
    type.self = self_factor<Real>(eps, t);
    type.out = out + (options.sum_types ? 0 : t * elements);
    pass.types.push_back(type);
  }
  run(pass);
}

template <class Real>
void aggregate_backward(const GraphPlan& graph, const AggregateOptions& options, int64_t width,
                        const Real* grad_out, const Real* x, const RemovedView& removed,
                        const Parameter<Real>* values, const Parameter<Real>* eps, Real* grad_x,
                        Parameter<Real>* grad_eps, Parameter<Real>* grad_values) {
  check(graph, options, width, values != nullptr || grad_values != nullptr, removed);
  const int64_t batch = removed.batch(), elements = graph.node_count() * batch * width;
  const int64_t out_types = options.sum_types ? 1 : graph.type_count();
  const bool maximum = options.reduce == Reduce::max;
  check_given(grad_out, "grad_out", uint64_t(elements * out_types));
  check_given(grad_x, "grad_x", uint64_t(elements));
  if (grad_eps != nullptr || grad_values != nullptr || maximum)
    check_given(x, "x", uint64_t(elements));

  const RemovedSets sets = removed_sets(removed);
  const auto scales = degree_scales(graph, options.reduce, sets, batch, options.threads);
  SlicePass<Real> pass = make_pass<Real>(graph, options, width, sets);
  pass.sum_types = true;
  pass.summed_out = grad_x;
  for (uint32_t t = 0; t < graph.type_count(); ++t) {
    TypePass<Real> type = {.source = grad_out + (options.sum_types ? 0 : t * elements),
                           .csr = graph.by_source(t)};
    type.values = values == nullptr ? nullptr : values + graph.first_edge(t);
    type.load_scale = data_or_null(scales[t]);
    type.store_scale = options.reduce == Reduce::gcn ? data_or_null(scales[t]) : nullptr;
    type.self = self_factor<Real>(eps, t);
    pass.types.push_back(type);
  }
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
