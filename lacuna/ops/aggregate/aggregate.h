// Sums over one shared graph, for a batch of samples that each remove a few nodes.
//
//   out[t, v, b, :] = reduce over edges (u -> v) of type t that sample b keeps of
//                       value * x[u, b, :]
//                     + (1 + eps[t]) * x[v, b, :]
//
// A call says in one of two ways which edges a sample keeps:
//   removed   the nodes it removes; an edge stays while both its ends do. No mask exists: a removed
//             node's row is read as zero, and its own sum is zero.
//   masks     u8 records with one byte an edge (ops/masks/masks.h), which the rungs that make masks
//             hand over. Node masks are not read. Not with Reduce::max.
// From masks of the same removed nodes, out, grad_x and grad_eps have the same bits; grad_values
// adds up sample by sample and may differ in the last ones.
//
// The layout is node-major with the samples side by side, so one pass over the edges serves the
// whole batch:
//
//   x        [N, B, H]      f32 or bf16 (f64: the reference), contiguous; the caller's
//   values   [E]            f32, all types one after another in edge order; null = 1. Only with
//                           Reduce::sum
//   eps      [T]            f32; null = no self term. The self term is also for removed nodes
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
// run and for every number of threads.
//
// With `shared`, x is [N, H] and the same for all samples (the first layer of a model). One product
// serves the whole batch; a sample differs from it only at its removed nodes and their
// out-neighbours, and is corrected there. Results are those of x repeated B times, to rounding: the
// product and the corrections are taken in double, so that a large number that a sample removes
// does not swallow the rest. A row whose correction is not finite is summed anew without the
// removed nodes, so NaN and infinity reach exactly the rows that sum them here too. For removed
// nodes, sum and mean: in gcn a removal changes the weights two steps away, and a maximum cannot be
// corrected.
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

// The mask records of a batch.
struct MaskView {
  std::span<const uint8_t> records;  // [B, stride]
  uint64_t stride = 0;               // bytes, MaskLayout::stride(); 0: no masks
  std::span<const uint64_t>
      edge_offsets;  // [T] where each type's mask starts in a record, MaskLayout::offsets()

  int64_t batch() const { return stride == 0 ? 0 : int64_t(records.size() / stride); }
};

// Which edges each sample of a batch keeps: one of the two.
struct Keep {
  Keep(const RemovedView& nodes) : removed(nodes) {}
  Keep(const MaskView& records) : masks(records), masked(true) {}

  RemovedView removed;
  MaskView masks;
  bool masked = false;

  int64_t batch() const { return masked ? masks.batch() : removed.batch(); }
};

// Edge values, eps and their gradients: f32, or f64 beside an f64 x (so that the reference is exact
// to the last argument).
template <class Real>
using Parameter = std::conditional_t<std::is_same_v<Real, double>, double, float>;

// Everything a sum over the graph needs. Forward and backward, CPU and GPU take the same one; for a
// GPU its arrays are in device memory (edge_offsets stay on the host). Real is float, BFloat16 or
// double.
template <class Real>
struct AggregateCall {
  Reduce reduce = Reduce::sum;
  bool sum_types = false;
  bool shared = false;  // x is [N, H]
  Keep keep = RemovedView();
  int64_t width = 0;                        // H
  const Real* x = nullptr;                  // [N, B, H]; null in a backward pass that needs none
  const Parameter<Real>* values = nullptr;  // [E], null = 1
  const Parameter<Real>* eps = nullptr;     // [T], null = no self term
  int threads = 0;                          // of the CPU; 0: all available
};

// The gradients of a call. x is always written; eps and values where not null (for them and for
// Reduce::max the call's x is read).
template <class Real>
struct AggregateGradients {
  const Real* out = nullptr;          // [T, N, B, H] or [N, B, H]: what comes in
  Real* x = nullptr;                  // [N, B, H]; [N, H], summed over the samples, with `shared`
  Parameter<Real>* eps = nullptr;     // [T]
  Parameter<Real>* values = nullptr;  // [E]
};

// Throws Error where `elements` of an array are needed and it is null.
void check_given(const void* array, const char* argument, int64_t elements);
// What does not go together, whatever the arrays hold. Throws Error.
void check_reduce(Reduce reduce, bool sum_types, bool shared, bool masked, bool has_values);
// All of a call but the numbers in its arrays. Throws Error that names the argument. These are the
// only places that know what may be wrong; nothing below them checks again.
template <class Real>
void check(const AggregateCall<Real>& call, const GraphPlan& graph, const Real* out);
template <class Real>
void check(const AggregateCall<Real>& call, const GraphPlan& graph,
           const AggregateGradients<Real>& gradients);

// Both check their arguments, removed nodes too, and throw Error.
template <class Real>
void aggregate(const GraphPlan& graph, const AggregateCall<Real>& call, Real* out);
template <class Real>
void aggregate_backward(const GraphPlan& graph, const AggregateCall<Real>& call,
                        const AggregateGradients<Real>& gradients);

}  // namespace lacuna
