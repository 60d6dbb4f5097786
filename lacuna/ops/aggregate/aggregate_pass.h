// How aggregate() and aggregate_masked() become passes over the edges: forward walks the edges by
// target, backward by source with the scales of both ends exchanged.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/ops/aggregate/column_pass.h"

namespace lacuna {

// The edge masks of a batch, one run of bytes a sample.
struct EdgeMasks {
  const uint8_t* records = nullptr;  // [B, stride]
  uint64_t stride = 0;
  std::span<const uint64_t> offsets;  // [T] where a type's masks start in a record
};

template <class Real>
struct AggregatePass {
  const GraphPlan& graph;
  const AggregateOptions& options;
  int64_t width, batch;
  const Parameter<Real>* values;            // [E] or null
  const Parameter<Real>* eps;               // [T] or null
  std::vector<std::vector<double>> scales;  // [T][N, B], empty for sum (see degree_scales())
  const RemovedSets* removed;               // null: masks instead
  EdgeMasks masks;

  int64_t elements() const { return int64_t(graph.node_count()) * batch * width; }
};

// Throw Error, naming the argument.
void check_given(const void* pointer, const char* argument, int64_t elements);
void check_options(const AggregateOptions& options, int64_t width, bool has_values);
template <class Real>
void check_forward(const AggregatePass<Real>& in, const Real* x, const Real* out);
template <class Real>  // x: null where it is not read
void check_backward(const AggregatePass<Real>& in, const Real* grad_out, const Real* grad_x,
                    const Real* const* x);

template <class Real>
ColumnPass<Real> forward_pass(const AggregatePass<Real>& in, const Real* x, Real* out);
template <class Real>
ColumnPass<Real> backward_pass(const AggregatePass<Real>& in, const Real* grad_out, Real* grad_x);

}  // namespace lacuna
