#include "lacuna/graph/heavy_tail.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

// As often as draws from all nodes that are passed over until one is of the module.
TEST(HeavyTail, ADrawWithinAModuleKeepsTheProportions) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  constexpr uint32_t kNodes = 1000, kModules = HeavyTail::kManyModules, kModule = 5;
  constexpr int kDraws = 40'000;
  Random random(seed);
  std::vector<uint32_t> nodes = shuffled(kNodes, random);
  const HeavyTail listed(nodes, kModules), plain(nodes);
  std::vector<int> found(kNodes, 0), expected(kNodes, 0);
  for (int draw = 0; draw < kDraws; ++draw) {
    const uint32_t node = listed.draw_within(kModule, random);
    ASSERT_EQ(node % kModules, kModule);
    ++found[node];
    uint32_t other = plain.draw(random);
    while (other % kModules != kModule) other = plain.draw(random);
    ++expected[other];
  }
  for (uint32_t node = kModule; node < kNodes; node += kModules) {
    EXPECT_GT(found[node], 0) << node;
    EXPECT_NEAR(found[node], expected[node], 6 * std::sqrt(double(found[node] + expected[node])))
        << node;
  }
}

// Graphs of few modules have the bytes that they have always had.
TEST(HeavyTail, OfFewModulesItDrawsFromAllNodes) {
  std::vector<uint32_t> nodes(50);
  std::iota(nodes.begin(), nodes.end(), 0);
  const HeavyTail tail(nodes, 4), plain(nodes);
  Random one(3), two(3);
  for (int draw = 0; draw < 100; ++draw) {
    uint32_t expected = plain.draw(two);
    while (expected % 4 != 1) expected = plain.draw(two);
    ASSERT_EQ(tail.draw_within(1, one), expected);
  }
}

}  // namespace
}  // namespace lacuna
