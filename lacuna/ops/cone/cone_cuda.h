// cone.h on a GPU: the same with device pointers, and always with rows of the wild type. Nothing
// waits; a list that would pass the capacity sets kConeTooLong of the error word and is cut.
//
// Rows behind those in use are left alone: who computes on them too clears them first.
#pragma once

#include <span>

#include "lacuna/ops/cone/cone.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

// A layer's lists, to be written. either.used null: lists of all types together are not wanted.
struct ConeLayer {
  ConeShape shape;
  ConeLists lists;
  ConeLists either = {};
  int64_t either_capacity = 0;
};
// Of the first layers, in order; shapes differ in their capacities alone.
uint64_t cone_lists_workspace(const ConeShape& shape);
void cone_lists_cuda(const CudaGraph& graph, const CudaRemoved& removed,
                     std::span<const ConeLayer> layers, const CudaLaunch& launch);

// Zeros behind the rows in use. rows [T, count, H]; used [T], or one number for all types.
template <class Real>
void cone_clear_cuda(int64_t types, int64_t count, int64_t width, const int32_t* used,
                     bool one_for_all, Real* rows, const CudaLaunch& launch);

// ---- the sums of the first layer
uint64_t cone_aggregate_workspace(const ConeShape& shape, int64_t width);  // of both directions
template <class Real>
void cone_aggregate_cuda(const CudaGraph& graph, const ConeShape& shape, const ConeLists& lists,
                         int64_t width, const Real* x, const Parameter<Real>* eps, Real* u,
                         const CudaLaunch& launch);
// grad_x, grad_eps: null where they are not asked for
template <class Real>
void cone_aggregate_backward_cuda(const CudaGraph& graph, const ConeShape& shape,
                                  const ConeLists& lists, int64_t width, const Real* x,
                                  const Parameter<Real>* eps, const Real* grad_u, Real* grad_x,
                                  Parameter<Real>* grad_eps, const CudaLaunch& launch);

// ---- those of a later layer, out of the sums of all rows: all [T, N, B + 1, H], the wild type
// last -> rows [T, N + C, H]
template <class Real>
void cone_take_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width, const Real* all,
                    Real* rows, const CudaLaunch& launch);
template <class Real>
void cone_take_backward_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width,
                             const Real* grad_rows, Real* grad_all, const CudaLaunch& launch);

// ---- merges
template <class Real>
void cone_sum_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width, double share,
                   const Real* y, Real* out, const CudaLaunch& launch);
template <class Real>
void cone_sum_backward_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width,
                            double share, const Real* grad_out, Real* grad_y,
                            const CudaLaunch& launch);
// either_rows: the capacity of `either`
template <class Real>
void cone_gather_cuda(const ConeShape& shape, const ConeLists& lists, const ConeLists& either,
                      int64_t either_rows, int64_t width, const Real* y, Real* out,
                      const CudaLaunch& launch);
template <class Real>
void cone_gather_backward_cuda(const ConeShape& shape, const ConeLists& lists,
                               const ConeLists& either, int64_t either_rows, int64_t width,
                               const Real* grad_out, Real* grad_y, const CudaLaunch& launch);

}  // namespace lacuna
