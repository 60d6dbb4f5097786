// aggregate_masked() (aggregate_masked.h) on a GPU: device pointers, same meaning.
//
// It takes the gather way of aggregate_cuda, in the same order of summation: out, grad_x and
// grad_eps have the same bits as those of aggregate_cuda without a slab plan, from masks of the
// same removed nodes.
#pragma once

#include <span>

#include "lacuna/ops/aggregate/aggregate_cuda.h"

namespace lacuna {

// The mask records of a batch, u8, in device memory.
struct CudaMasks {
  const uint8_t* records = nullptr;  // [batch, stride]
  uint64_t stride = 0;
  std::span<const uint64_t>
      edge_offsets;  // [T] on the host: where each type's mask starts in a record
  int64_t batch = 0;
};

template <class Real>
uint64_t aggregate_masked_cuda_workspace(const CudaGraph& graph,
                                         const CudaAggregateOptions& options, int64_t batch);

template <class Real>
void aggregate_masked_cuda(const CudaGraph& graph, const CudaAggregateOptions& options,
                           int64_t width, const Real* x, const CudaMasks& masks,
                           const Parameter<Real>* values, const Parameter<Real>* eps, Real* out,
                           void* workspace, CudaStream stream);

template <class Real>
void aggregate_masked_backward_cuda(const CudaGraph& graph, const CudaAggregateOptions& options,
                                    int64_t width, const Real* grad_out, const Real* x,
                                    const CudaMasks& masks, const Parameter<Real>* values,
                                    const Parameter<Real>* eps, Real* grad_x,
                                    Parameter<Real>* grad_eps, Parameter<Real>* grad_values,
                                    void* workspace, CudaStream stream);

}  // namespace lacuna
