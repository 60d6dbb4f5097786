// aggregate (aggregate.h) and its gradients on a GPU: same arguments, device pointers, same
// meaning.
//
// Three ways, chosen by graph, dtype and device (aggregate_cuda_path() tells which). The first two
// keep a slab of x, a few columns of many nodes, in shared memory, where the graph has a SlabPlan
// that fits the device's:
//   slab_tensor   sums of bf16 (and the mean, forward): 16 columns, tensor cores add
//   slab_rows     sums of f32 (and the mean, forward; 8 columns) and sums with edge values (f32,
//                 bf16)
//   gather        everything else, and arrays that are not aligned to 16 bytes: a few lanes a row,
//                 reads of x through the L2 cache
//
// Sums are f32 (f64 for f64) in an order that the graph, its plan and the device fix: the same bits
// in every run. The ways differ in that order, so their results differ in rounding; and in the
// backward pass of the first two ways types are added in an order that depends on the sample's
// place in the batch, so moving a sample may change the last bits of its gradient.
//
// A NaN or infinity in x or in the edge values reaches exactly the rows that sum it, on all ways:
// where a sum of slab_tensor (or one with edge values) is not finite, its rows are summed again
// term by term. slab_tensor keeps less of very small numbers: a term loses what is below 2^-86 in
// absolute size.
#pragma once

#include "lacuna/ops/aggregate/aggregate.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

struct CudaAggregateOptions {
  Reduce reduce = Reduce::sum;
  bool sum_types = false;
};

enum class CudaPath : uint8_t { slab_tensor, slab_rows, gather };
enum class CudaPass : uint8_t { forward, backward };
// Which way a call takes on the current device, for arrays aligned to 16 bytes.
template <class Real>
CudaPath aggregate_cuda_path(const CudaGraph& graph, const CudaAggregateOptions& options,
                             CudaPass pass, int64_t batch, int64_t width, bool has_values);

// Bytes of scratch memory that both passes need at most.
template <class Real>
uint64_t aggregate_cuda_workspace(const CudaGraph& graph, const CudaAggregateOptions& options,
                                  int64_t batch, int64_t width);

//   x [N, B, H]    values [E]    eps [T]    out [T, N, B, H] or [N, B, H]    error [1]
//
// values, eps and error may be null.
template <class Real>
void aggregate_cuda(const CudaGraph& graph, const CudaAggregateOptions& options, int64_t width,
                    const Real* x, const CudaRemoved& removed, const Parameter<Real>* values,
                    const Parameter<Real>* eps, Real* out, void* workspace, int32_t* error,
                    CudaStream stream);

template <class Real>
void aggregate_backward_cuda(const CudaGraph& graph, const CudaAggregateOptions& options,
                             int64_t width, const Real* grad_out, const Real* x,
                             const CudaRemoved& removed, const Parameter<Real>* values,
                             const Parameter<Real>* eps, Real* grad_x, Parameter<Real>* grad_eps,
                             Parameter<Real>* grad_values, void* workspace, int32_t* error,
                             CudaStream stream);

}  // namespace lacuna
