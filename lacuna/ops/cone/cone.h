// Layers on what differs: a sample's rows equal the wild type's, to the bit, but for the genes that
// its removed genes reach.
//
// All samples start from one x [N, H]. For edge type t and sample b the sums of a layer,
//   u[t, n, b] = sum over kept in-neighbours + (1 + eps[t]) x[n, b],
// differ from the wild type's only at kept genes n that a removed gene of b has an edge to, and
// behind the first layer also at genes whose own x differs, and at their targets (ConeMarks). These
// (n, b) are listed for every type, in the order of n and then b:
//
//   place [T, N, B]  0: row n of the wild type; e + 1: listed row e; -1: b removes n
//   row   [T, C]     n * B + b of the listed rows; C: capacity
//   used  [T]        how many rows of a type are in use: N + how many are listed
//
// Whatever is computed row by row (the MLPs) then takes [T, N + C, H]: the wild type's rows, the
// listed ones, and up to the capacity rows that mean nothing (a GPU writes zeros). Who keeps the
// wild type's rows from an earlier call computes the listed ones alone: `wild` of the shape is
// false, rows are [T, C, H], and the wild type's stand in an array of their own, [T, N, H].
//
// cone_sum() adds up the types and puts every sample's row back into its place: [N, B + 1, H], the
// wild type last, zeros where a gene is removed. Nobody reads those: sums and pools take kept
// genes. For merges that are no sum, cone_gather() lays the types' rows side by side: those of the
// wild type, and those where any type differs (`either`, the lists of one more type, of all types
// together); what comes of them goes back by cone_sum() with `either`.
//
// Backwards a row of the wild type takes the gradients of all samples that read it. All sums run in
// a fixed order: the same bits in every run, and forward the same bits as with every row listed.
// On the CPU sums of bf16 and f32 are f32: every listed row is summed anew from its neighbours, and
// none comes of a subtraction, which would need more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/core/dtype.h"
#include "lacuna/graph/graph_plan.h"
#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

struct ConeShape {
  int64_t nodes, types, batch, capacity;  // N, T, B, C
  bool wild = true;                       // the wild type's rows stand in front of the listed ones

  int64_t first() const { return wild ? nodes : 0; }   // of the listed rows of a type
  int64_t rows() const { return first() + capacity; }  // of a type
};

struct ConeLists {
  int32_t* place = nullptr;
  int32_t* row = nullptr;
  int32_t* used = nullptr;
};

// The most rows that a type can list in the first layer for `batch` samples that remove at most
// `widest` genes each: the sum of the largest out-degrees, and no more than N a sample.
int64_t cone_capacity(const GraphPlan& plan, int64_t batch, int64_t widest);

// ---- on the CPU
// Which rows of a layer differ: a bit a sample, in words of 64.
struct ConeMarks {
  int64_t nodes = 0, types = 0, batch = 0;
  std::vector<uint64_t> removed;  // [N, words]
  std::vector<uint64_t> differs;  // [T, N, words]; never of a removed gene

  int64_t words() const { return (batch + 63) / 64; }
  std::vector<int64_t> counts() const;  // [T] rows that differ
  // Where any type differs, as marks of one type.
  ConeMarks either() const;
};
// Of the first layer. Throws Error for a removed index that is not a node.
ConeMarks mark_cone(const GraphPlan& plan, const RemovedView& removed, int threads);
// Of the layer behind one.
ConeMarks mark_next(const GraphPlan& plan, const ConeMarks& before, int threads);
// Throws Error for more rows than the capacity.
void cone_lists(const ConeMarks& marks, const ConeShape& shape, const ConeLists& lists,
                int threads);

// The sums of a layer. u, grad_u [T, rows, H].
template <class Real>
struct ConeCall {
  ConeShape shape;
  ConeLists lists;
  RemovedView removed;
  // Records of the samples and of the wild type behind them, which then say what edges are on;
  // none: the removed genes do. Not with `shared`.
  MaskView masks = {};
  bool shared = true;  // x is [N, H], as in the first layer; else [N, B + 1, H], the wild type last
  int64_t width = 0;   // H
  const Real* x = nullptr;
  const Parameter<Real>* values = nullptr;  // [E], all types one after another; null = 1
  const Parameter<Real>* eps = nullptr;     // [T]
  int threads = 0;
};
template <class Real>
void cone_aggregate(const GraphPlan& plan, const ConeCall<Real>& call, Real* u);
// grad_x as x, grad_eps [T]; null where they are not asked for. Only with the wild type's rows.
template <class Real>
void cone_aggregate_backward(const GraphPlan& plan, const ConeCall<Real>& call, const Real* grad_u,
                             Real* grad_x, Parameter<Real>* grad_eps);

// out [N, B + 1, H] = share * the sum over types of y [T, rows, H]. wild_y [T, N, H]: where the
// shape has no rows of the wild type.
template <class Real>
void cone_sum(const ConeShape& shape, const ConeLists& lists, int64_t width, double share,
              const Real* y, const Real* wild_y, Real* out, int threads);
// Only with the wild type's rows, as all gradients. Rows that are not in use are left alone.
template <class Real>
void cone_sum_backward(const ConeShape& shape, const ConeLists& lists, int64_t width, double share,
                       const Real* grad_out, Real* grad_y, int threads);

// y [T, rows, H] -> out [T, N + D, H], or [T, D, H] where the shape has no rows of the wild type;
// D: the capacity of `either`, all of which is in use.
template <class Real>
void cone_gather(const ConeShape& shape, const ConeLists& lists, const ConeLists& either,
                 int64_t either_rows, int64_t width, const Real* y, const Real* wild_y, Real* out,
                 int threads);
template <class Real>
void cone_gather_backward(const ConeShape& shape, const ConeLists& lists, const ConeLists& either,
                          int64_t either_rows, int64_t width, const Real* grad_out, Real* grad_y,
                          int threads);

}  // namespace lacuna
