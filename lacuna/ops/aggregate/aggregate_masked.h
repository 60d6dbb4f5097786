// aggregate(), told by masks instead of indices which edges each sample keeps: what the rungs that
// make masks run.
//
//   out[t, v, b, :] = reduce over edges e = (u -> v) of type t with mask[b, t, e] != 0 of  value *
//   x[u, b, :]
//                     + (1 + eps[t]) * x[v, b, :]
//
// It reads the edge masks of the types (u8 records, see masks.h) and no node mask: an edge is off
// when either end is removed, so a removed node sums nothing and is summed by nobody. With
// Reduce::mean and gcn the degrees are counted from the masks too. Reduce::max is not offered.
//
// Arguments, results and the order of summation are those of aggregate(): from masks of the same
// removed nodes, out, grad_x and grad_eps have the same bits (for f32, bf16 and f64). grad_values
// adds up sample by sample and may differ from aggregate()'s in the last bits.
#pragma once

#include <cstdint>
#include <span>

#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

// The mask records of a batch.
struct MaskView {
  std::span<const uint8_t> records;  // [B, stride]
  uint64_t stride = 0;               // bytes, MaskLayout::stride()
  std::span<const uint64_t>
      edge_offsets;  // [T] where each type's mask starts in a record, MaskLayout::offsets()

  int64_t batch() const { return stride == 0 ? 0 : int64_t(records.size() / stride); }
};
// Throws Error when there is not one offset a type, a mask passes the end of a record, or records
// is not a whole number of them.
void check_masks(const MaskView& masks, const GraphPlan& graph);

template <class Real>
void aggregate_masked(const GraphPlan& graph, const AggregateOptions& options, int64_t width,
                      const Real* x, const MaskView& masks, const Parameter<Real>* values,
                      const Parameter<Real>* eps, Real* out);

template <class Real>
void aggregate_masked_backward(const GraphPlan& graph, const AggregateOptions& options,
                               int64_t width, const Real* grad_out, const Real* x,
                               const MaskView& masks, const Parameter<Real>* values,
                               const Parameter<Real>* eps, Real* grad_x, Parameter<Real>* grad_eps,
                               Parameter<Real>* grad_values);

}  // namespace lacuna
