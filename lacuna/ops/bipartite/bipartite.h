// Sums over the bipartite graph of metabolism, genes - reactions - metabolites, for a batch of
// samples that each remove a few genes.
//
// A reaction is off in a sample that removes any of its genes (one without genes always stays); an
// edge of a reaction that is off is off, and metabolites always stay. So the removed genes alone
// say what is kept, and no mask exists:
//
//   gene_to_reaction        out[r, b] = mean of x[g, b] over the genes of r
//                                       0 where r is off or has no genes
//   reaction_to_metabolite  out[m, b] = sum of coefficient * x[r, b] over the kept reactions of m
//   metabolite_to_reaction  out[r, b] = sum of coefficient * x[m, b] over the metabolites of r
//                                       0 where r is off
//   reaction_to_gene        out[g, b] = mean of x[r, b] over the kept reactions of g
//                                       0 where there are none
//
//   x        [source nodes, B, H]   f32, bf16 or f64; the caller's
//   removed  [ptr[B]]               gene indices, as in aggregate.h
//   out      [target nodes, B, H]   the dtype of x; every element is written
//
// (All genes of a kept reaction are kept, and a removed gene has no kept reaction.) Repeated edges
// count as often as they stand. Rounding, order, threads and errors as in aggregate.h; what stands
// in the row of a reaction that is off, or of a removed gene, is never read into another row.
// Coefficients are data: they have no gradient.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

struct BipartiteGraph {
  // Type 0: gene -> reaction, type 1: reaction -> metabolite; each end is counted within its node
  // type.
  GraphPlan plan;
  uint32_t genes, reactions, metabolites;
  // [edges of type 1] stoichiometry: reactants negative, products positive; the caller's.
  std::span<const float> coefficients;
};
// Throws Error naming the edge when an index is not in its node type.
GraphPlan make_bipartite_plan(uint32_t genes, uint32_t reactions, uint32_t metabolites,
                              const EdgeList& gene_reaction, const EdgeList& reaction_metabolite);

enum class BipartiteStep : uint8_t {
  gene_to_reaction,
  reaction_to_metabolite,
  metabolite_to_reaction,
  reaction_to_gene
};
std::string_view name(BipartiteStep step);
BipartiteStep bipartite_step_from_name(std::string_view name);  // throws Error, listing the four
uint32_t source_count(const BipartiteGraph& graph, BipartiteStep step);
uint32_t target_count(const BipartiteGraph& graph, BipartiteStep step);

template <class Real>
void bipartite(const BipartiteGraph& graph, BipartiteStep step, int64_t width, const Real* x,
               const RemovedView& removed, Real* out, int threads = 0);

// The transpose:  grad_out [target nodes, B, H]    grad_x [source nodes, B, H]
template <class Real>
void bipartite_backward(const BipartiteGraph& graph, BipartiteStep step, int64_t width,
                        const Real* grad_out, const RemovedView& removed, Real* grad_x,
                        int threads = 0);

}  // namespace lacuna
