#include "lacuna/graph/without_edges.h"

#include <gmock/gmock.h>

#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"

namespace lacuna {
namespace {

TEST(WithoutEdges, TakesAwayOneTypeAndNothingElse) {
  const HeteroGraph graph = generate_graph(GraphSize::tiny, 1);
  ASSERT_GE(graph.edge_types().size(), 2u);
  const std::string key = graph.edge_types()[0].key();
  const HeteroGraph less = without_edges(graph, key);
  ASSERT_EQ(less.edge_types().size(), graph.edge_types().size());
  for (const EdgeType& type : graph.edge_types()) {
    const EdgeType& left = less.edges(type.key());
    EXPECT_EQ(left.size(), type.key() == key ? 0u : type.size());
    if (type.key() == key) continue;
    EXPECT_EQ(left.sources(), type.sources());
    EXPECT_EQ(left.targets(), type.targets());
  }
  EXPECT_EQ(less.genes().names.all(), graph.genes().names.all());
  EXPECT_EQ(less.genes().features.size(), graph.genes().features.size());
  EXPECT_ERROR(without_edges(graph, "gene.nothing.gene"), "nothing");
}

}  // namespace
}  // namespace lacuna
