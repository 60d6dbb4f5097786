#include "lacuna/ops/aggregate/aggregate.h"

#include <array>

#include "lacuna/core/error.h"
#include "lacuna/ops/aggregate/aggregate_shared.h"
#include "lacuna/ops/aggregate/column_pass.h"
#include "lacuna/ops/aggregate/kept.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 4> kReduceNames = {"sum", "mean", "gcn", "max"};

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

void check_ptr_given(const RemovedView& removed) {
  if (removed.ptr.empty())
    throw Error("ptr is missing; it has one entry more than there are samples, from 0");
}

template <class Real>
void check_call(const AggregateCall<Real>& call, const GraphPlan& graph, bool has_values) {
  if (call.width < 1) throw Error("width is {}; a row needs at least one channel", call.width);
  check_reduce(call.reduce, call.sum_types, call.shared, call.keep.masked, has_values);
  if (call.keep.masked)
    check_masks(call.keep.masks, graph);
  else
    check_ptr_given(call.keep.removed);
}

template <class Real>
int64_t x_elements(const AggregateCall<Real>& call, const GraphPlan& graph) {
  return int64_t(graph.node_count()) * (call.shared ? 1 : call.keep.batch()) * call.width;
}
template <class Real>
int64_t out_elements(const AggregateCall<Real>& call, const GraphPlan& graph) {
  return int64_t(graph.node_count()) * call.keep.batch() * call.width *
         (call.sum_types ? 1 : int64_t(graph.type_count()));
}

// A call as passes over the edges: forward walks them by target, backward by source with the scales
// of both ends exchanged.
template <class Real>
class Passes {
 public:
  Passes(const GraphPlan& graph, const AggregateCall<Real>& call)
      : graph_(graph),
        call_(call),
        sets_(removed_sets(call.keep.removed)),
        scales_(degree_scales(graph, call.reduce, call.keep, sets_, call.threads)) {}

  ColumnPass<Real> forward(Real* out) const {
    ColumnPass<Real> pass = make_pass(out);
    pass.maximum = call_.reduce == Reduce::max;
    pass.sum_types = call_.sum_types;
    for (uint32_t t = 0; t < graph_.type_count(); ++t) {
      TypePass<Real> type = make_type(t, call_.x, graph_.by_target(t));
      type.load_scale = call_.reduce == Reduce::gcn ? scale(t) : nullptr;
      type.store_scale = scale(t);
      pass.types.push_back(type);
    }
    return pass;
  }

  ColumnPass<Real> backward(const Real* grad_out, Real* grad_x) const {
    ColumnPass<Real> pass = make_pass(grad_x);
    pass.sum_types = true;
    const int64_t type_stride = call_.sum_types ? 0 : pass.rows * pass.batch * pass.width;
    for (uint32_t t = 0; t < graph_.type_count(); ++t) {
      TypePass<Real> type = make_type(t, grad_out + t * type_stride, graph_.by_source(t));
      type.load_scale = scale(t);
      type.store_scale = call_.reduce == Reduce::gcn ? scale(t) : nullptr;
      pass.types.push_back(type);
    }
    return pass;
  }

 private:
  ColumnPass<Real> make_pass(Real* out) const {
    const int64_t nodes = graph_.node_count();
    ColumnPass<Real> pass = {.sources = nodes,
                             .rows = nodes,
                             .batch = call_.keep.batch(),
                             .width = call_.width,
                             .index_bytes = graph_.index_bytes()};
    if (!call_.keep.masked) pass.removed_sources = pass.removed_rows = &sets_;
    pass.mask_stride = call_.keep.masks.stride;
    pass.out = out;
    pass.threads = call_.threads;
    return pass;
  }
  TypePass<Real> make_type(uint32_t t, const Real* source, const CsrView& csr) const {
    TypePass<Real> type = {.source = source, .csr = csr};
    if (call_.values != nullptr) type.values = call_.values + graph_.first_edge(t);
    if (call_.keep.masked)
      type.masks = call_.keep.masks.records.data() + call_.keep.masks.edge_offsets[t];
    if (call_.eps != nullptr) type.self = 1 + call_.eps[t];
    return type;
  }
  const double* scale(uint32_t t) const {
    return call_.reduce == Reduce::sum ? nullptr : scales_[t].data();
  }

  const GraphPlan& graph_;
  const AggregateCall<Real>& call_;
  RemovedSets sets_;                         // none with masks
  std::vector<std::vector<double>> scales_;  // [T][N, B], empty for sum
};

}  // namespace

std::string_view name(Reduce reduce) { return kReduceNames.at(size_t(reduce)); }

Reduce reduce_from_name(std::string_view name) {
  for (size_t i = 0; i < kReduceNames.size(); ++i)
    if (kReduceNames[i] == name) return Reduce(i);
  throw Error("reduce is '{}'; it is one of sum, mean, gcn, max", name);
}

void check_removed(const RemovedView& removed, uint32_t node_count) {
  check_ptr_given(removed);
  const auto& [index, ptr] = removed;
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

void check_given(const void* array, const char* argument, int64_t elements) {
  if (array == nullptr && elements > 0)
    throw Error("{} is missing; it needs {} elements", argument, elements);
}

void check_reduce(Reduce reduce, bool sum_types, bool shared, bool masked, bool has_values) {
  LACUNA_ASSERT(!shared || !masked);
  if (masked && reduce == Reduce::max)
    throw Error("reduce 'max' is not offered with masks; use aggregate");
  if (shared && reduce != Reduce::sum && reduce != Reduce::mean)
    throw Error(
        "reduce '{}' is not offered for a shared x; repeat x for every sample and use aggregate",
        name(reduce));
  if (sum_types && reduce == Reduce::max)
    throw Error("sum_types cannot go with reduce 'max'; take the types one by one");
  if (has_values && reduce != Reduce::sum)
    throw Error("values cannot go with reduce '{}', only with 'sum'", name(reduce));
}

template <class Real>
void check(const AggregateCall<Real>& call, const GraphPlan& graph, const Real* out) {
  check_call(call, graph, call.values != nullptr);
  check_given(call.x, "x", x_elements(call, graph));
  check_given(out, "out", out_elements(call, graph));
}

template <class Real>
void check(const AggregateCall<Real>& call, const GraphPlan& graph,
           const AggregateGradients<Real>& gradients) {
  check_call(call, graph, call.values != nullptr || gradients.values != nullptr);
  check_given(gradients.out, "grad_out", out_elements(call, graph));
  check_given(gradients.x, "grad_x", x_elements(call, graph));
  if (gradients.eps != nullptr || gradients.values != nullptr || call.reduce == Reduce::max)
    check_given(call.x, "x", x_elements(call, graph));
}

template <class Real>
void aggregate(const GraphPlan& graph, const AggregateCall<Real>& call, Real* out) {
  check(call, graph, out);
  if (!call.keep.masked) check_removed(call.keep.removed, graph.node_count());
  if (call.shared) return aggregate_shared(graph, call, out);
  run(Passes<Real>(graph, call).forward(out));
}

template <class Real>
void aggregate_backward(const GraphPlan& graph, const AggregateCall<Real>& call,
                        const AggregateGradients<Real>& gradients) {
  check(call, graph, gradients);
  if (!call.keep.masked) check_removed(call.keep.removed, graph.node_count());
  if (call.shared) return aggregate_shared_backward(graph, call, gradients);
  const Passes<Real> passes(graph, call);
  const ColumnPass<Real> pass = passes.backward(gradients.out, gradients.x);
  call.reduce == Reduce::max ? run_max_backward(graph, call.x, pass) : run(pass);
  if (gradients.eps != nullptr) eps_gradient(pass, call.x, gradients.eps);
  if (gradients.values != nullptr) values_gradient(graph, pass, call.x, gradients.values);
}

#define LACUNA_INSTANTIATE(Real)                                                  \
  template void check(const AggregateCall<Real>&, const GraphPlan&, const Real*); \
  template void check(const AggregateCall<Real>&, const GraphPlan&,               \
                      const AggregateGradients<Real>&);                           \
  template void aggregate(const GraphPlan&, const AggregateCall<Real>&, Real*);   \
  template void aggregate_backward(const GraphPlan&, const AggregateCall<Real>&,  \
                                   const AggregateGradients<Real>&);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
