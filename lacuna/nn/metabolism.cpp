#include "lacuna/nn/metabolism.h"

#include <ATen/ATen.h>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"

namespace lacuna {

Metabolism::Metabolism(const GeneGraph& graph, int64_t width, NormKind norm) : graph_(graph) {
  if (!graph.has_metabolism())
    throw Error("model.metabolism is true, but {}; mend the screen, or set it to false",
                graph.why_no_metabolism());
  start_ = register_parameter("start", at::randn({width}) * 0.02);
  to_metabolite_ = register_module("to_metabolite", std::make_shared<Dense>(width, width));
  back_ = register_module("back", std::make_shared<Dense>(2 * width, width));
  mlp_ = register_module("mlp", std::make_shared<GraphMlp>(1, width, norm));
}

at::Tensor Metabolism::forward(const at::Tensor& x, const ModelInput& input) const {
  const auto dtype = x.scalar_type();
  const auto step = [&](BipartiteStep which, const at::Tensor& from) {
    return graph_.bipartite(which, from.contiguous(), input);
  };
  const auto of_genes = step(BipartiteStep::gene_to_reaction, x);  // [R, B, H]
  const auto r = of_genes + graph_.without_genes().to(dtype) * start_.to(dtype);
  const auto m = step(BipartiteStep::reaction_to_metabolite, to_metabolite_->forward(r));
  const auto heard = step(BipartiteStep::metabolite_to_reaction, m);     // [R, B, H]
  const auto after = at::gelu(back_->forward(at::cat({r, heard}, -1)));  // [R, B, H]
  const auto back = step(BipartiteStep::reaction_to_gene, after);        // [N, B, H]
  const Scope scope("mlp");
  return mlp_->forward(back.flatten(0, 1).unsqueeze(0));
}

}  // namespace lacuna
