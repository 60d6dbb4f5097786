// The gradients of aggregate() that are no pass over the transposed graph. Each takes the backward
// pass that aggregate_backward() made: its types' sources are the gradients of the output.
#pragma once

#include "lacuna/graph/graph_plan.h"
#include "lacuna/ops/aggregate/column_pass.h"

namespace lacuna {

// grad_x of Reduce::max: a row's gradient goes to the neighbour that was the maximum. load_scale is
// 0 where a row has none.
template <class Real>
void run_max_backward(const GraphPlan& graph, const Real* x, const ColumnPass<Real>& pass);

// grad_eps[t] = grad_out[t] . x
template <class Real>
void eps_gradient(const ColumnPass<Real>& pass, const Real* x, Parameter<Real>* grad_eps);

// grad_values[e] = grad_out[t, v] . x[u] over the samples that keep edge e = (u -> v) of type t
template <class Real>
void values_gradient(const GraphPlan& graph, const ColumnPass<Real>& pass, const Real* x,
                     Parameter<Real>* grad_values);

}  // namespace lacuna
