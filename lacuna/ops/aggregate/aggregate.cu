#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "lacuna/ops/aggregate/aggregate_cuda.h"
#include "lacuna/ops/aggregate/aggregate_gather.cuh"
#include "lacuna/ops/slab/slab_aggregate.cuh"

namespace lacuna {
namespace {

using namespace cuda;

// Scratch memory, dealt out in order.
class Scratch {
 public:
  explicit Scratch(void* base) : base_(static_cast<std::byte*>(base)) {}
  template <class T>
  T* take(uint64_t count) {
    T* p = reinterpret_cast<T*>(base_ + used_);
    used_ += aligned(count * sizeof(T));
    return p;
  }
  void* rest() const { return base_ + used_; }
  uint64_t used() const { return used_; }

 private:
  std::byte* base_;
  uint64_t used_ = 0;
};

void check_graph(const CudaGraph& graph) {
  if (graph.plan == nullptr || graph.device == nullptr) {
    throw_error("aggregate_cuda: graph has no plan on the device");
  }
  if (graph.plan->type_count() > kMaxTypes) {
    throw_error("aggregate_cuda: graph has " + std::to_string(graph.plan->type_count()) +
                " edge types, at most " + std::to_string(kMaxTypes) + " are supported");
  }
  if (graph.slabs != nullptr) graph.slabs->check_graph(*graph.plan);
}

template <class Real>
GatherArgs<Real> gather_args(const CudaGraph& graph, const AggregateCall<Real>& call, CudaPass pass,
                             const Real* source, Real* out) {
  const bool backward = pass == CudaPass::backward;
  GatherArgs<Real> a = {};
  a.csr = csr_table(graph, backward);
  a.wide_index = graph.plan->index_bytes() == 4;
  a.nodes = graph.plan->node_count();
  a.types = int(graph.plan->type_count());
  a.edges = int64_t(graph.plan->edge_count());
  a.all_types = call.sum_types || backward;
  a.columns = call.keep.batch() * call.width;
  a.width = int(call.width);
  a.source = source;
  a.source_stride = backward && !call.sum_types ? int64_t(a.nodes) * a.columns : 0;
  if (call.keep.masked) {
    a.masks.base = call.keep.masks.records.data();
    a.masks.stride = int64_t(call.keep.masks.stride);
    for (int t = 0; t < a.types; ++t) a.masks.offset[t] = int64_t(call.keep.masks.edge_offsets[t]);
  }
  a.values = call.values;
  a.eps = call.eps;
  a.out = out;
  return a;
}

// [T, N, B]; for mean and gcn. a.removed is filled, where there are no masks.
template <class Real>
const Sum<Real>* degree_scale(const CudaGraph& graph, const AggregateCall<Real>& call,
                              const GatherArgs<Real>& a, Scratch& scratch, cudaStream_t stream) {
  const int64_t batch = call.keep.batch();
  auto* scale = scratch.take<Sum<Real>>(uint64_t(a.types) * a.nodes * batch);
  if (call.keep.masked) {
    make_masked_degree_scale<Real>(a, csr_table(graph, false), call.reduce, batch, scale, stream);
  } else {
    make_degree_scale<Real>(graph, call.reduce, a.removed, batch, scale, stream);
  }
  return scale;
}

template <class Real>
void sum(const CudaGraph& graph, const AggregateCall<Real>& call, CudaPass pass, CudaPath path,
         const GatherArgs<Real>& a, void* scratch, const CudaLaunch& launch) {
  if constexpr (!std::is_same_v<Real, double>) {
    if (path != CudaPath::gather) {
      return aggregate_slabs<Real>(graph, pass, path, a, cuda_removed(call.keep.removed),
                                   {launch.stream, scratch, launch.error});
    }
  }
  gather<Real>(a, static_cast<cudaStream_t>(launch.stream));
}

}  // namespace

template <class Real>
CudaPath aggregate_cuda_path(const CudaGraph& graph, const AggregateCall<Real>& call,
                             CudaPass pass) {
  if constexpr (std::is_same_v<Real, double>) {
    return CudaPath::gather;
  } else {
    const bool forward = pass == CudaPass::forward;
    if (graph.slabs == nullptr || call.keep.masked || call.sum_types ||
        graph.plan->type_count() == 0 ||
        !(call.reduce == Reduce::sum || (forward && call.reduce == Reduce::mean))) {
      return CudaPath::gather;
    }
    const SlabPlan& plan = *graph.slabs;
    const auto& slabs = forward ? plan.forward() : plan.backward();
    if (!slabs_fit<Real>(plan, slabs, call.keep.batch() * call.width, call.width)) {
      return CudaPath::gather;
    }
    return std::is_same_v<Real, BFloat16> && call.values == nullptr ? CudaPath::slab_tensor
                                                                    : CudaPath::slab_rows;
  }
}

template <class Real>
uint64_t aggregate_cuda_workspace(const CudaGraph& graph, const AggregateCall<Real>& call) {
  if (call.shared) return shared_workspace(graph, call);
  const uint64_t nodes = graph.plan->node_count(), types = graph.plan->type_count();
  const uint64_t batch = uint64_t(call.keep.batch());
  Scratch scratch(nullptr);
  if (!call.keep.masked) {
    scratch.take<std::byte>(removed_bits_bytes(uint32_t(nodes), int64_t(batch)));
  }
  scratch.take<double>(types * kDotBlocks);
  if (call.reduce == Reduce::mean || call.reduce == Reduce::gcn) {
    scratch.take<Sum<Real>>(types * nodes * batch);
  }
  if (call.reduce == Reduce::max) {
    scratch.take<uint32_t>(types * nodes * batch * uint64_t(call.width));
  }
  if (!std::is_same_v<Real, double> && graph.slabs != nullptr && !call.keep.masked) {
    const SlabPlan& plan = *graph.slabs;
    const int columns = 2 * kWide<Real>;
    const bool values = call.reduce == Reduce::sum;
    scratch.take<std::byte>(std::max(slab_scratch_bytes(plan, plan.forward(), columns, values),
                                     slab_scratch_bytes(plan, plan.backward(), columns, values)));
  }
  return scratch.used();
}

template <class Real>
void aggregate_cuda(const CudaGraph& graph, const AggregateCall<Real>& call, Real* out,
                    const CudaLaunch& launch) {
  check_graph(graph);
  check(call, *graph.plan, out);
  if (call.shared) return aggregate_shared(graph, call, out, launch);
  const auto stream = static_cast<cudaStream_t>(launch.stream);
  auto a = gather_args<Real>(graph, call, CudaPass::forward, call.x, out);
  if (a.nodes == 0 || a.columns == 0) return;
  if (call.sum_types && a.types == 0) {
    check(cudaMemsetAsync(out, 0, sizeof(Real) * a.nodes * a.columns, stream), "clear out");
    return;
  }
  CudaPath path = aggregate_cuda_path(graph, call, CudaPass::forward);
  if (!is_aligned(call.x) || !is_aligned(out)) path = CudaPath::gather;
  Scratch scratch(launch.workspace);
  if (!call.keep.masked) {
    auto* bits = scratch.take<std::byte>(removed_bits_bytes(a.nodes, call.keep.batch()));
    if (path == CudaPath::gather || call.reduce != Reduce::sum) {
      a.removed =
          make_removed_bits(cuda_removed(call.keep.removed), a.nodes, bits, launch.error, stream);
    }
  }
  if (call.reduce == Reduce::max) return gather_max<Real>(a, out, nullptr, stream);
  if (call.reduce != Reduce::sum) {
    a.row_scale = degree_scale(graph, call, a, scratch, stream);
    if (call.reduce == Reduce::gcn) a.neighbour_scale = a.row_scale;
  }
  sum(graph, call, CudaPass::forward, path, a, scratch.rest(), launch);
}

template <class Real>
void aggregate_backward_cuda(const CudaGraph& graph, const AggregateCall<Real>& call,
                             const AggregateGradients<Real>& gradients, const CudaLaunch& launch) {
  check_graph(graph);
  check(call, *graph.plan, gradients);
  if (call.shared) return aggregate_shared_backward(graph, call, gradients, launch);
  const auto stream = static_cast<cudaStream_t>(launch.stream);
  auto a = gather_args<Real>(graph, call, CudaPass::backward, gradients.out, gradients.x);
  if (a.nodes == 0 || a.columns == 0) return;
  if (a.types == 0) {
    check(cudaMemsetAsync(gradients.x, 0, sizeof(Real) * a.nodes * a.columns, stream),
          "clear grad_x");
    return;
  }
  CudaPath path = aggregate_cuda_path(graph, call, CudaPass::backward);
  if (!is_aligned(gradients.out) || !is_aligned(gradients.x)) path = CudaPath::gather;
  Scratch scratch(launch.workspace);
  if (!call.keep.masked) {
    auto* bits = scratch.take<std::byte>(removed_bits_bytes(a.nodes, call.keep.batch()));
    if (path == CudaPath::gather || gradients.values != nullptr) {
      a.removed =
          make_removed_bits(cuda_removed(call.keep.removed), a.nodes, bits, launch.error, stream);
    }
  }
  auto* partial = scratch.take<double>(uint64_t(a.types) * kDotBlocks);
  if (gradients.eps != nullptr) {
    dot_types<Real>(gradients.out, a.source_stride, call.x, int64_t(a.nodes) * a.columns, a.types,
                    partial, gradients.eps, stream);
  }
  if (call.reduce == Reduce::max) {
    auto* arg = scratch.take<uint32_t>(uint64_t(a.types) * a.nodes * a.columns);
    auto forward = gather_args<Real>(graph, call, CudaPass::forward, call.x, nullptr);
    forward.eps = nullptr;
    forward.removed = a.removed;
    gather_max<Real>(forward, nullptr, arg, stream);
    return gather_max_backward<Real>(a, arg, stream);
  }
  if (call.reduce != Reduce::sum) {
    a.neighbour_scale = degree_scale(graph, call, a, scratch, stream);
    if (call.reduce == Reduce::gcn) a.row_scale = a.neighbour_scale;
  }
  sum(graph, call, CudaPass::backward, path, a, scratch.rest(), launch);
  if (gradients.values != nullptr) {
    auto by_target = a;
    by_target.csr = csr_table(graph, false);
    std::vector<uint64_t> counts;
    for (int t = 0; t < a.types; ++t) counts.push_back(graph.plan->edge_count(uint32_t(t)));
    dot_edges<Real>(by_target, call.x, counts.data(), gradients.values, stream);
  }
}

#define LACUNA_INSTANTIATE(Real)                                                                 \
  template CudaPath aggregate_cuda_path(const CudaGraph&, const AggregateCall<Real>&, CudaPass); \
  template uint64_t aggregate_cuda_workspace(const CudaGraph&, const AggregateCall<Real>&);      \
  template void aggregate_cuda(const CudaGraph&, const AggregateCall<Real>&, Real*,              \
                               const CudaLaunch&);                                               \
  template void aggregate_backward_cuda(const CudaGraph&, const AggregateCall<Real>&,            \
                                        const AggregateGradients<Real>&, const CudaLaunch&);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
