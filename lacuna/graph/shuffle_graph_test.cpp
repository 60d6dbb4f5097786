#include "lacuna/graph/shuffle_graph.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "lacuna/core/hash.h"
#include "lacuna/core/random.h"
#include "lacuna/core/system/memory.h"
#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/graph/testing.h"

namespace lacuna {
namespace {

using testing::Edge;
using testing::pairs_of;
using testing::same_edges;
using Counts = std::map<Edge, int>;

Counts count(const std::vector<Edge>& pairs) {
  Counts counts;
  for (const Edge& pair : pairs) ++counts[pair];
  return counts;
}

// {in, out} of every gene
std::vector<Edge> degrees(const std::vector<Edge>& pairs, uint32_t genes) {
  std::vector<Edge> found(genes);
  for (const auto& [source, target] : pairs) {
    ++found[source].second;
    ++found[target].first;
  }
  return found;
}

// How many edges have which copies, and how many stand opposite: {copies, copies of the reverse}.
std::map<Edge, int> kinds(const Counts& counts) {
  std::map<Edge, int> found;
  for (const auto& [edge, copies] : counts) {
    const auto reverse = counts.find({edge.second, edge.first});
    ++found[{copies, reverse == counts.end() ? 0 : reverse->second}];
  }
  return found;
}

std::vector<Edge> self_loops(const std::vector<Edge>& pairs) {
  std::vector<Edge> loops;
  for (const Edge& pair : pairs)
    if (pair.first == pair.second) loops.push_back(pair);
  return loops;
}

bool same_bytes(const Array& a, const Array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::ranges::equal(a.bytes(), b.bytes());
}

// Of the edges between different genes, the share that was there before.
double kept_share(const std::vector<Edge>& before, const std::vector<Edge>& after) {
  const Counts there = count(before);
  double kept = 0, all = 0;
  for (const Edge& pair : after) {
    if (pair.first == pair.second) continue;
    ++all;
    kept += there.contains(pair);
  }
  return kept / all;
}

constexpr uint32_t kSparse = 20000;  // genes, few of them linked: shuffled with a PairTable

// One-way edges, two-way links, edges stored up to three times, self loops; each with a value.
HeteroGraph mixed_graph(uint64_t seed, uint32_t genes = 300) {
  Random random(seed);
  std::vector<std::string> names;
  for (uint32_t g = 0; g < genes; ++g) names.push_back("g" + std::to_string(g));
  std::vector<uint32_t> sources, targets;
  const auto add = [&](uint32_t source, uint32_t target) {
    sources.push_back(source);
    targets.push_back(target);
  };
  for (int i = 0; i < 1200; ++i) {
    const uint32_t a = uint32_t(random.below(genes)), b = uint32_t(random.below(genes));
    for (uint64_t copies = 1 + random.below(8) / 6; copies > 0; --copies) {
      add(a, b);
      if (i % 2 == 0) add(b, a);
    }
  }
  std::vector<float> values;
  for (size_t e = 0; e < sources.size(); ++e) values.push_back(float(random.normal()));
  const uint64_t edge_count = sources.size();
  sources.insert(sources.end(), targets.begin(), targets.end());
  HeteroGraph graph;
  graph.add_nodes("gene", Names(names));
  graph.add_feature("gene", "width", Array::from(std::vector<float>(genes, 2.f), {genes, 1}));
  graph.add_edges("gene", "mixed", "gene", Array::from(sources, {2, edge_count}),
                  {{"weight", Array::from(values)}});
  return graph;
}

void expect_only_partners_differ(const EdgeType& before, const EdgeType& after, uint32_t genes) {
  SCOPED_TRACE(before.key());
  const auto old_pairs = pairs_of(before), new_pairs = pairs_of(after);
  EXPECT_EQ(degrees(old_pairs, genes), degrees(new_pairs, genes));
  EXPECT_EQ(self_loops(old_pairs), self_loops(new_pairs));
  EXPECT_EQ(kinds(count(old_pairs)), kinds(count(new_pairs)));
}

TEST(ShuffleGraph, KeepsDegreesLoopsDirectionsAndRepeats) {
  const uint64_t seed = test_seed();
  for (const uint32_t genes : {300u, kSparse}) {
    SCOPED_TRACE(fmt::format("seed {}, {} genes", seed, genes));
    const HeteroGraph graph = mixed_graph(seed, genes), shuffled = shuffle_graph(graph, seed);
    const EdgeType &before = graph.edge_types()[0], &after = shuffled.edge_types()[0];
    ASSERT_GT(kinds(count(pairs_of(before))).size(), genes == 300 ? 4u : 3u)
        << "all kinds of edges";
    expect_only_partners_differ(before, after, graph.genes().size());
    EXPECT_LT(kept_share(pairs_of(before), pairs_of(after)), 0.15);
    EXPECT_EQ(before.edges.dtype(), after.edges.dtype());
  }
}

TEST(ShuffleGraph, EdgesKeepPlaceAndValuesOneWayOnesTheirSource) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const HeteroGraph graph = mixed_graph(seed), shuffled = shuffle_graph(graph, seed);
  const EdgeType &before = graph.edge_types()[0], &after = shuffled.edge_types()[0];
  EXPECT_TRUE(same_bytes(before.values.at(0).values, after.values.at(0).values));
  const auto old_pairs = pairs_of(before), new_pairs = pairs_of(after);
  const Counts old_counts = count(old_pairs), new_counts = count(new_pairs);
  for (size_t e = 0; e < old_pairs.size(); ++e) {
    const Edge& pair = old_pairs[e];
    if (!old_counts.contains({pair.second, pair.first})) {
      EXPECT_EQ(pair.first, new_pairs[e].first) << "edge " << e;
    }
    EXPECT_EQ(old_counts.at(pair), new_counts.at(new_pairs[e])) << "edge " << e;
  }
}

TEST(ShuffleGraph, GeneratedGraphWithMetabolism) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const HeteroGraph graph = generate_graph(GraphSize::small, seed);
  const HeteroGraph shuffled = shuffle_graph(graph, seed);
  ASSERT_EQ(graph.edge_types().size(), shuffled.edge_types().size());
  for (size_t t = 0; t < graph.edge_types().size(); ++t) {
    const EdgeType &before = graph.edge_types()[t], &after = shuffled.edge_types()[t];
    EXPECT_EQ(before.key(), after.key());
    if (before.source == "gene" && before.target == "gene") {
      expect_only_partners_differ(before, after, graph.genes().size());
      EXPECT_LT(kept_share(pairs_of(before), pairs_of(after)), 0.5) << before.key();
    } else {
      EXPECT_TRUE(same_bytes(before.edges, after.edges)) << before.key();
    }
  }
  for (size_t n = 0; n < graph.node_types().size(); ++n)
    EXPECT_EQ(graph.node_types()[n].names.all(), shuffled.node_types()[n].names.all());
}

TEST(ShuffleGraph, FeaturesComeAlong) {
  const HeteroGraph graph = mixed_graph(1);
  const HeteroGraph shuffled = shuffle_graph(graph, 1);
  ASSERT_EQ(shuffled.genes().features.size(), 1u);
  EXPECT_TRUE(same_bytes(graph.genes().features[0].values, shuffled.genes().features[0].values));
}

TEST(ShuffleGraph, SameSeedSameBytesForAnyThreads) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const HeteroGraph graph = generate_graph(GraphSize::small, seed);
  const HeteroGraph shuffled = shuffle_graph(graph, seed, 1);
  EXPECT_TRUE(same_edges(shuffled, shuffle_graph(graph, seed, 3)));
  EXPECT_FALSE(same_edges(shuffled, shuffle_graph(graph, seed + 1, 1)));
}

uint64_t hash_of_edges(const HeteroGraph& graph) {
  Hasher hasher;
  for (const EdgeType& type : graph.edge_types()) hasher.add(type.edges.bytes());
  return hasher.value();
}

// Checkpoints of runs on shuffled graphs are bound to these bytes: the result must stay what
// versions before the PairTable gave (until 15 November 2026).
TEST(ShuffleGraph, GivesTheBytesOfOlderVersions) {
  const auto shuffled = [](const HeteroGraph& graph, uint64_t seed) {
    return hex(hash_of_edges(shuffle_graph(graph, seed)));
  };
  EXPECT_EQ(shuffled(mixed_graph(1), 1), "e544c1944e9e6074");
  EXPECT_EQ(shuffled(mixed_graph(2), 2), "92270c9958d33042");
  EXPECT_EQ(shuffled(mixed_graph(1, kSparse), 1), "65e5fd514a1549a2");
  EXPECT_EQ(shuffled(mixed_graph(2, kSparse), 2), "e5acf0363d1dc389");
  EXPECT_EQ(shuffled(mixed_graph(3, kSparse), 3), "f20ecbcccc5fd83d");
  EXPECT_EQ(shuffled(generate_graph(GraphSize::tiny, 1), 1), "b8990c2fb5435f20");
  EXPECT_EQ(shuffled(generate_graph(GraphSize::small, 2), 2), "bdc4352ed41f2538");
}

// A bit for every pair of so many genes would be 625 MB.
TEST(ShuffleGraph, MemoryIsLinearInTheEdges) {
  const HeteroGraph graph = mixed_graph(1, 100'000);
  reset_peak_memory();
  const uint64_t before = used_memory();
  shuffle_graph(graph, 1, 1);
  EXPECT_LT(peak_memory(), before + 60'000'000);
}

// Every graph with these degrees must be as likely as any other: a ring of four can be wired in
// three ways.
TEST(ShuffleGraph, ReachesEveryWiringEquallyOften) {
  HeteroGraph ring;
  ring.add_nodes("gene", Names({"a", "b", "c", "d"}));
  const std::vector<uint32_t> edges = {0, 1, 2, 3, 1, 2, 3, 0, 1, 2, 3, 0, 0, 1, 2, 3};
  ring.add_edges("gene", "ring", "gene", Array::from(edges, {2, 8}));
  std::map<Counts, int> wirings;
  for (uint64_t seed = 0; seed < 3000; ++seed)
    ++wirings[count(pairs_of(shuffle_graph(ring, seed, 1).edge_types()[0]))];
  ASSERT_EQ(wirings.size(), 3u);
  for (const auto& [wiring, times] : wirings) EXPECT_NEAR(times, 1000, 150);
}

TEST(ShuffleGraph, WhatCannotBeSwappedStays) {
  HeteroGraph graph;  // a triangle has one wiring; an empty type has none
  graph.add_nodes("gene", Names({"a", "b", "c"}));
  const std::vector<uint32_t> edges = {0, 1, 2, 1, 2, 0, 1, 2, 0, 0, 1, 2};
  graph.add_edges("gene", "triangle", "gene", Array::from(edges, {2, 6}));
  graph.add_edges("gene", "empty", "gene", Array::from(std::vector<uint32_t>(), {2, 0}));
  const HeteroGraph shuffled = shuffle_graph(graph, 7);
  EXPECT_EQ(count(pairs_of(graph.edge_types()[0])), count(pairs_of(shuffled.edge_types()[0])));
  EXPECT_EQ(shuffled.edge_types()[1].size(), 0u);
}

}  // namespace
}  // namespace lacuna
