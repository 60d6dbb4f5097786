#include "lacuna/graph/hetero_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> numbered(uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) names.push_back(fmt::format("n{}", i));
  return names;
}

Array edge_array(std::vector<uint32_t> sources_then_targets) {
  const uint64_t count = sources_then_targets.size() / 2;
  return Array::from(std::move(sources_then_targets), {2, count});
}

HeteroGraph two_types() {
  HeteroGraph graph;
  graph.add_nodes("gene", Names({"a", "b", "c"}));
  graph.add_nodes("reaction", Names(numbered(300)));
  return graph;
}

TEST(HeteroGraph, KeepsEdgesInOrderInTheSmallestType) {
  HeteroGraph graph = two_types();
  graph.add_edges("gene", "physical", "gene", edge_array({0, 2, 2, 0, 1, 1, 1, 0}));
  graph.add_edges("gene", "rule", "reaction", edge_array({2, 0, 299, 7}));
  const EdgeType& physical = graph.edges("gene.physical.gene");
  EXPECT_EQ(physical.edges.dtype(), DType::u8);
  EXPECT_EQ(physical.size(), 4u);
  EXPECT_THAT(physical.sources(), ElementsAre(0, 2, 2, 0));
  EXPECT_THAT(physical.targets(), ElementsAre(1, 1, 1, 0));
  const EdgeType& rule = graph.edges("gene.rule.reaction");
  EXPECT_EQ(rule.edges.dtype(), DType::u16);
  EXPECT_THAT(rule.sources(), ElementsAre(2, 0));
  EXPECT_THAT(rule.targets(), ElementsAre(299, 7));
}

TEST(HeteroGraph, TakesEveryUnsignedIndexType) {
  HeteroGraph graph = two_types();
  graph.add_edges("gene", "a", "gene", Array::from(std::vector<uint8_t>{0, 1, 2, 2}, {2, 2}));
  graph.add_edges("gene", "b", "gene", Array::from(std::vector<uint16_t>{0, 1, 2, 2}, {2, 2}));
  graph.add_edges("gene", "c", "gene", Array::from(std::vector<uint32_t>{0, 1, 2, 2}, {2, 2}));
  for (const EdgeType& edges : graph.edge_types()) {
    EXPECT_EQ(edges.edges.dtype(), DType::u8);
    EXPECT_THAT(edges.sources(), ElementsAre(0, 1));
    EXPECT_THAT(edges.targets(), ElementsAre(2, 2));
  }
  EXPECT_ERROR(
      graph.add_edges("gene", "d", "gene", Array::from(std::vector<int32_t>{0, 1}, {2, 1})),
      "edges of type 'gene.d.gene' are i32; they must be u8, u16 or u32");
}

TEST(HeteroGraph, EmptyTypesAreTypes) {
  HeteroGraph graph;
  graph.add_nodes("gene", Names());
  graph.add_edges("gene", "physical", "gene", edge_array({}));
  EXPECT_EQ(graph.genes().size(), 0u);
  EXPECT_EQ(graph.edges("gene.physical.gene").size(), 0u);
  EXPECT_THAT(graph.edges("gene.physical.gene").sources(), ElementsAre());
}

TEST(HeteroGraph, ErrorNamesTheEdgeOutside) {
  HeteroGraph graph = two_types();
  EXPECT_ERROR(graph.add_edges("gene", "p", "gene", edge_array({0, 3, 1, 1})),
               "edge 1 of type 'gene.p.gene' has source index 3, but there are 3 nodes");
  EXPECT_ERROR(graph.add_edges("gene", "r", "reaction", edge_array({0, 300})),
               "edge 0 of type 'gene.r.reaction' has target index 300");
  EXPECT_TRUE(graph.edge_types().empty());  // what was refused is not there
}

TEST(HeteroGraph, ErrorsNameWhatIsWrong) {
  HeteroGraph graph = two_types();
  graph.add_edges("gene", "p", "gene", edge_array({0, 1}));
  const auto values = [](std::vector<float> v) { return Array::from(std::move(v)); };
  const auto add = [&](std::string name, Array edges, std::vector<EdgeValue> v = {}) {
    graph.add_edges("gene", name, "gene", edges, v);
  };
  EXPECT_ERROR(add("p", edge_array({0, 1})), "'gene.p.gene' is already in the graph");
  EXPECT_ERROR(add("a/b", edge_array({0, 1})), "edge type 'a/b' cannot name a file");
  EXPECT_ERROR(add("", edge_array({0, 1})), "edge type '' cannot name a file");
  EXPECT_ERROR(add("q", Array::from(std::vector<uint8_t>{0, 1})), "have shape [2]");
  EXPECT_ERROR(add("q", edge_array({0, 1}), {{"w", values({1, 2})}}),
               "value 'w' of edge type 'gene.q.gene' is f32 [2]; it must be f32 [1]");
  EXPECT_ERROR(add("q", edge_array({0, 1}), {{"w", values({1})}, {"w", values({1})}}),
               "two values named 'w'");
  EXPECT_ERROR(graph.add_nodes("gene", Names()), "node type 'gene' is already");
  EXPECT_ERROR(graph.add_edges("gene", "q", "protein", edge_array({0, 1})),
               "no nodes of type 'protein'; it has: gene, reaction");
  EXPECT_ERROR(graph.edges("gene.q.gene"), "it has: gene.p.gene");
  EXPECT_ERROR(HeteroGraph().genes(), "it has: none");
}

TEST(HeteroGraph, FeaturesAndValuesAreKept) {
  HeteroGraph graph = two_types();
  graph.add_feature("gene", "embedding", Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}));
  graph.add_edges("gene", "p", "gene", edge_array({0, 1}), {{"w", Array::from(std::vector{0.5f})}});
  ASSERT_EQ(graph.genes().features.size(), 1u);
  EXPECT_EQ(graph.genes().features[0].values.as<float>()[5], 6.0f);
  EXPECT_EQ(graph.edges("gene.p.gene").values.at(0).values.as<float>()[0], 0.5f);
  const auto wrong = Array::from(std::vector<float>{1, 2}, {2, 1});
  EXPECT_ERROR(graph.add_feature("gene", "x", wrong), "is f32 [2, 1]; it must be f32 [3, width]");
  const auto again = Array::from(std::vector<float>{1, 2, 3}, {3, 1});
  EXPECT_ERROR(graph.add_feature("gene", "embedding", again), "already has a feature 'embedding'");
}

TEST(HeteroGraph, GeneEdgesAreAlphabetical) {
  HeteroGraph graph = two_types();
  graph.add_edges("gene", "regulatory", "gene", edge_array({}));
  graph.add_edges("gene", "rule", "reaction", edge_array({}));
  graph.add_edges("gene", "physical", "gene", edge_array({}));
  std::vector<std::string> names;
  for (const EdgeType* edges : graph.gene_edges()) names.push_back(edges->name);
  EXPECT_THAT(names, ElementsAre("physical", "regulatory"));
}

}  // namespace
}  // namespace lacuna
