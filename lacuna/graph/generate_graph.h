// Synthetic graphs at the sizes that this program is meant to be fast at.
//
//   size    genes   gene-gene types  edges of them   reactions  metabolites
//   tiny       40                 3            720          20           12   for quick tests
//   mini      120                 3          1,800          60           30   to learn in seconds
//   small   1,000                 3         56,000         300          150   for a quick training
//   yeast   6,607                 9      2,495,908       7,122        2,806
//   human  20,000                 5     12,200,000        none         none
//
// Counts are exact (see size_of()). In every gene-gene type each gene has one self loop, which the
// count includes, and no edge is repeated. Edges are in order of source, then target; the self
// loops come last. Types `regulatory` and `tflink` are directed: a few regulators, many targets.
// The others are undirected, both directions stored; where the count leaves an odd number of edges,
// one pair has a single direction.
//
// Degrees are heavy-tailed: a gene is drawn in proportion to rank^(-2/3), and each type ranks the
// genes anew. On top of that some genes are hubs of a stated degree (self loop not counted). At
// yeast size: `coexpression` has genes of 5,028, 3,500 and 2,500 neighbours, each an in-degree and
// an out-degree; `experimental` has 4,200 and 3,000; in `tflink` one regulator has an out-degree of
// 4,900.
//
// One type may be even instead: no hubs, all genes with the same number of in-neighbours and of
// out-neighbours, give or take one (two, for the ends of a single direction), and random partners.
// Labels that depend on such a type depend on who is linked to whom, not on degrees.
//
// With modules, gene number i (from 0) belongs to module i mod their count, and in every type that
// is not even four of five links are drawn within a module (those of hubs apart): a gene's
// neighbours tell its module. Tails of degrees are a little lighter then: a module is small.
//
// Metabolism is (gene, rule, reaction) and (reaction, stoichiometry, metabolite); the latter
// has the value "coefficient": reactants negative, products positive, every reaction has both.
// Nearly half of the reactions have no gene.
//
// A graph is a pure function of size, seed, even type and modules: the same bytes on every run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/graph/hetero_graph.h"

namespace lacuna {

enum class GraphSize { tiny, mini, small, yeast, human };
std::string_view name(GraphSize size);
GraphSize graph_size_from_name(std::string_view name);  // throws Error, listing the sizes

struct GeneEdgeCounts {
  std::string name;
  uint64_t edges;  // self loops included
  bool directed = false;
  std::vector<uint32_t> hubs = {};  // neighbours of each hub; out-neighbours where directed
};

struct GraphCounts {
  uint32_t genes;
  std::vector<GeneEdgeCounts> types;
  uint32_t reactions, metabolites;
  uint64_t gene_reaction_edges, reaction_metabolite_edges;
};
GraphCounts size_of(GraphSize size);

uint32_t most_modules(GraphSize size);  // an eighth of the genes

// even_type: one of the size's types, or none. modules: 0 = none; throws UsageError for too many.
HeteroGraph generate_graph(GraphSize size, uint64_t seed, std::string_view even_type = {},
                           uint32_t modules = 0);

}  // namespace lacuna
