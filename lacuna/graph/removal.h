// What the removal of genes takes away (docs/formats.md has the rules in words).
//
//   gene-gene edge            off when either end is removed (a self loop too)
//   reaction                  off when any gene on its gene-reaction edges is removed;
//                             one without genes always stays
//   gene-reaction edge        off when its gene is removed (view `gene`), or when its
//                             reaction is off (view `gene_and_reaction`)
//   reaction-metabolite edge  off when its reaction is off
//   metabolite                always stays
//
// Every rule says "off when one of these genes is removed", so each node type and each edge type
// needs one list per gene: the positions that are off when it is removed. A mask is all ones with
// those positions cleared. Removing twice is removing once; removing nothing is the wild type.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/graph/hetero_graph.h"

namespace lacuna {

enum class GeneReactionView { gene, gene_and_reaction };
std::string_view name(GeneReactionView view);
GeneReactionView gene_reaction_view_from_name(std::string_view name);

// Positions of one node type or edge type that each gene turns off; without repeats, ascending.
struct Incidence {
  std::vector<uint32_t> ptr;       // [genes + 1]
  std::vector<uint32_t> position;  // [ptr[genes]]

  std::span<const uint32_t> of(uint32_t gene) const {
    return {position.data() + ptr[gene], ptr[gene + 1] - ptr[gene]};
  }
};

// One part of a mask: a node type or an edge type.
struct MaskSection {
  std::string name;  // "gene", "gene.physical.gene"
  uint64_t count;    // elements
  Incidence off;
};

class RemovalRules {
 public:
  // Throws Error for a node type or an edge type that no rule covers.
  explicit RemovalRules(const HeteroGraph& graph, GeneReactionView view = GeneReactionView::gene);

  uint32_t gene_count() const { return gene_count_; }
  GeneReactionView view() const { return view_; }
  // Node types, then edge types, each in the graph's order.
  const std::vector<MaskSection>& sections() const { return sections_; }
  uint64_t hash() const;  // of the rules' version and view; the "rules" part of a fingerprint

 private:
  uint32_t gene_count_;
  GeneReactionView view_;
  std::vector<MaskSection> sections_;
};

// Throws Error that names the sample and the index when one is not below gene_count; `gene_count`
// is the screen's.
void check_removed(std::span<const uint32_t> removed, uint64_t sample, uint32_t gene_count);

}  // namespace lacuna
