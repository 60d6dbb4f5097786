// aggregate_shared() (aggregate_shared.h) on a GPU: device pointers, same meaning.
//
// The product for the wild type is taken once, in f64. A row of a sample that removes some of its
// in-neighbours has their terms taken off again; where that is not finite, the row is summed anew.
// Every result is a sum in fixed order: the same bits in every run.
#pragma once

#include "lacuna/ops/aggregate/aggregate_cuda.h"

namespace lacuna {

template <class Real>
uint64_t aggregate_shared_cuda_workspace(const CudaGraph& graph,
                                         const CudaAggregateOptions& options, int64_t batch,
                                         int64_t width);

//   x [N, H]    out [T, N, B, H] or [N, B, H]
template <class Real>
void aggregate_shared_cuda(const CudaGraph& graph, const CudaAggregateOptions& options,
                           int64_t width, const Real* x, const CudaRemoved& removed,
                           const Parameter<Real>* values, const Parameter<Real>* eps, Real* out,
                           void* workspace, int32_t* error, CudaStream stream);

//   grad_x [N, H]
template <class Real>
void aggregate_shared_backward_cuda(const CudaGraph& graph, const CudaAggregateOptions& options,
                                    int64_t width, const Real* grad_out, const Real* x,
                                    const CudaRemoved& removed, const Parameter<Real>* values,
                                    const Parameter<Real>* eps, Real* grad_x,
                                    Parameter<Real>* grad_eps, Parameter<Real>* grad_values,
                                    void* workspace, int32_t* error, CudaStream stream);

}  // namespace lacuna
