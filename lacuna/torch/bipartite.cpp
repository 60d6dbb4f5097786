// torch.ops.lacuna.bipartite_plan and bipartite: ops/bipartite/bipartite.h on tensors.
//
//   plan          the bytes of make_bipartite_plan()
//   coefficients  f32 [edges of reaction -> metabolite]
//   sizes         {genes, reactions, metabolites}; on a GPU one more, see cuda.h
#include "lacuna/ops/bipartite/bipartite.h"

#include <ATen/Parallel.h>

#include "lacuna/torch/operators.h"
#if LACUNA_HAVE_CUDA
#include "lacuna/ops/bipartite/bipartite_cuda.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna::torch_ops {
namespace {

TORCH_LIBRARY_FRAGMENT(lacuna, m) {
  // x [source nodes, B, H] -> [target nodes, B, H]; step: gene_to_reaction, reaction_to_metabolite,
  // ...
  m.def("bipartite_plan(int[] sizes, Tensor gene_reaction, Tensor reaction_metabolite) -> Tensor");
  m.def(
      "bipartite(Tensor graph, Tensor coefficients, int[] sizes, str step, Tensor x, "
      "Tensor removed, Tensor ptr) -> Tensor");
  m.def(
      "bipartite_backward(Tensor graph, Tensor coefficients, int[] sizes, str step, Tensor grad, "
      "Tensor removed, Tensor ptr) -> Tensor");
}

struct Ends {
  int64_t sources, targets;
};

Ends check_bipartite(const Tensor& plan, const Tensor& coefficients, at::IntArrayRef sizes,
                     BipartiteStep step, const Tensor& removed, const Tensor& ptr,
                     c10::Device device) {
  if (sizes.size() < 3) throw Error("sizes holds {} numbers, but three are needed", sizes.size());
  check_device("graph", plan, device);
  check_dtype("graph", plan, at::kByte);
  check_device("coefficients", coefficients, device);
  check_dtype("coefficients", coefficients, at::kFloat);
  check_dim("coefficients", coefficients, 1, "one axis");
  check_removed_shapes(removed, ptr, device);
  switch (step) {
    case BipartiteStep::gene_to_reaction:
      return {sizes[0], sizes[1]};
    case BipartiteStep::reaction_to_metabolite:
      return {sizes[1], sizes[2]};
    case BipartiteStep::metabolite_to_reaction:
      return {sizes[2], sizes[1]};
    case BipartiteStep::reaction_to_gene:
      return {sizes[1], sizes[0]};
  }
  LACUNA_ASSERT(false);
  return {};
}

void check_rows(const char* name, const Tensor& tensor, int64_t nodes, const c10::SymInt& batch) {
  check_real(name, tensor);
  check_dim(name, tensor, 3, "[nodes, B, H]");
  check_size(name, tensor, 0, nodes, "[nodes, B, H]");
  check_size(name, tensor, 1, batch, "[nodes, B, H]");
}

// Forward from sources to targets, backward the other way round: both make rows of one side from
// rows of the other.
template <bool kBackward>
Tensor bipartite_meta(const Tensor& plan, const Tensor& coefficients, at::IntArrayRef sizes,
                      std::string_view step, const Tensor& rows, const Tensor& removed,
                      const Tensor& ptr) {
  const Ends ends = check_bipartite(plan, coefficients, sizes, bipartite_step_from_name(step),
                                    removed, ptr, rows.device());
  const c10::SymInt batch = ptr.sym_size(0) - 1;
  check_rows(kBackward ? "grad" : "x", rows, kBackward ? ends.targets : ends.sources, batch);
  return at::empty_symint({kBackward ? ends.sources : ends.targets, batch, rows.sym_size(2)},
                          rows.options());
}

template <bool kBackward>
Tensor bipartite_cpu(const Tensor& plan, const Tensor& coefficients, at::IntArrayRef sizes,
                     std::string_view step, const Tensor& rows, const Tensor& removed,
                     const Tensor& ptr) {
  const Tensor out = bipartite_meta<kBackward>(plan, coefficients, sizes, step, rows, removed, ptr);
  const Tensor rows_ = rows.contiguous(), coefficients_ = coefficients.contiguous(),
               removed_ = removed.contiguous(), ptr_ = ptr.contiguous();
  const BipartiteGraph graph = {
      GraphPlan::from_bytes(std::as_bytes(span_of<uint8_t>(plan)), nullptr), uint32_t(sizes[0]),
      uint32_t(sizes[1]), uint32_t(sizes[2]), span_of<float>(coefficients_)};
  if (graph.plan.type_count() != 2 || graph.plan.edge_count(1) != graph.coefficients.size())
    throw Error("coefficients has {} numbers, but the graph has {} such edges",
                graph.coefficients.size(), graph.plan.edge_count(graph.plan.type_count() - 1));
  with_real(rows.scalar_type(), [&]<class Real>(Real) {
    const auto run = kBackward ? lacuna::bipartite_backward<Real> : lacuna::bipartite<Real>;
    run(graph, bipartite_step_from_name(step), rows.size(2), data<Real>(rows_),
        removed_view(removed_, ptr_), mutable_data<Real>(out), at::get_num_threads());
  });
  return out;
}

#if LACUNA_HAVE_CUDA
template <bool kBackward>
Tensor bipartite_on_cuda(const Tensor& plan, const Tensor& coefficients, at::IntArrayRef sizes,
                         std::string_view step, const Tensor& rows, const Tensor& removed,
                         const Tensor& ptr) {
  const Tensor out = bipartite_meta<kBackward>(plan, coefficients, sizes, step, rows, removed, ptr);
  const auto host = host_graph(graph_number(sizes, 3));
  const BipartiteGraph graph = {
      host->plan, uint32_t(sizes[0]), uint32_t(sizes[1]), uint32_t(sizes[2]), {}};
  if (host->plan.edge_count(1) != uint64_t(coefficients.numel()))
    throw Error("coefficients has {} numbers, but the graph has {} such edges",
                coefficients.numel(), host->plan.edge_count(1));
  const Tensor rows_ = rows.contiguous(), coefficients_ = coefficients.contiguous(),
               removed_ = removed.contiguous(), ptr_ = ptr.contiguous();
  const CudaBipartite device = {&graph, data<std::byte>(plan), data<float>(coefficients_)};
  Launch launch(rows.device());
  void* workspace = launch.workspace(bipartite_cuda_workspace(graph, ptr.numel() - 1));
  with_real(rows.scalar_type(), [&]<class Real>(Real) {
    const auto run = kBackward ? bipartite_backward_cuda<Real> : bipartite_cuda<Real>;
    run(device, bipartite_step_from_name(step), rows.size(2), data<Real>(rows_),
        cuda_removed(removed_, ptr_), mutable_data<Real>(out), workspace, launch.error(),
        launch.stream());
  });
  return out;
}
#endif

template <bool kBackward>
Tensor call_bipartite(const Tensor& plan, const Tensor& coefficients, at::IntArrayRef sizes,
                      std::string_view step, const Tensor& rows, const Tensor& removed,
                      const Tensor& ptr) {
  static const auto op = find_operator<decltype(bipartite_cpu<kBackward>)>(
      kBackward ? "lacuna::bipartite_backward" : "lacuna::bipartite");
  return op.call(plan, coefficients, sizes, step, rows, removed, ptr);
}

struct BipartiteFunction : torch::autograd::Function<BipartiteFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& plan, const Tensor& coefficients,
                        std::vector<int64_t> sizes, const std::string& step, const Tensor& x,
                        const Tensor& removed, const Tensor& ptr) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({plan, coefficients, removed, ptr});
    context->saved_data["sizes"] = sizes;
    context->saved_data["step"] = step;
    return call_bipartite<false>(plan, coefficients, sizes, step, x, removed, ptr);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const Tensor grad_x =
        call_bipartite<true>(saved[0], saved[1], data["sizes"].toIntVector(),
                             data["step"].toStringRef(), grads[0], saved[2], saved[3]);
    return {Tensor(), Tensor(), Tensor(), Tensor(), grad_x, Tensor(), Tensor()};
  }
};

Tensor bipartite_autograd(const Tensor& plan, const Tensor& coefficients, at::IntArrayRef sizes,
                          std::string_view step, const Tensor& x, const Tensor& removed,
                          const Tensor& ptr) {
  if (coefficients.requires_grad())
    throw Error("coefficients requires a gradient, but they are data and have none");
  return BipartiteFunction::apply(plan, coefficients, sizes.vec(), std::string(step), x, removed,
                                  ptr);
}

template <c10::DeviceType device>
Tensor bipartite_autocast(const Tensor& plan, const Tensor& coefficients, at::IntArrayRef sizes,
                          std::string_view step, const Tensor& x, const Tensor& removed,
                          const Tensor& ptr) {
  const auto guard = without_autocast<device>();
  return call_bipartite<false>(plan, coefficients, sizes, step, autocast_real<device>(x), removed,
                               ptr);
}

// Edge lists [2, E], sources then targets.
Tensor bipartite_plan(at::IntArrayRef sizes, const Tensor& gene_reaction,
                      const Tensor& reaction_metabolite) {
  if (sizes.size() != 3) throw Error("sizes holds {} numbers, but three are needed", sizes.size());
  const auto genes = node_indices(gene_reaction, 0), reactions = node_indices(gene_reaction, 1),
             makers = node_indices(reaction_metabolite, 0),
             metabolites = node_indices(reaction_metabolite, 1);
  return copy_bytes(make_bipartite_plan(uint32_t(sizes[0]), uint32_t(sizes[1]), uint32_t(sizes[2]),
                                        {genes, reactions}, {makers, metabolites})
                        .bytes());
}

}  // namespace

TORCH_LIBRARY_IMPL(lacuna, CPU, m) {
  m.impl("bipartite_plan", bipartite_plan);
  m.impl("bipartite", bipartite_cpu<false>);
  m.impl("bipartite_backward", bipartite_cpu<true>);
}
#if LACUNA_HAVE_CUDA
TORCH_LIBRARY_IMPL(lacuna, CUDA, m) {
  m.impl("bipartite", bipartite_on_cuda<false>);
  m.impl("bipartite_backward", bipartite_on_cuda<true>);
}
#endif
TORCH_LIBRARY_IMPL(lacuna, Meta, m) {
  m.impl("bipartite", bipartite_meta<false>);
  m.impl("bipartite_backward", bipartite_meta<true>);
}
TORCH_LIBRARY_IMPL(lacuna, Autograd, m) {
  m.impl("bipartite", bipartite_autograd);
  m.impl("bipartite_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(lacuna, AutocastCPU, m) { m.impl("bipartite", bipartite_autocast<c10::kCPU>); }
TORCH_LIBRARY_IMPL(lacuna, AutocastCUDA, m) { m.impl("bipartite", bipartite_autocast<c10::kCUDA>); }

}  // namespace lacuna::torch_ops
