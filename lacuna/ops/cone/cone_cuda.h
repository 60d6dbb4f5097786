// cone.h on a GPU: the same with device pointers. Nothing waits; a list that would pass the
// capacity sets kConeTooLong of the error word and is cut.
#pragma once

#include "lacuna/ops/cone/cone.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

uint64_t cone_cuda_workspace(const ConeShape& shape, int64_t width);

void cone_lists_cuda(const CudaGraph& graph, const CudaRemoved& removed, const ConeShape& shape,
                     const ConeLists& lists, const CudaLaunch& launch);
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
template <class Real>
void cone_sum_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width, double share,
                   const Real* y, Real* out, const CudaLaunch& launch);
template <class Real>
void cone_sum_backward_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width,
                            double share, const Real* grad_out, Real* grad_y,
                            const CudaLaunch& launch);

}  // namespace lacuna
