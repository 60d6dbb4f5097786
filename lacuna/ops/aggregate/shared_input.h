// What both directions of aggregate_shared() start from.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "lacuna/ops/aggregate/aggregate.h"
#include "lacuna/ops/aggregate/kept_degree.h"
#include "lacuna/ops/aggregate/removed_sets.h"

namespace lacuna {

// The arguments of a call, in double where sums are taken.
template <class Real>
struct SharedInput {
  const GraphPlan& graph;
  const AggregateOptions& options;
  int64_t nodes, batch, width;
  RemovedSets removed;
  std::vector<double> x;       // [N, H]
  std::vector<double> values;  // [E] or empty
  std::vector<double> self;    // [T], 1 + eps; 0 without
  // Types whose results are added up in one output: each by itself, or all of them.
  std::vector<std::pair<uint32_t, uint32_t>> groups;  // [first, end)

  SharedInput(const GraphPlan& graph_, const AggregateOptions& options_, int64_t width_,
              const Real* x_, const RemovedView& removed_, const Parameter<Real>* values_,
              const Parameter<Real>* eps)
      : graph(graph_),
        options(options_),
        nodes(graph_.node_count()),
        batch(removed_.batch()),
        width(width_),
        removed(removed_sets(removed_)) {
    if (x_ != nullptr)
      for (int64_t i = 0; i < nodes * width; ++i) x.push_back(double(Parameter<Real>(x_[i])));
    if (values_ != nullptr) values.assign(values_, values_ + graph.edge_count());
    for (uint32_t t = 0; t < graph.type_count(); ++t) self.push_back(eps ? 1.0 + eps[t] : 0.0);
    if (options.sum_types)
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
    return options.reduce == Reduce::mean ? degree_scale(Reduce::mean, double(terms)) : 1.0;
  }
};

// to += factor * from
inline void add_scaled(double factor, const double* from, int64_t count, double* to) {
  for (int64_t h = 0; h < count; ++h) to[h] += factor * from[h];
}
inline bool all_finite(const double* row, int64_t count) {
  return std::all_of(row, row + count, [](double number) { return std::isfinite(number); });
}

// Throws Error, naming the argument.
void check_shared(const GraphPlan& graph, const AggregateOptions& options, int64_t width,
                  bool has_values, const RemovedView& removed);

}  // namespace lacuna
