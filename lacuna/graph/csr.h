// Neighbours of every node, from a list of edges.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/graph/hetero_graph.h"

namespace lacuna {

// Row r owns places ptr[r] to ptr[r + 1] of `neighbour` and `edge`, in the order of the edge list.
struct Csr {
  std::vector<uint32_t> ptr;        // [rows + 1]
  std::vector<uint32_t> neighbour;  // [E] node index at the other end
  std::vector<uint32_t> edge;       // [E] position in the edge list

  uint32_t rows() const { return uint32_t(ptr.size()) - 1; }
  uint32_t degree(uint32_t row) const { return ptr[row + 1] - ptr[row]; }
  std::span<const uint32_t> neighbours(uint32_t row) const {
    return {neighbour.data() + ptr[row], degree(row)};
  }
};

// rows[e] is the row of edge e, others[e] its neighbour there. Throws Error beyond 2^32 - 1 edges.
Csr make_csr(uint32_t row_count, std::span<const uint32_t> rows, std::span<const uint32_t> others);

// One row per target with the sources of its in-edges (what a sum over in-neighbours walks), and
// the transpose of that.
Csr csr_by_target(const HeteroGraph& graph, const EdgeType& edges);
Csr csr_by_source(const HeteroGraph& graph, const EdgeType& edges);

}  // namespace lacuna
