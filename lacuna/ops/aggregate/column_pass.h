// One pass over the edges of one or several types, a block of columns at a time: what aggregate(),
// its transpose, the masked and the bipartite forms have in common.
//
//   out[t, r, b, :] = store_scale[t, r, b] * reduce over places k of row r of csr[t] of
//                       value[k] * load_scale[t, n, b] * source[t, n, b, :]      with n =
//                       neighbour[k]
//                     + self[t] * source[t, r, b, :]
//
// Removed sources count as absent; a removed row gets its self term alone. With `sum_types` the
// results of all types are added up, one type after another.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lacuna/ops/aggregate/column_kernels.h"
#include "lacuna/ops/aggregate/kept.h"

namespace lacuna {

template <class Real>
struct TypePass {
  using Acc = Parameter<Real>;
  const Real* source;           // [sources, B, H]
  CsrView csr;                  // [rows]
  const Acc* values = nullptr;  // [E] or null = 1
  const uint8_t* masks =
      nullptr;  // the type's part of the first mask record, or null = all edges are on
  const double* load_scale = nullptr;   // [sources, B] or null = 1; 0 = absent
  const double* store_scale = nullptr;  // [rows, B] or null = 1; 0 = write 0
  std::optional<Acc> self = {};         // needs rows == sources
};

template <class Real>
struct ColumnPass {
  int64_t sources, rows, batch, width;
  uint32_t index_bytes;
  const RemovedSets* removed_sources = nullptr;  // null = none
  const RemovedSets* removed_rows = nullptr;
  uint64_t mask_stride = 0;  // bytes from a sample's mask record to the next
  bool maximum = false;
  bool sum_types = false;
  Real* out = nullptr;  // [T, rows, B, H], or [rows, B, H] with sum_types
  int threads = 0;
  std::vector<TypePass<Real>> types = {};
};
// Every element of `out` is written; where it is large, huge pages are asked for behind it.
template <class Real>
void run(const ColumnPass<Real>& pass);

// The gradients of aggregate() that are no pass over the transposed graph. Each takes the backward
// pass, whose types' sources are the gradients of the output.
//
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

// The column blocks of [rows, B * H]. `by_sample`: none reaches over two samples. A block's width
// depends on the cache and on the number of rows, never on the threads.
std::vector<Columns> column_blocks(int64_t rows, int64_t batch, int64_t width, int64_t item_bytes,
                                   bool by_sample);

// Writes `fill` to the block rows of the removed nodes.
template <class Acc>
void fill_removed(const Columns& columns, const RemovedSets& removed, Acc fill, Acc* block);

}  // namespace lacuna
