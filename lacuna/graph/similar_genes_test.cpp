#include "lacuna/graph/similar_genes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

struct DrawnEdges {
  std::vector<uint32_t> sources, targets;
  std::vector<float> weights;
  WeightedEdges view(uint32_t nodes) const { return {nodes, sources, targets, weights}; }
};

DrawnEdges edges_at_random(uint64_t seed, uint32_t nodes, size_t count) {
  Random random(seed);
  DrawnEdges edges;
  for (size_t e = 0; e < count; ++e) {
    edges.sources.push_back(uint32_t(random.below(nodes)));  // self loops and repeats among them
    edges.targets.push_back(uint32_t(random.below(nodes)));
    edges.weights.push_back(float(0.1 + random.uniform()));
  }
  return edges;
}

// [N, N], slowly
std::vector<std::vector<double>> likeness_of(const DrawnEdges& edges, uint32_t nodes) {
  std::vector<std::vector<double>> rows(nodes, std::vector<double>(nodes, 0)), result = rows;
  for (size_t e = 0; e < edges.sources.size(); ++e)
    rows[edges.targets[e]][edges.sources[e]] += double(edges.weights[e]);
  const auto dot = [&](uint32_t a, uint32_t b) {
    double sum = 0;
    for (uint32_t u = 0; u < nodes; ++u) sum += rows[a][u] * rows[b][u];
    return sum;
  };
  for (uint32_t a = 0; a < nodes; ++a)
    for (uint32_t b = 0; b < nodes; ++b)
      if (a != b && dot(a, b) > 0) result[a][b] = dot(a, b) * dot(a, b) / (dot(a, a) * dot(b, b));
  return result;
}

TEST(SimilarGenes, AreThoseOfALoopOverAllPairs) {
  constexpr uint32_t kNodes = 150, kCount = 4;
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const DrawnEdges edges = edges_at_random(seed, kNodes, 600);
  const auto likeness = likeness_of(edges, kNodes);
  std::map<std::pair<uint32_t, uint32_t>, double> links;  // target, source
  std::vector<double> degrees(kNodes, 0);
  for (uint32_t v = 0; v < kNodes; ++v)
    for (uint32_t x = 0; x < kNodes; ++x) {
      uint32_t better = 0;
      for (uint32_t other = 0; other < kNodes; ++other)
        better += likeness[v][other] > likeness[v][x];
      if (likeness[v][x] > 0 && better < kCount) links[{v, x}] = links[{x, v}] = likeness[v][x];
    }
  for (const auto& [ends, value] : links) degrees[ends.first] += value;

  const SimilarGenes found = similar_genes(edges.view(kNodes), kCount, {}, 2);
  ASSERT_EQ(found.sources.size(), links.size());
  EXPECT_GT(links.size(), kNodes * kCount);
  size_t e = 0;
  for (const auto& [ends, value] : links) {
    EXPECT_EQ(found.targets[e], ends.first);
    EXPECT_EQ(found.sources[e], ends.second);
    EXPECT_NEAR(double(found.weights[e]),
                value / std::sqrt(degrees[ends.first] * degrees[ends.second]), 1e-6);
    ++e;
  }
}

TEST(SimilarGenes, AreTheSameForAnyNumberOfThreads) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const DrawnEdges edges = edges_at_random(seed, 500, 3000);
  const SimilarGenes one = similar_genes(edges.view(500), 8, {}, 1);
  const SimilarGenes three = similar_genes(edges.view(500), 8, {}, 3);
  EXPECT_EQ(one.sources, three.sources);
  EXPECT_EQ(one.weights, three.weights);
}

TEST(SimilarGenes, OfEqualOnesThoseWithSmallerNumbers) {
  // Genes 1 to 4 have the one neighbour 0, and gene 5 has none.
  const std::vector<uint32_t> sources = {0, 0, 0, 0}, targets = {4, 3, 2, 1};
  const SimilarGenes found = similar_genes({6, sources, targets}, 1, {}, 1);
  EXPECT_EQ(found.targets, (std::vector<uint32_t>{1, 1, 1, 2, 3, 4}));
  EXPECT_EQ(found.sources, (std::vector<uint32_t>{2, 3, 4, 1, 1, 1}));
}

TEST(SimilarGenes, SilentOnesAreHeardByNobodyAndMakeRoom) {
  const std::vector<uint32_t> sources = {0, 0, 0, 0}, targets = {4, 3, 2, 1};
  const SimilarGenes found =
      similar_genes({6, sources, targets}, 1, {false, true, false, false, false, false}, 1);
  EXPECT_EQ(found.targets, (std::vector<uint32_t>{1, 2, 2, 3, 4}));
  EXPECT_EQ(found.sources, (std::vector<uint32_t>{2, 3, 4, 2, 2}));
  EXPECT_FLOAT_EQ(found.weights[0], 1 / std::sqrt(1.f * 2.f));  // 2 hears 3 and 4
}

TEST(SimilarGenes, OneThatOnlySilentOnesAreLikeIsHeardWithAFiniteWeight) {
  const std::vector<uint32_t> sources = {0, 0}, targets = {1, 2};
  const SimilarGenes found = similar_genes({3, sources, targets}, 1, {false, true, false}, 1);
  EXPECT_EQ(found.targets, std::vector<uint32_t>{1});
  EXPECT_EQ(found.weights, std::vector<float>{1});
}

// Genes 1 and 2 share gene 0 by links so weak that their likeness, 1e-52, is 0 as a float.
TEST(SimilarGenes, ALikenessTooSmallForAFloatIsNone) {
  const std::vector<uint32_t> sources = {0, 3, 0, 4}, targets = {1, 1, 2, 2};
  const std::vector<float> weights = {1e-13f, 1, 1e-13f, 1};
  EXPECT_TRUE(similar_genes({5, sources, targets, weights}, 2, {}, 1).sources.empty());
}

// Gene 1 has the self loop alone, gene 2 the link from gene 1: both have the neighbour 1.
TEST(SimilarGenes, ASelfLoopCounts) {
  const std::vector<uint32_t> sources = {1, 1}, targets = {1, 2};
  const SimilarGenes found = similar_genes({3, sources, targets}, 1, {}, 1);
  EXPECT_EQ(found.targets, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(found.sources, (std::vector<uint32_t>{2, 1}));
}

TEST(SimilarGenes, AnEmptyNetworkHasNone) {
  EXPECT_TRUE(similar_genes({5, {}, {}}, 3, {}, 1).sources.empty());
}

}  // namespace
}  // namespace lacuna
