// aggregate (aggregate.h) and its gradients on a GPU: the same call with device pointers, the same
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
// From masks it is always gather, with the same bits as without a slab plan from the same removed
// nodes (but for grad_values).
//
// A shared x has kernels of its own (aggregate_shared.cu): the product for the wild type is taken
// once, in f64; a row of a sample that removes some of its in-neighbours has their terms taken off
// again.
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

enum class CudaPath : uint8_t { slab_tensor, slab_rows, gather };
enum class CudaPass : uint8_t { forward, backward };
// Which way a call takes on the current device, for arrays aligned to 16 bytes. Not for a shared x.
template <class Real>
CudaPath aggregate_cuda_path(const CudaGraph& graph, const AggregateCall<Real>& call,
                             CudaPass pass);

// Bytes of scratch memory that both passes need at most.
template <class Real>
uint64_t aggregate_cuda_workspace(const CudaGraph& graph, const AggregateCall<Real>& call);

// Both check all but the numbers in the arrays, and throw Error.
template <class Real>
void aggregate_cuda(const CudaGraph& graph, const AggregateCall<Real>& call, Real* out,
                    const CudaLaunch& launch);
template <class Real>
void aggregate_backward_cuda(const CudaGraph& graph, const AggregateCall<Real>& call,
                             const AggregateGradients<Real>& gradients, const CudaLaunch& launch);

}  // namespace lacuna
