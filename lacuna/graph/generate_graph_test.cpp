#include "lacuna/graph/generate_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "lacuna/core/testing.h"
#include "lacuna/graph/csr.h"
#include "lacuna/graph/removal.h"
#include "lacuna/graph/testing.h"

namespace lacuna {
namespace {

using testing::Edge;
using testing::pairs_of;
using testing::same_edges;

// Degrees without self loops (every gene has one), largest first.
std::vector<uint32_t> degrees(const Csr& csr) {
  std::vector<uint32_t> all;
  for (uint32_t row = 0; row < csr.rows(); ++row) all.push_back(csr.degree(row) - 1);
  std::sort(all.rbegin(), all.rend());
  return all;
}

// One graph per size for all tests: the large ones take a moment.
const HeteroGraph& graph_of(GraphSize size, uint64_t seed) {
  static std::map<GraphSize, HeteroGraph> made;
  if (!made.contains(size)) made.emplace(size, generate_graph(size, seed));
  return made.at(size);
}

class GeneratedGraph : public ::testing::TestWithParam<GraphSize> {
 protected:
  static inline const uint64_t seed_ = test_seed();
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  const GraphCounts counts_ = size_of(GetParam());
  const HeteroGraph& graph_ = graph_of(GetParam(), seed_);
};

void expect_shape(const EdgeType& edges, const GeneEdgeCounts& counts, uint32_t genes) {
  EXPECT_EQ(edges.size(), counts.edges);
  std::vector<Edge> pairs = pairs_of(edges);
  const auto is_loop = [](const Edge& edge) { return edge.first == edge.second; };
  EXPECT_EQ(std::count_if(pairs.begin(), pairs.end(), is_loop), genes);
  EXPECT_TRUE(std::all_of(pairs.end() - genes, pairs.end(), is_loop));
  std::sort(pairs.begin(), pairs.end());
  EXPECT_EQ(std::adjacent_find(pairs.begin(), pairs.end()), pairs.end()) << "a repeated edge";
  std::vector<Edge> reversed;
  for (const Edge& edge : pairs) reversed.emplace_back(edge.second, edge.first);
  std::sort(reversed.begin(), reversed.end());
  std::vector<Edge> one_way;
  std::set_difference(pairs.begin(), pairs.end(), reversed.begin(), reversed.end(),
                      std::back_inserter(one_way));
  if (counts.directed)
    EXPECT_GT(one_way.size(), pairs.size() / 4);
  else
    EXPECT_EQ(one_way.size(), (counts.edges - genes) % 2);
}

TEST_P(GeneratedGraph, HasTheStatedShape) {
  EXPECT_EQ(graph_.genes().size(), counts_.genes);
  ASSERT_EQ(graph_.gene_edges().size(), counts_.types.size());
  for (const GeneEdgeCounts& type : counts_.types) {
    SCOPED_TRACE(type.name);
    expect_shape(graph_.edges("gene." + type.name + ".gene"), type, counts_.genes);
  }
}

// Each type in turn as the even one: all degrees alike, and the other types as they were.
TEST_P(GeneratedGraph, AnEvenTypeHasTheSameDegreesForAll) {
  for (const GeneEdgeCounts& type : counts_.types) {
    if (GetParam() == GraphSize::human && type.name != "physical") continue;  // takes long
    SCOPED_TRACE(type.name);
    const HeteroGraph graph = generate_graph(GetParam(), seed_, type.name);
    const EdgeType& edges = graph.edges("gene." + type.name + ".gene");
    expect_shape(edges, type, counts_.genes);
    const bool has_single = !type.directed && (type.edges - counts_.genes) % 2 == 1;
    for (const Csr& csr : {csr_by_source(graph, edges), csr_by_target(graph, edges)}) {
      const auto all = degrees(csr);
      EXPECT_LE(all.front() - all.back(), has_single ? 2u : 1u);
    }
    for (size_t t = 0; t < graph.edge_types().size(); ++t) {
      const EdgeType &now = graph.edge_types()[t], &before = graph_.edge_types()[t];
      EXPECT_EQ(std::ranges::equal(now.edges.bytes(), before.edges.bytes()), &now != &edges);
    }
  }
}

// Partners are random: two genes share as many neighbours as expected by chance.
TEST(GenerateGraph, AnEvenTypeLinksAtRandom) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const HeteroGraph graph = generate_graph(GraphSize::small, seed, "physical");
  const Csr csr = csr_by_source(graph, graph.edges("gene.physical.gene"));
  std::map<Edge, uint32_t> shared;  // by pair of genes, loops not counted
  for (uint32_t gene = 0; gene < csr.rows(); ++gene)
    for (const uint32_t a : csr.neighbours(gene))
      for (const uint32_t b : csr.neighbours(gene))
        if (a < b && a != gene && b != gene) ++shared[{a, b}];
  // 1,000 genes of 11 neighbours: 55,000 shared neighbours over 499,500 pairs. Chance gives
  // exp(-0.11) = 0.896 of the pairs none.
  EXPECT_NEAR(double(shared.size()) / 499'500, 1 - 0.896, 0.005);
}

// Counts and shape are those without modules; who is linked to whom is not, but for the even type.
TEST(GenerateGraph, GenesOfAModuleAreLinked) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const uint32_t modules = 10;
  for (const GraphSize size : {GraphSize::mini, GraphSize::small}) {
    const HeteroGraph graph = generate_graph(size, seed, "physical", modules);
    for (const GeneEdgeCounts& type : size_of(size).types) {
      SCOPED_TRACE(type.name);
      const EdgeType& edges = graph.edges("gene." + type.name + ".gene");
      expect_shape(edges, type, graph.genes().size());
      double links = 0, within = 0;  // loops not counted
      for (const auto& [a, b] : pairs_of(edges)) {
        links += a != b;
        within += a != b && a % modules == b % modules;
      }
      if (type.name == "physical")
        EXPECT_NEAR(within / links, 0.1, 0.08);
      else
        EXPECT_GT(within / links, 0.4);
    }
  }
  // Of many modules a partner is drawn among the genes of its own (heavy_tail.h).
  const uint32_t many = 100;
  const HeteroGraph graph = generate_graph(GraphSize::small, seed, "physical", many);
  for (const GeneEdgeCounts& type : size_of(GraphSize::small).types) {
    const EdgeType& edges = graph.edges("gene." + type.name + ".gene");
    expect_shape(edges, type, graph.genes().size());
    uint64_t within = 0;
    for (const auto& [a, b] : pairs_of(edges)) within += a != b && a % many == b % many;
    if (type.name != "physical") {
      EXPECT_GT(double(within), 0.1 * double(type.edges)) << type.name;
    }
  }
  EXPECT_ERROR(generate_graph(GraphSize::mini, seed, "physical", 16),
               "16 modules are too many at size mini; give at most 15");
}

TEST_P(GeneratedGraph, DegreesHaveHeavyTailsAndTheStatedHubs) {
  for (const GeneEdgeCounts& type : counts_.types) {
    SCOPED_TRACE(type.name);
    const EdgeType& edges = graph_.edges("gene." + type.name + ".gene");
    const auto out = degrees(csr_by_source(graph_, edges)),
               in = degrees(csr_by_target(graph_, edges));
    for (const uint32_t hub : type.hubs) {
      EXPECT_TRUE(std::count(out.begin(), out.end(), hub)) << hub;
      if (!type.directed) {
        EXPECT_TRUE(std::count(in.begin(), in.end(), hub)) << hub;
      }
    }
    if (counts_.genes < 1000) continue;  // too few for a tail
    const double mean = double(type.edges) / counts_.genes - 1;
    EXPECT_GT(out[0], 6 * mean);
    EXPECT_GT(in[0], 6 * mean);
    EXPECT_LT(in[in.size() / 2], mean);  // most genes have less than the mean
  }
}

TEST_P(GeneratedGraph, MetabolismHasTheStatedShape) {
  if (counts_.reactions == 0) {
    EXPECT_FALSE(graph_.find_nodes("reaction") || graph_.find_nodes("metabolite"));
    EXPECT_EQ(graph_.edge_types().size(), counts_.types.size());
    return;
  }
  EXPECT_EQ(graph_.nodes("reaction").size(), counts_.reactions);
  EXPECT_EQ(graph_.nodes("metabolite").size(), counts_.metabolites);
  const EdgeType& rule = graph_.edges("gene.rule.reaction");
  const EdgeType& stoichiometry = graph_.edges("reaction.stoichiometry.metabolite");
  EXPECT_EQ(rule.size(), counts_.gene_reaction_edges);
  EXPECT_EQ(stoichiometry.size(), counts_.reaction_metabolite_edges);
  for (const EdgeType* edges : {&rule, &stoichiometry}) {
    const auto pairs = pairs_of(*edges);
    EXPECT_EQ(std::set<Edge>(pairs.begin(), pairs.end()).size(), pairs.size());
  }
  const Csr genes = csr_by_target(graph_, rule);
  uint32_t without = 0, complexes = 0;
  for (uint32_t r = 0; r < genes.rows(); ++r) {
    without += genes.degree(r) == 0;
    complexes += genes.degree(r) > 1;
  }
  EXPECT_EQ(without, counts_.reactions - counts_.reactions * 55 / 100);
  EXPECT_GT(complexes, 0u);
  const auto coefficient = stoichiometry.values.at(0).values.as<float>();
  EXPECT_EQ(stoichiometry.values[0].name, "coefficient");
  const Csr metabolites = csr_by_source(graph_, stoichiometry);
  for (uint32_t r = 0; r < metabolites.rows(); ++r) {
    int reactants = 0, products = 0;
    for (uint32_t place = metabolites.ptr[r]; place < metabolites.ptr[r + 1]; ++place)
      ++(coefficient[metabolites.edge[place]] < 0 ? reactants : products);
    ASSERT_TRUE(reactants > 0 && products > 0) << "reaction " << r;
  }
  EXPECT_TRUE(std::none_of(coefficient.begin(), coefficient.end(), [](float c) { return c == 0; }));
}

TEST_P(GeneratedGraph, RemovalRulesCoverIt) {
  EXPECT_EQ(RemovalRules(graph_).gene_count(), counts_.genes);
}

INSTANTIATE_TEST_SUITE_P(Sizes, GeneratedGraph,
                         ::testing::Values(GraphSize::tiny, GraphSize::mini, GraphSize::small,
                                           GraphSize::yeast, GraphSize::human),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(GenerateGraph, SameSeedSameBytes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const HeteroGraph graph = generate_graph(GraphSize::small, seed);
  EXPECT_TRUE(same_edges(graph, generate_graph(GraphSize::small, seed)));
  EXPECT_FALSE(same_edges(graph, generate_graph(GraphSize::small, seed + 1)));
  const HeteroGraph even = generate_graph(GraphSize::small, seed, "physical");
  EXPECT_TRUE(same_edges(even, generate_graph(GraphSize::small, seed, "physical")));
}

TEST(GenerateGraph, SizesAreThoseStated) {
  uint64_t yeast = 0, human = 0;
  for (const auto& type : size_of(GraphSize::yeast).types) yeast += type.edges;
  for (const auto& type : size_of(GraphSize::human).types) human += type.edges;
  EXPECT_EQ(yeast, 2'495'908u);
  EXPECT_EQ(human, 12'200'000u);
  EXPECT_EQ(size_of(GraphSize::yeast).genes, 6607u);
  EXPECT_EQ(graph_size_from_name("human"), GraphSize::human);
  EXPECT_THROW(graph_size_from_name("huge"), Error);
}

}  // namespace
}  // namespace lacuna
