#include "lacuna/ops/masks/plain_masks.h"

#include <algorithm>

#include "lacuna/core/error.h"

namespace lacuna {

PlainMasks::PlainMasks(const HeteroGraph& graph) {
  const auto& types = graph.node_types();
  const auto number_of = [&](const std::string& name) {
    return size_t(std::ranges::find(types, name, &NodeType::name) - types.begin());
  };
  for (const NodeType& type : types) counts_.push_back(type.size());
  genes_ = number_of("gene");
  for (const EdgeType& type : graph.edge_types()) {
    const bool is_gene_gene = type.source == "gene" && type.target == "gene";
    if (!is_gene_gene && !(type.source == "gene" && type.target == "reaction") &&
        !(type.source == "reaction" && type.target == "metabolite"))
      throw Error("edges '{}' have no rule of removal", type.key());
    edges_.push_back(
        {number_of(type.source), number_of(type.target), type.sources(), type.targets()});
  }
}

std::vector<uint8_t> PlainMasks::record(std::span<const uint32_t> removed,
                                        const MaskLayout& layout) const {
  LACUNA_ASSERT(layout.sections().size() == counts_.size() + edges_.size());
  std::vector<uint8_t> record(layout.stride(), 0);
  const auto mask = [&](size_t section) {
    return record.data() + layout.sections()[section].offset;
  };
  for (size_t type = 0; type < counts_.size(); ++type)
    std::fill_n(mask(type), counts_[type], uint8_t(1));
  for (const uint32_t gene : removed) mask(genes_)[gene] = 0;
  // A reaction goes with any of its genes, before the edges that go with it.
  for (const Edges& type : edges_) {
    if (type.source != genes_ || type.target == genes_) continue;
    for (size_t e = 0; e < type.sources.size(); ++e)
      if (!mask(genes_)[type.sources[e]]) mask(type.target)[type.targets[e]] = 0;
  }
  for (size_t i = 0; i < edges_.size(); ++i) {
    const Edges& type = edges_[i];
    const bool needs_target = type.target == genes_;  // else its source decides alone
    const uint8_t *source = mask(type.source), *target = mask(type.target);
    uint8_t* out = mask(counts_.size() + i);
    for (size_t e = 0; e < type.sources.size(); ++e)
      out[e] = source[type.sources[e]] && (!needs_target || target[type.targets[e]]);
  }
  return record;
}

}  // namespace lacuna
