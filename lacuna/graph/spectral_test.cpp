// Singular pairs against the definition: A A^T u = s^2 u, formed as a dense matrix.
#include "lacuna/graph/spectral.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using namespace lacuna::testing;

struct SpectralGraph {
  std::vector<uint32_t> sources, targets;
  std::vector<float> weights;

  SpectralGraph(uint64_t seed, uint32_t nodes, int edges) {
    Random random(seed);
    for (int e = 0; e < edges; ++e) {
      sources.push_back(uint32_t(random.below(nodes)));
      targets.push_back(uint32_t(random.below(nodes)));
      weights.push_back(float(0.1 + random.uniform()));
    }
  }
};

// A A^T [N, N]
std::vector<double> dense_square(const SpectralGraph& g, uint32_t nodes) {
  std::vector<double> leaving(nodes, 0), arriving(nodes, 0), a(nodes * nodes, 0);
  for (size_t e = 0; e < g.weights.size(); ++e) {
    leaving[g.sources[e]] += double(g.weights[e]);
    arriving[g.targets[e]] += double(g.weights[e]);
  }
  for (size_t e = 0; e < g.weights.size(); ++e)
    a[g.targets[e] * nodes + g.sources[e]] +=
        double(g.weights[e]) / std::sqrt(leaving[g.sources[e]] * arriving[g.targets[e]]);
  std::vector<double> square(nodes * nodes, 0);
  for (uint32_t i = 0; i < nodes; ++i)
    for (uint32_t j = 0; j < nodes; ++j)
      for (uint32_t k = 0; k < nodes; ++k)
        square[i * nodes + j] += a[i * nodes + k] * a[j * nodes + k];
  return square;
}

TEST(Spectral, EveryPairIsOneOfTheMatrixAndAllAreThere) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  constexpr uint32_t kNodes = 40;
  const SpectralGraph g(seed, kNodes, 150);
  const SingularPairs all =
      largest_singular_pairs({kNodes, g.sources, g.targets, g.weights}, kNodes);
  const SingularPairs some = largest_singular_pairs({kNodes, g.sources, g.targets, g.weights}, 5);
  const auto square = dense_square(g, kNodes);
  double trace = 0, sum = 0;
  for (uint32_t i = 0; i < kNodes; ++i) trace += square[i * kNodes + i];
  for (uint32_t k = 0; k < kNodes; ++k) {
    const double* u = all.vectors.data() + k * kNodes;
    sum += all.values[k] * all.values[k];
    if (k > 0) {
      EXPECT_LE(all.values[k], all.values[k - 1]);
    }
    double largest = 0;
    for (uint32_t i = 0; i < kNodes; ++i) {
      double product = 0;
      for (uint32_t j = 0; j < kNodes; ++j) product += square[i * kNodes + j] * u[j];
      EXPECT_NEAR(product, all.values[k] * all.values[k] * u[i], 1e-8);
      if (std::abs(u[i]) > std::abs(largest) * (1 + 1e-9)) largest = u[i];
    }
    EXPECT_GE(largest, 0);
    if (k < 5) {
      EXPECT_NEAR(some.values[k], all.values[k], 1e-8);
    }
  }
  EXPECT_NEAR(sum, trace, 1e-7);  // none is missing, none is there twice
}

TEST(Spectral, RanksBelowTheCountAreZerosAndMistakesAreNamed) {
  const std::vector<uint32_t> sources = {0, 1}, targets = {1, 0};
  const SingularPairs pairs = largest_singular_pairs({5, sources, targets}, 4);
  EXPECT_NEAR(pairs.values[0], 1, 1e-12);
  EXPECT_NEAR(pairs.values[1], 1, 1e-12);
  EXPECT_EQ(pairs.values[2], 0);
  EXPECT_EQ(pairs.vectors.size(), 20u);
  const SingularPairs none = largest_singular_pairs({3, {}, {}}, 2);
  EXPECT_EQ(none.values, std::vector<double>(2, 0));
  EXPECT_THROW(largest_singular_pairs({5, sources, targets}, 6), Error);
  const std::vector<float> wrong = {1, NAN};
  EXPECT_THROW(largest_singular_pairs({5, sources, targets, wrong}, 1), Error);
}

}  // namespace
}  // namespace lacuna
