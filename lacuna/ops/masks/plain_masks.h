// The masks of one sample, taken from the edges one by one: slow, and plain enough to check every
// faster way by. No list of what goes with a gene is made, only the rules of removal.h are followed
// (view `gene`).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/graph/hetero_graph.h"
#include "lacuna/ops/masks/masks.h"

namespace lacuna {

class PlainMasks {
 public:
  // Holds copies of all edges, 8 bytes each. Throws Error for edge types that no rule covers.
  explicit PlainMasks(const HeteroGraph& graph);

  // The u8 record of masks.h, [layout.stride()]; layout: of the same graph, u8. Genes in any order,
  // repeats allowed, each below the graph's gene count.
  std::vector<uint8_t> record(std::span<const uint32_t> removed, const MaskLayout& layout) const;

 private:
  struct Edges {
    size_t source, target;                   // node types
    std::vector<uint32_t> sources, targets;  // [E]
  };

  std::vector<uint64_t> counts_;  // [node types]
  size_t genes_ = 0;              // which of them is "gene"
  std::vector<Edges> edges_;      // [edge types]
};

}  // namespace lacuna
