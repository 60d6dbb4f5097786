#include "lacuna/ops/bipartite/bipartite.h"

#include <algorithm>
#include <array>

#include "lacuna/core/error.h"
#include "lacuna/ops/aggregate/column_pass.h"
#include "lacuna/ops/aggregate/kept.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 4> kStepNames = {
    "gene_to_reaction", "reaction_to_metabolite", "metabolite_to_reaction", "reaction_to_gene"};

constexpr uint32_t kGeneReaction = 0, kReactionMetabolite = 1;  // edge types of the plan

void check_ends(const char* edges, const EdgeList& list, uint32_t sources, uint32_t targets) {
  for (size_t e = 0; e < list.sources.size(); ++e)
    if (list.sources[e] >= sources)
      throw Error("{} edge {} starts at index {}, but there are {} of them", edges, e,
                  list.sources[e], sources);
  for (size_t e = 0; e < list.targets.size(); ++e)
    if (list.targets[e] >= targets)
      throw Error("{} edge {} ends at index {}, but there are {} of them", edges, e,
                  list.targets[e], targets);
}

void check(const BipartiteGraph& graph, int64_t width, const RemovedView& removed) {
  if (graph.plan.type_count() != 2 ||
      graph.plan.node_count() != std::max({graph.genes, graph.reactions, graph.metabolites}))
    throw Error(
        "graph is not a plan of make_bipartite_plan() for {} genes, {} reactions and {} "
        "metabolites",
        graph.genes, graph.reactions, graph.metabolites);
  if (graph.coefficients.size() != graph.plan.edge_count(kReactionMetabolite))
    throw Error("coefficients has {} entries, but there are {} reaction-metabolite edges",
                graph.coefficients.size(), graph.plan.edge_count(kReactionMetabolite));
  if (width < 1) throw Error("width is {}; a row needs at least one channel", width);
  check_removed(removed, graph.genes);
}

// The reactions that are off in each sample.
RemovedSets reactions_off(const BipartiteGraph& graph, const RemovedView& removed) {
  const CsrView reactions_of_gene = graph.plan.by_source(kGeneReaction);
  RemovedSets off;
  for (int64_t b = 0; b < removed.batch(); ++b) {
    std::vector<uint32_t> reactions;
    for (int32_t i = removed.ptr[size_t(b)]; i < removed.ptr[size_t(b) + 1]; ++i) {
      const int32_t gene = removed.index[size_t(i)];
      for (uint32_t k = reactions_of_gene.ptr[gene]; k < reactions_of_gene.ptr[gene + 1]; ++k)
        reactions.push_back(graph.plan.neighbour(reactions_of_gene, k));
    }
    off.add_sample(std::move(reactions));
  }
  return off;
}

// [reactions, B]: 1 / number of genes.
std::vector<double> gene_means(const BipartiteGraph& graph, int64_t batch) {
  const CsrView genes_of_reaction = graph.plan.by_target(kGeneReaction);
  std::vector<double> scale;
  for (uint32_t r = 0; r < graph.reactions; ++r)
    scale.insert(scale.end(), size_t(batch),
                 degree_scale(Reduce::mean,
                              double(genes_of_reaction.ptr[r + 1] - genes_of_reaction.ptr[r])));
  return scale;
}

// [genes, B]: 1 / number of kept reactions.
std::vector<double> reaction_means(const BipartiteGraph& graph, const RemovedSets& off,
                                   int64_t batch) {
  const CsrView reactions_of_gene = graph.plan.by_source(kGeneReaction);
  const CsrView genes_of_reaction = graph.plan.by_target(kGeneReaction);
  std::vector<double> scale;
  for (uint32_t g = 0; g < graph.genes; ++g)
    scale.insert(scale.end(), size_t(batch),
                 double(reactions_of_gene.ptr[g + 1] - reactions_of_gene.ptr[g]));
  for (int64_t b = 0; b < batch; ++b)
    for (const uint32_t r : off.of(b))
      for (uint32_t k = genes_of_reaction.ptr[r]; k < genes_of_reaction.ptr[r + 1]; ++k)
        scale[graph.plan.neighbour(genes_of_reaction, k) * size_t(batch) + size_t(b)] -= 1;
  for (double& element : scale) element = degree_scale(Reduce::mean, element);
  return scale;
}

bool is_mean(BipartiteStep step) {
  return step == BipartiteStep::gene_to_reaction || step == BipartiteStep::reaction_to_gene;
}
bool from_reactions(BipartiteStep step) {
  return step == BipartiteStep::reaction_to_metabolite || step == BipartiteStep::reaction_to_gene;
}

// Rows are the targets of the step (forward) or its sources (backward), neighbours the others. A
// mean is divided where it is stored (forward) or where its gradient is loaded (backward).
template <class Real>
void run_step(const BipartiteGraph& graph, BipartiteStep step, bool forward, int64_t width,
              const Real* source, const RemovedView& removed, Real* out, int threads) {
  const int64_t batch = removed.batch();
  const RemovedSets off = reactions_off(graph, removed);
  const uint32_t edges = is_mean(step) ? kGeneReaction : kReactionMetabolite;
  const bool along_edges = (step == BipartiteStep::gene_to_reaction ||
                            step == BipartiteStep::reaction_to_metabolite) == forward;
  std::vector<double> scale;
  if (step == BipartiteStep::gene_to_reaction) scale = gene_means(graph, batch);
  if (step == BipartiteStep::reaction_to_gene) scale = reaction_means(graph, off, batch);
  const std::vector<Parameter<Real>> coefficients(graph.coefficients.begin(),
                                                  graph.coefficients.end());

  ColumnPass<Real> pass = {
      .sources = forward ? source_count(graph, step) : target_count(graph, step),
      .rows = forward ? target_count(graph, step) : source_count(graph, step),
      .batch = batch,
      .width = width,
      .index_bytes = graph.plan.index_bytes()};
  (from_reactions(step) == forward ? pass.removed_sources : pass.removed_rows) = &off;
  pass.out = out;
  pass.threads = threads;
  TypePass<Real> type = {
      .source = source,
      .csr = along_edges ? graph.plan.by_target(edges) : graph.plan.by_source(edges)};
  if (is_mean(step))
    (forward ? type.store_scale : type.load_scale) = scale.data();
  else
    type.values = coefficients.data();
  pass.types.push_back(type);
  run(pass);
}

}  // namespace

GraphPlan make_bipartite_plan(uint32_t genes, uint32_t reactions, uint32_t metabolites,
                              const EdgeList& gene_reaction, const EdgeList& reaction_metabolite) {
  check_ends("gene-reaction", gene_reaction, genes, reactions);
  check_ends("reaction-metabolite", reaction_metabolite, reactions, metabolites);
  const std::array<EdgeList, 2> types = {gene_reaction, reaction_metabolite};
  return GraphPlan::make(std::max({genes, reactions, metabolites}), types);
}

std::string_view name(BipartiteStep step) { return kStepNames.at(size_t(step)); }

BipartiteStep bipartite_step_from_name(std::string_view text) {
  for (size_t i = 0; i < kStepNames.size(); ++i)
    if (kStepNames[i] == text) return BipartiteStep(i);
  throw Error(
      "step is '{}'; it is one of gene_to_reaction, reaction_to_metabolite, "
      "metabolite_to_reaction, reaction_to_gene",
      text);
}

uint32_t source_count(const BipartiteGraph& graph, BipartiteStep step) {
  if (step == BipartiteStep::gene_to_reaction) return graph.genes;
  return from_reactions(step) ? graph.reactions : graph.metabolites;
}
uint32_t target_count(const BipartiteGraph& graph, BipartiteStep step) {
  if (step == BipartiteStep::reaction_to_gene) return graph.genes;
  return from_reactions(step) ? graph.metabolites : graph.reactions;
}

template <class Real>
void bipartite(const BipartiteGraph& graph, BipartiteStep step, int64_t width, const Real* x,
               const RemovedView& removed, Real* out, int threads) {
  check(graph, width, removed);
  check_given(x, "x", source_count(graph, step) * removed.batch() * width);
  check_given(out, "out", target_count(graph, step) * removed.batch() * width);
  run_step(graph, step, true, width, x, removed, out, threads);
}

template <class Real>
void bipartite_backward(const BipartiteGraph& graph, BipartiteStep step, int64_t width,
                        const Real* grad_out, const RemovedView& removed, Real* grad_x,
                        int threads) {
  check(graph, width, removed);
  check_given(grad_out, "grad_out", target_count(graph, step) * removed.batch() * width);
  check_given(grad_x, "grad_x", source_count(graph, step) * removed.batch() * width);
  run_step(graph, step, false, width, grad_out, removed, grad_x, threads);
}

#define LACUNA_INSTANTIATE(Real)                                                               \
  template void bipartite(const BipartiteGraph&, BipartiteStep, int64_t, const Real*,          \
                          const RemovedView&, Real*, int);                                     \
  template void bipartite_backward(const BipartiteGraph&, BipartiteStep, int64_t, const Real*, \
                                   const RemovedView&, Real*, int);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
