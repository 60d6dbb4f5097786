// The gather way of aggregate_cuda: some lanes of a warp a row, neighbours read through the L2
// cache, a tile of columns after another where the source is larger than that. Works for every
// graph, dtype and reduction; internal to this folder. Pointers are device memory, arguments are
// checked already.
//
// Forward and backward are one sum, over the CSR by target or by source:
//   out[v] = sum over types t of  keep[v] * row_scale_t[v] * (sum over neighbours u of w *
//   scale_t[u] * keep[u] * source_t[u])
//                                 + (1 + eps_t) * source_t[v]
// with one type an output row in the plain forward pass, and all of them with sum_types and in the
// backward pass.
#pragma once

#include "lacuna/ops/aggregate/aggregate_cuda.h"
#include "lacuna/ops/cuda/cuda_device.cuh"

namespace lacuna::cuda {

// Which nodes are removed from which samples: bit b & 31 of word [v, b >> 5].
struct RemovedBits {
  const uint32_t* word;  // [N, words]
  int words;             // a node
  const uint32_t* any;   // [N / 32] bit v & 31 of word v >> 5: some sample removes node v
};

// Edge masks of a batch: byte of edge e of type t in sample b at base[b * stride + offset[t] + e].
struct EdgeMasks {
  const uint8_t* base = nullptr;
  int64_t stride = 0;
  int64_t offset[kMaxTypes] = {};
};

template <class Real>
struct GatherArgs {
  CsrTable csr;
  bool wide_index;
  uint32_t nodes;
  int types;
  int64_t edges;          // of all types
  bool all_types;         // an output row sums all types
  int64_t columns;        // B * H
  int width;              // H
  const Real* source;     // [N, B, H], or one for each type
  int64_t source_stride;  // elements from one type's source to the next; 0: the same
  RemovedBits removed;
  EdgeMasks masks;                   // base not null: read instead of `removed`
  const Parameter<Real>* values;     // [E] or null
  const Parameter<Real>* eps;        // [T] or null
  const Sum<Real>* neighbour_scale;  // [T, N, B] or null
  const Sum<Real>* row_scale;        // [T, N, B] or null
  Real* out;
};

CsrTable csr_table(const CudaGraph& graph, bool by_source);
inline CudaRemoved cuda_removed(const RemovedView& removed) {
  return {removed.index.data(), removed.ptr.data(), int64_t(removed.index.size()), removed.batch()};
}

uint64_t removed_bits_bytes(uint32_t nodes, int64_t batch);
// Fills the bits of a batch and reports what is wrong with its indices.
RemovedBits make_removed_bits(const CudaRemoved& removed, uint32_t nodes, void* memory,
                              int32_t* error, cudaStream_t stream);

// [T, N, B]: 1 / d for mean, 1 / sqrt(d) for gcn, with d the kept in-degree; 0 where d is 0.
template <class Real>
void make_degree_scale(const CudaGraph& graph, Reduce reduce, RemovedBits removed, int64_t batch,
                       Sum<Real>* scale, cudaStream_t stream);

// The same, counted from args.masks.
template <class Real>
void make_masked_degree_scale(const GatherArgs<Real>& args, const CsrTable& by_target,
                              Reduce reduce, int64_t batch, Sum<Real>* scale, cudaStream_t stream);

template <class Real>
void gather(const GatherArgs<Real>& args, cudaStream_t stream);

// Reduce::max, forward; csr by target. arg [T, N, B, H]: position in the type's edge list of the
// first edge that attains the maximum, ~0 where there is none; out and arg may be null.
template <class Real>
void gather_max(const GatherArgs<Real>& args, Real* out, uint32_t* arg, cudaStream_t stream);
// Its gradient; csr by source, source is grad_out.
template <class Real>
void gather_max_backward(const GatherArgs<Real>& args, const uint32_t* arg, cudaStream_t stream);

// grad_eps[t] = sum of grad_out_t * x. partial: [T, kDotBlocks] f64. stride 0: one grad_out for all
// types.
inline constexpr int kDotBlocks = 264;
template <class Real>
void dot_types(const Real* grad_out, int64_t stride, const Real* x, int64_t elements, int types,
               double* partial, Parameter<Real>* grad_eps, cudaStream_t stream);

// grad_values[e] = sum over samples that keep both ends of grad_out_t[v, b] . x[u, b]; csr by
// target.
template <class Real>
void dot_edges(const GatherArgs<Real>& args, const Real* x, const uint64_t* edge_counts,
               Parameter<Real>* grad_values, cudaStream_t stream);

// A call with a shared x, which has other kernels (aggregate_shared.cu).
template <class Real>
uint64_t shared_workspace(const CudaGraph& graph, const AggregateCall<Real>& call);
template <class Real>
void aggregate_shared(const CudaGraph& graph, const AggregateCall<Real>& call, Real* out,
                      const CudaLaunch& launch);
template <class Real>
void aggregate_shared_backward(const CudaGraph& graph, const AggregateCall<Real>& call,
                               const AggregateGradients<Real>& gradients, const CudaLaunch& launch);

}  // namespace lacuna::cuda
