// Sums over one shared graph, for a batch of samples that each remove a few nodes.
//
//   out[t, v, b, :] = keep[b, v] * reduce of value * x[u, b, :]
//                                  over edges (u -> v) of type t with u kept
//
// No mask exists: a removed node's row is read as zero and written as zero. The layout is
// node-major with the samples side by side, so one pass over the edges serves the whole batch.
//
//   x        [N, B, H]      f32 or bf16 (f64: the reference), contiguous; the caller's
//   removed  [ptr[B]]       node indices, any order, repeats allowed; sample b owns those from
//                           ptr[b] to ptr[b + 1] - 1
//   values   [E]            f32, all types one after another in edge order; null = 1 (others only
//                           with Reduce::sum)
//   eps      [T]            f32; null = no self term, else out += (1 + eps[t]) * x[v, b, :], also
//                           for removed v
//   out      [T, N, B, H]   or [N, B, H] with sum_types; the dtype of x; every element is written
//
//   Reduce::sum    the sum
//   Reduce::mean   divided by the number of kept in-neighbours (repeats counted); 0 where there are
//                  none
//   Reduce::gcn    each term divided by sqrt(d(u) * d(v)), d = kept in-degree; a term with
//                  d(u) = 0 counts as 0
//   Reduce::max    the largest kept in-neighbour, channel by channel; 0 where there are none. Its
//                  gradient goes to the first one in edge order that attains it. Not with
//                  sum_types.
//
// A NaN or infinity in x reaches exactly the rows that sum it (a removed row's never does).
//
// Accumulation is f32 (f64 for f64) in edge order, types one after another: the same bits on every
// run and for every number of threads. Public functions throw Error when a shape or an index is
// wrong, and name the argument.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "lacuna/core/dtype.h"
#include "lacuna/graph/graph_plan.h"

namespace lacuna {

enum class Reduce : uint8_t { sum, mean, gcn, max };
std::string_view name(Reduce reduce);
Reduce reduce_from_name(std::string_view name);  // throws Error, listing the four

// Removed nodes of a batch; B = ptr.size() - 1.
struct RemovedView {
  std::span<const int32_t> index;  // [ptr[B]] or longer: spare capacity is never read
  std::span<const int32_t> ptr;    // [B + 1], from 0, not decreasing

  int64_t batch() const { return int64_t(ptr.size()) - 1; }
};
// Throws Error when ptr is missing, does not start at 0, decreases or passes index, or an index is
// not a node.
void check_removed(const RemovedView& removed, uint32_t node_count);

struct AggregateOptions {
  Reduce reduce = Reduce::sum;
  bool sum_types = false;
  int threads = 0;  // 0: all available
};

// Edge values, eps and their gradients: f32, or f64 beside an f64 x (so that the reference is exact
// to the last argument).
template <class Real>
using Parameter = std::conditional_t<std::is_same_v<Real, double>, double, float>;

// Real is float, BFloat16 or double.
template <class Real>
void aggregate(const GraphPlan& graph, const AggregateOptions& options, int64_t width,
               const Real* x, const RemovedView& removed, const Parameter<Real>* values,
               const Parameter<Real>* eps, Real* out);

// The transpose: gradients of aggregate. grad_x is always written; grad_eps and grad_values where
// not null (x is read for them and for Reduce::max, and may be null otherwise).
//   grad_out [T, N, B, H] or [N, B, H]    grad_x [N, B, H]    grad_eps [T] f32    grad_values [E]
//   f32
template <class Real>
void aggregate_backward(const GraphPlan& graph, const AggregateOptions& options, int64_t width,
                        const Real* grad_out, const Real* x, const RemovedView& removed,
                        const Parameter<Real>* values, const Parameter<Real>* eps, Real* grad_x,
                        Parameter<Real>* grad_eps, Parameter<Real>* grad_values);

}  // namespace lacuna
