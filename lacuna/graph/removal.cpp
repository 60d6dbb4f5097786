#include "lacuna/graph/removal.h"

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/graph/csr.h"

namespace lacuna {
namespace {

// Changed whenever a rule changes, so that stores made under the old rules are refused.
constexpr std::string_view kRulesVersion = "removal rules 1";

bool is_between(const EdgeType& edges, std::string_view source, std::string_view target) {
  return edges.source == source && edges.target == target;
}

// Sorts each gene's positions and drops repeats.
void tidy(Incidence& incidence) {
  uint32_t kept = 0;
  for (size_t gene = 0; gene + 1 < incidence.ptr.size(); ++gene) {
    const auto begin = incidence.position.begin() + incidence.ptr[gene];
    const auto end = incidence.position.begin() + incidence.ptr[gene + 1];
    if (!std::is_sorted(begin, end)) std::sort(begin, end);
    const auto unique_end = std::unique(begin, end);
    incidence.ptr[gene] = kept;
    kept = uint32_t(std::move(begin, unique_end, incidence.position.begin() + kept) -
                    incidence.position.begin());
  }
  incidence.ptr.back() = kept;
  incidence.position.resize(kept);
}

// for_each(emit) calls emit(gene, position) for every pair, in any order, repeats allowed; it is
// called twice.
template <class ForEach>
Incidence make_incidence(uint32_t gene_count, const std::string& section, ForEach for_each) {
  std::vector<uint64_t> next(size_t(gene_count) + 1, 0);  // [genes + 1] counts, then next places
  for_each([&](uint32_t gene, uint32_t) { ++next[gene + 1]; });
  for (uint32_t gene = 0; gene < gene_count; ++gene) next[gene + 1] += next[gene];
  if (next.back() > UINT32_MAX)
    throw Error("'{}' needs {} incidence entries, which do not fit 32-bit places; split it",
                section, next.back());
  Incidence incidence;
  incidence.ptr.assign(next.begin(), next.end());
  incidence.position.resize(next.back());
  for_each([&](uint32_t gene, uint32_t position) { incidence.position[next[gene]++] = position; });
  tidy(incidence);
  return incidence;
}

Incidence nothing_goes(uint32_t gene_count) {
  return make_incidence(gene_count, "", [](auto) {});
}

// Every gene turns itself off.
Incidence gene_incidence(uint32_t gene_count) {
  return make_incidence(gene_count, "gene", [&](auto emit) {
    for (uint32_t gene = 0; gene < gene_count; ++gene) emit(gene, gene);
  });
}

// An edge between genes is off when either end is removed.
Incidence gene_gene_incidence(uint32_t gene_count, const EdgeType& edges) {
  const auto sources = edges.sources(), targets = edges.targets();
  return make_incidence(gene_count, edges.key(), [&](auto emit) {
    for (uint32_t e = 0; e < sources.size(); ++e) {
      emit(sources[e], e);
      if (targets[e] != sources[e]) emit(targets[e], e);
    }
  });
}

Incidence source_incidence(uint32_t gene_count, const EdgeType& edges) {
  const auto sources = edges.sources();
  return make_incidence(gene_count, edges.key(), [&](auto emit) {
    for (uint32_t e = 0; e < sources.size(); ++e) emit(sources[e], e);
  });
}

// An edge that is off when its reaction is, and so with every gene of that reaction.
Incidence reaction_edge_incidence(uint32_t gene_count, const EdgeType& edges,
                                  const Csr& genes_of_reaction,
                                  const std::vector<uint32_t>& reaction_of_edge) {
  return make_incidence(gene_count, edges.key(), [&](auto emit) {
    for (uint32_t e = 0; e < reaction_of_edge.size(); ++e)
      for (const uint32_t gene : genes_of_reaction.neighbours(reaction_of_edge[e])) emit(gene, e);
  });
}

Incidence reaction_incidence(uint32_t gene_count, const Csr& genes_of_reaction) {
  return make_incidence(gene_count, "reaction", [&](auto emit) {
    for (uint32_t reaction = 0; reaction < genes_of_reaction.rows(); ++reaction)
      for (const uint32_t gene : genes_of_reaction.neighbours(reaction)) emit(gene, reaction);
  });
}

// The genes of every reaction, over all gene-reaction edge types.
Csr find_genes_of_reactions(const HeteroGraph& graph) {
  std::vector<uint32_t> genes, reactions;
  for (const EdgeType& edges : graph.edge_types()) {
    if (!is_between(edges, "gene", "reaction")) continue;
    const auto sources = edges.sources(), targets = edges.targets();
    genes.insert(genes.end(), sources.begin(), sources.end());
    reactions.insert(reactions.end(), targets.begin(), targets.end());
  }
  const NodeType* nodes = graph.find_nodes("reaction");
  return make_csr(nodes ? nodes->size() : 0, reactions, genes);
}

}  // namespace

std::string_view name(GeneReactionView view) {
  return view == GeneReactionView::gene ? "gene" : "gene_and_reaction";
}

GeneReactionView gene_reaction_view_from_name(std::string_view text) {
  for (const auto view : {GeneReactionView::gene, GeneReactionView::gene_and_reaction})
    if (name(view) == text) return view;
  throw Error("unknown view of gene-reaction edges '{}'; it is gene or gene_and_reaction", text);
}

RemovalRules::RemovalRules(const HeteroGraph& graph, GeneReactionView view)
    : gene_count_(graph.genes().size()), view_(view) {
  const Csr genes_of_reaction = find_genes_of_reactions(graph);
  for (const NodeType& nodes : graph.node_types()) {
    Incidence off;
    if (nodes.name == "gene")
      off = gene_incidence(gene_count_);
    else if (nodes.name == "reaction")
      off = reaction_incidence(gene_count_, genes_of_reaction);
    else if (nodes.name == "metabolite")
      off = nothing_goes(gene_count_);
    else
      throw Error(
          "no removal rule covers nodes of type '{}'; there are rules for gene, reaction "
          "and metabolite",
          nodes.name);
    sections_.push_back({nodes.name, nodes.size(), std::move(off)});
  }
  for (const EdgeType& edges : graph.edge_types()) {
    Incidence off;
    if (is_between(edges, "gene", "gene"))
      off = gene_gene_incidence(gene_count_, edges);
    else if (is_between(edges, "gene", "reaction") && view == GeneReactionView::gene)
      off = source_incidence(gene_count_, edges);
    else if (is_between(edges, "gene", "reaction"))
      off = reaction_edge_incidence(gene_count_, edges, genes_of_reaction, edges.targets());
    else if (is_between(edges, "reaction", "metabolite"))
      off = reaction_edge_incidence(gene_count_, edges, genes_of_reaction, edges.sources());
    else
      throw Error(
          "no removal rule covers edges of type '{}'; there are rules for gene to gene, "
          "gene to reaction and reaction to metabolite",
          edges.key());
    sections_.push_back({edges.key(), edges.size(), std::move(off)});
  }
}

uint64_t RemovalRules::hash() const {
  return hash64(fmt::format("{}, view {}", kRulesVersion, name(view_)));
}

void check_removed(std::span<const uint32_t> removed, uint64_t sample, uint32_t gene_count) {
  for (const uint32_t gene : removed)
    if (gene >= gene_count)
      throw Error(
          "sample {} removes gene index {}, but the screen has {} genes{}; was it made for "
          "another gene list?",
          sample, gene, gene_count,
          gene_count == 0 ? "" : fmt::format(" (0 to {})", gene_count - 1));
}

}  // namespace lacuna
