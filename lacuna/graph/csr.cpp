#include "lacuna/graph/csr.h"

#include <numeric>

#include "lacuna/core/error.h"

namespace lacuna {

Csr make_csr(uint32_t row_count, std::span<const uint32_t> rows, std::span<const uint32_t> others) {
  LACUNA_ASSERT(rows.size() == others.size());
  if (rows.size() > UINT32_MAX)
    throw Error("{} edges of one type do not fit 32-bit positions; split the edge type",
                rows.size());
  Csr csr;
  csr.ptr.assign(size_t(row_count) + 1, 0);
  for (const uint32_t row : rows) {
    LACUNA_ASSERT(row < row_count);
    ++csr.ptr[row + 1];
  }
  std::partial_sum(csr.ptr.begin(), csr.ptr.end(), csr.ptr.begin());
  csr.neighbour.resize(rows.size());
  csr.edge.resize(rows.size());
  std::vector<uint32_t> next(csr.ptr.begin(), csr.ptr.end() - 1);  // [rows] next free place
  for (uint32_t e = 0; e < rows.size(); ++e) {
    const uint32_t place = next[rows[e]]++;
    csr.neighbour[place] = others[e];
    csr.edge[place] = e;
  }
  return csr;
}

Csr csr_by_target(const HeteroGraph& graph, const EdgeType& edges) {
  return make_csr(graph.nodes(edges.target).size(), edges.targets(), edges.sources());
}

Csr csr_by_source(const HeteroGraph& graph, const EdgeType& edges) {
  return make_csr(graph.nodes(edges.source).size(), edges.sources(), edges.targets());
}

}  // namespace lacuna
