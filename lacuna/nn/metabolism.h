// The metabolism branch of a layer: what a gene's reactions and their metabolites say about it.
//
//   r    mean of a reaction's genes; a learned vector where it has none; 0 where it is off
//   m    sum over a metabolite's kept reactions of stoichiometry * Linear(r)
//   r'   gelu(Linear([r, sum of stoichiometry * m over its metabolites]))
//   y    gelu(norm(MLP(mean over a gene's kept reactions of r')))
//
// Which reactions are off follows from the removed genes (ops/bipartite.h): no mask.
#pragma once

#include <memory>

#include "lacuna/nn/gene_graph.h"
#include "lacuna/nn/layers.h"

namespace lacuna {

class Metabolism : public torch::nn::Module {
 public:
  // Throws Error for a graph without metabolism.
  Metabolism(const GeneGraph& graph, int64_t width, NormKind norm);
  // x [N, B, H] -> [1, N * B, H], one more y for the merge
  at::Tensor forward(const at::Tensor& x, const ModelInput& input) const;

 private:
  GeneGraph graph_;
  at::Tensor start_;  // [H] of reactions without genes
  std::shared_ptr<Dense> to_metabolite_, back_;
  std::shared_ptr<GraphMlp> mlp_;
};

}  // namespace lacuna
