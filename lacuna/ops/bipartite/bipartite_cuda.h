// bipartite() (bipartite.h) on a GPU: device pointers, same meaning. Metabolism is small: the
// kernels are plain.
#pragma once

#include "lacuna/ops/bipartite/bipartite.h"
#include "lacuna/ops/cuda/cuda_graph.h"

namespace lacuna {

struct CudaBipartite {
  const BipartiteGraph* graph = nullptr;  // on the host
  const std::byte* device = nullptr;      // the bytes of graph->plan
  const float* coefficients = nullptr;    // [edges of type 1]
};

uint64_t bipartite_cuda_workspace(const BipartiteGraph& graph, int64_t batch);

template <class Real>
void bipartite_cuda(const CudaBipartite& graph, BipartiteStep step, int64_t width, const Real* x,
                    const CudaRemoved& removed, Real* out, void* workspace, int32_t* error,
                    CudaStream stream);

template <class Real>
void bipartite_backward_cuda(const CudaBipartite& graph, BipartiteStep step, int64_t width,
                             const Real* grad_out, const CudaRemoved& removed, Real* grad_x,
                             void* workspace, int32_t* error, CudaStream stream);

}  // namespace lacuna
