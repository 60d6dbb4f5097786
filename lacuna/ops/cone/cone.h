// The first layer on what differs: a sample's rows equal the wild type's, to the bit, but for the
// targets of its removed genes.
//
// All samples start from one x [N, H]. For edge type t and sample b the sums
//   u[t, n, b] = sum over kept in-neighbours + (1 + eps[t]) x[n]
// differ from the wild type's only at kept genes n that a removed gene of b has an edge to. These
// (n, b) are listed for every type, in the order of n and then b:
//
//   place [T, N, B]  0: row n of the wild type; e + 1: listed row e; -1: b removes n
//   row   [T, C]     n * B + b of the listed rows; C: capacity
//   used  [T]        N + how many are listed
//
// Whatever is computed row by row (the MLPs) then takes [T, N + C, H]: the wild type's rows, the
// listed ones, and zeros behind them. cone_sum() adds up the types and puts every sample's row back
// into its place: [N, B + 1, H], the wild type last, zeros where a gene is removed. Nobody reads
// those: sums and pools take kept genes.
//
// Backwards a row of the wild type takes the gradients of all samples that read it. All sums run in
// a fixed order: the same bits in every run, and forward the same bits as with every row listed.
// Sums of bf16 are f32, those of f32 and f64 are f64.
#pragma once

#include <cstdint>
#include <span>

#include "lacuna/core/dtype.h"
#include "lacuna/graph/graph_plan.h"
#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

struct ConeShape {
  int64_t nodes, types, batch, capacity;  // N, T, B, C

  int64_t rows() const { return nodes + capacity; }  // of a type
};

struct ConeLists {
  int32_t* place = nullptr;
  int32_t* row = nullptr;
  int32_t* used = nullptr;
};

// The most rows that a type can list for `batch` samples that remove at most `widest` genes each:
// the sum of the largest out-degrees, and no more than N a sample.
int64_t cone_capacity(const GraphPlan& plan, int64_t batch, int64_t widest);
// The same for one batch: the sums of the out-degrees of its removed genes.
int64_t cone_capacity(const GraphPlan& plan, const RemovedView& removed);

// ---- on the CPU. Arguments as above; x [N, H], eps [T], u and grad_u [T, N + C, H].
// Throws Error for a removed index that is not a node, and for more rows than the capacity.
void cone_lists(const GraphPlan& plan, const RemovedView& removed, const ConeShape& shape,
                const ConeLists& lists, int threads);
template <class Real>
void cone_aggregate(const GraphPlan& plan, const ConeShape& shape, const ConeLists& lists,
                    int64_t width, const Real* x, const Parameter<Real>* eps, Real* u, int threads);
template <class Real>
void cone_aggregate_backward(const GraphPlan& plan, const ConeShape& shape, const ConeLists& lists,
                             int64_t width, const Real* x, const Parameter<Real>* eps,
                             const Real* grad_u, Real* grad_x, Parameter<Real>* grad_eps,
                             int threads);
// out [N, B + 1, H] = share * the sum over types of y [T, N + C, H]
template <class Real>
void cone_sum(const ConeShape& shape, const ConeLists& lists, int64_t width, float share,
              const Real* y, Real* out, int threads);
template <class Real>
void cone_sum_backward(const ConeShape& shape, const ConeLists& lists, int64_t width, float share,
                       const Real* grad_out, Real* grad_y, int threads);

}  // namespace lacuna
