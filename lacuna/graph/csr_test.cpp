#include "lacuna/graph/csr.h"

#include <gtest/gtest.h>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

// What make_csr promises, by looking through all edges for every row.
void expect_rows(const Csr& csr, uint32_t row_count, const std::vector<uint32_t>& rows,
                 const std::vector<uint32_t>& others) {
  ASSERT_EQ(csr.rows(), row_count);
  ASSERT_EQ(csr.neighbour.size(), rows.size());
  uint32_t place = 0;
  for (uint32_t row = 0; row < row_count; ++row) {
    ASSERT_EQ(csr.ptr[row], place);
    for (uint32_t e = 0; e < rows.size(); ++e) {
      if (rows[e] != row) continue;
      ASSERT_EQ(csr.edge[place], e);
      ASSERT_EQ(csr.neighbour[place], others[e]);
      ++place;
    }
    ASSERT_EQ(csr.neighbours(row).size(), csr.degree(row));
  }
  ASSERT_EQ(csr.ptr.back(), place);
}

TEST(Csr, BothDirectionsHoldEveryEdgeInOrder) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (uint64_t round = 0; round < 50; ++round) {
    Random random(seed, round);
    const uint32_t genes = 1 + uint32_t(random.below(20)), reactions = 1 + random.below(300);
    const uint64_t edges = random.below(4) == 0 ? 0 : random.below(200);
    std::vector<uint32_t> sources, targets, both;
    for (uint64_t e = 0; e < edges; ++e) {
      sources.push_back(uint32_t(random.below(genes)));
      targets.push_back(uint32_t(random.below(reactions)));
    }
    both = sources;
    both.insert(both.end(), targets.begin(), targets.end());
    std::vector<std::string> names;
    for (uint32_t i = 0; i < 300; ++i) names.push_back(std::to_string(i));
    HeteroGraph graph;
    graph.add_nodes("gene", Names({names.begin(), names.begin() + genes}));
    graph.add_nodes("reaction", Names({names.begin(), names.begin() + reactions}));
    graph.add_edges("gene", "rule", "reaction", Array::from(both, {2, edges}));
    const EdgeType& type = graph.edge_types()[0];
    expect_rows(csr_by_target(graph, type), reactions, targets, sources);
    expect_rows(csr_by_source(graph, type), genes, sources, targets);
  }
}

TEST(Csr, NoRowsAndNoEdges) {
  const Csr csr = make_csr(0, {}, {});
  EXPECT_EQ(csr.rows(), 0u);
  EXPECT_EQ(make_csr(3, {}, {}).degree(2), 0u);
}

TEST(Csr, RowOutsideIsRefused) {
  const std::vector<uint32_t> rows = {0, 2}, others = {1, 1};
  EXPECT_THROW(make_csr(2, rows, others), std::logic_error);
}

}  // namespace
}  // namespace lacuna
