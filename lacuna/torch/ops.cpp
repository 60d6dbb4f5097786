// The operators of torch.ops.lacuna. Each file of this folder has one of them with all its sides:
// schema, checks, CPU, GPU, meta, autograd, autocast. Here are the small ones.
//
// Schemas hold plain tensors, numbers and words only, so that torch.compile, a CUDA graph and
// another language can carry them:
//
//   graph    the buffers of a lacuna.Graph; graph[0] is the plan (graph/graph_plan.h) as bytes
//   sizes    {N, T, E_0 .. E_(T-1)}: what the host must know without reading a device; on a GPU
//            one more, see cuda.h
//   removed  int32, ptr[B] of them or more (spare capacity is not read);   ptr  int32 [B + 1]
//   x        f32, bf16 or f64;   values [E] and eps [T] f32, or f64 beside f64
//
// The backward of an operator is an operator of its own; it gives an empty tensor for a gradient
// that was not asked for.
#include <torch/library.h>

#include "lacuna/graph/similar_genes.h"
#include "lacuna/torch/common.h"
#if LACUNA_HAVE_CUDA
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna::torch_ops {
namespace {

// The plan of a graph as bytes: edges[t] is [2, E_t], sources then targets.
Tensor make_plan(int64_t nodes, at::TensorList edges, at::ArrayRef<std::string> names) {
  if (nodes < 1 || nodes >= UINT32_MAX)
    throw Error("num_nodes is {}, but 1 to {} are possible", nodes, UINT32_MAX - 1);
  if (edges.empty()) throw Error("edges is empty; a graph needs at least one edge type");
  LACUNA_ASSERT(names.size() == edges.size());
  std::vector<std::vector<uint32_t>> ends;  // sources and targets of type 0, of type 1, ...
  std::vector<EdgeList> lists;
  for (size_t t = 0; t < edges.size(); ++t) {
    for (int64_t row = 0; row < 2; ++row) {
      ends.push_back(node_indices(edges[t], row));
      for (size_t e = 0; e < ends.back().size(); ++e)
        if (ends.back()[e] >= nodes)
          throw Error("edges['{}'] has node {} at [{}, {}], but num_nodes is {}", names[t],
                      text(edges[t][row][int64_t(e)].item()), row, e, nodes);
    }
  }
  for (size_t t = 0; t < edges.size(); ++t) lists.push_back({ends[2 * t], ends[2 * t + 1]});
  const GraphPlan plan = GraphPlan::make(uint32_t(nodes), lists);
  return copy_bytes(plan.bytes());
}

// The network of similar genes (graph/similar_genes.h) of one with edges [2, E] and weights [E]
// f32; silent [N] bool. Its edges [2, E'] i64 and weights [E'] f32.
std::tuple<Tensor, Tensor> similar_genes_of(int64_t nodes, const Tensor& edges,
                                            const Tensor& weights, int64_t count,
                                            const Tensor& silent) {
  LACUNA_ASSERT(nodes >= 1 && nodes < UINT32_MAX && count >= 0 && silent.numel() == nodes);
  const std::vector<uint32_t> sources = node_indices(edges, 0), targets = node_indices(edges, 1);
  for (const auto* ends : {&sources, &targets})
    for (const uint32_t node : *ends)
      if (node >= nodes) throw Error("an edge has node {}, but there are {} nodes", node, nodes);
  const Tensor values = weights.to(at::kCPU, at::kFloat).contiguous();
  LACUNA_ASSERT(size_t(values.numel()) == sources.size());
  const Tensor marks = silent.to(at::kCPU, at::kBool).contiguous();
  const bool* const mark = marks.const_data_ptr<bool>();
  const SimilarGenes similar = similar_genes(
      {uint32_t(nodes), sources, targets, {values.const_data_ptr<float>(), sources.size()}},
      uint32_t(std::min(count, nodes)), std::vector<bool>(mark, mark + nodes));
  const auto ends = [](const std::vector<uint32_t>& numbers) {
    return at::tensor(std::vector<int64_t>(numbers.begin(), numbers.end()), at::kLong);
  };
  return {at::stack({ends(similar.sources), ends(similar.targets)}),
          at::tensor(similar.weights, at::kFloat)};
}

bool has_cuda() {
#if LACUNA_HAVE_CUDA
  return true;
#else
  return false;
#endif
}

// Throws for what an operator on a GPU was given and could not use; does not wait for those still
// running.
void check_errors() {
#if LACUNA_HAVE_CUDA
  throw_pending_error();
#endif
}

}  // namespace
}  // namespace lacuna::torch_ops

TORCH_LIBRARY(lacuna, m) {
  m.def("make_plan(int num_nodes, Tensor[] edges, str[] names) -> Tensor",
        lacuna::torch_ops::make_plan);
  m.def(
      "similar_genes(int num_nodes, Tensor edges, Tensor weights, int count, Tensor silent) -> "
      "(Tensor, Tensor)",
      lacuna::torch_ops::similar_genes_of);
  m.def("has_cuda() -> bool", lacuna::torch_ops::has_cuda);
  m.def("check_errors() -> ()", lacuna::torch_ops::check_errors);
}
