// aggregate() where x is the same for all samples (the first layer of a model): x [N, H] instead of
// [N, B, H].
//
// One product serves the whole batch; a sample differs from it only at its removed nodes and their
// out-neighbours, and is corrected there. Results are those of aggregate() on x repeated B times,
// to rounding: the product and the corrections are taken in double, so that a large number that a
// sample removes does not swallow the rest. A row whose correction is not finite is summed anew
// without the removed nodes, so NaN and infinity reach exactly the rows that sum them here too.
//
//   x [N, H]    out [T, N, B, H] or [N, B, H] with sum_types    values, eps, removed as in
//   aggregate.h
//
// Reduce::sum (with or without values) and mean. In gcn a removal changes the weights two steps
// away, and a maximum cannot be corrected: for those repeat x and use aggregate().
#pragma once

#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

template <class Real>
void aggregate_shared(const GraphPlan& graph, const AggregateOptions& options, int64_t width,
                      const Real* x, const RemovedView& removed, const Parameter<Real>* values,
                      const Parameter<Real>* eps, Real* out);

//   grad_out [T, N, B, H] or [N, B, H]    grad_x [N, H], summed over the samples    grad_eps [T]
//   grad_values [E]
template <class Real>
void aggregate_shared_backward(const GraphPlan& graph, const AggregateOptions& options,
                               int64_t width, const Real* grad_out, const Real* x,
                               const RemovedView& removed, const Parameter<Real>* values,
                               const Parameter<Real>* eps, Real* grad_x, Parameter<Real>* grad_eps,
                               Parameter<Real>* grad_values);

}  // namespace lacuna
