// aggregate() of a call with `shared` (aggregate.h says how), and what both directions start from;
// internal.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "lacuna/ops/aggregate/aggregate.h"
#include "lacuna/ops/aggregate/kept.h"

namespace lacuna {

// A call with its arrays in double, where sums are taken.
template <class Real>
struct SharedInput {
  const GraphPlan& graph;
  const AggregateCall<Real>& call;
  int64_t nodes, batch, width;
  RemovedSets removed;
  std::vector<double> x;       // [N, H]
  std::vector<double> values;  // [E] or empty
  std::vector<double> self;    // [T], 1 + eps; 0 without
  // Types whose results are added up in one output: each by itself, or all of them.
  std::vector<std::pair<uint32_t, uint32_t>> groups;  // [first, end)

  SharedInput(const GraphPlan& graph_, const AggregateCall<Real>& call_)
      : graph(graph_),
        call(call_),
        nodes(graph_.node_count()),
        batch(call_.keep.batch()),
        width(call_.width),
        removed(removed_sets(call_.keep.removed)) {
    if (call.x != nullptr)
      for (int64_t i = 0; i < nodes * width; ++i) x.push_back(double(Parameter<Real>(call.x[i])));
    if (call.values != nullptr) values.assign(call.values, call.values + graph.edge_count());
    for (uint32_t t = 0; t < graph.type_count(); ++t)
      self.push_back(call.eps ? 1.0 + call.eps[t] : 0.0);
    if (call.sum_types)
      groups.emplace_back(0, graph.type_count());
    else
      for (uint32_t t = 0; t < graph.type_count(); ++t) groups.emplace_back(t, t + 1);
  }

  const double* values_of(uint32_t t) const {
    return values.empty() ? nullptr : values.data() + graph.first_edge(t);
  }
  const double* x_of(int64_t node) const { return x.data() + node * width; }
  int64_t degree(uint32_t t, int64_t node) const {
    const uint32_t* ptr = graph.by_target(t).ptr;
    return int64_t(ptr[node + 1]) - int64_t(ptr[node]);
  }
  // What a sum of `terms` terms is multiplied with.
  double scale(int64_t terms) const {
    return call.reduce == Reduce::mean ? degree_scale(Reduce::mean, double(terms)) : 1.0;
  }
};

// to += factor * from
inline void add_scaled(double factor, const double* from, int64_t count, double* to) {
  for (int64_t h = 0; h < count; ++h) to[h] += factor * from[h];
}
inline bool all_finite(const double* row, int64_t count) {
  return std::all_of(row, row + count, [](double number) { return std::isfinite(number); });
}

template <class Real>
void aggregate_shared(const GraphPlan& graph, const AggregateCall<Real>& call, Real* out);
template <class Real>
void aggregate_shared_backward(const GraphPlan& graph, const AggregateCall<Real>& call,
                               const AggregateGradients<Real>& gradients);

}  // namespace lacuna
