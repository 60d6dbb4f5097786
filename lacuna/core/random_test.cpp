#include "lacuna/core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

// Computed from the definition with another program: splits, orders and synthetic screens that were
// made with a seed stay what they are.
TEST(Random, NumbersArePinned) {
  const auto expect = [](uint64_t seed, uint64_t stream, std::vector<uint64_t> numbers) {
    Random random(seed, stream);
    for (const uint64_t number : numbers) EXPECT_EQ(random.next(), number);
  };
  expect(0, 0, {0xa706dd2f4d197e6f, 0xb382a305f4414f5e, 0x631a9154fbabf717});
  expect(1, 0, {0x5e41ab087439611e, 0xf18d6ce93d6cf1ee, 0x0b95f66d327e8d78});
  expect(1, 1, {0xcf6ee7e585219bcd, 0x26f5d5449991cfb6, 0xed5beb0bfe4f5750});
  expect(~uint64_t(0), 12345, {0x4872a4191984a024, 0xb8b974aa87b37698, 0x3d7787f111d903a2});
}

TEST(Random, SeedsAndStreamsDiffer) {
  std::set<uint64_t> first;
  for (uint64_t seed = 0; seed < 100; ++seed)
    for (uint64_t stream = 0; stream < 100; ++stream) first.insert(Random(seed, stream).next());
  EXPECT_EQ(first.size(), 10'000u);
}

// Bounds of six standard deviations: a false alarm in some hundred million runs.
TEST(Random, BelowIsEvenAndStaysBelow) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  constexpr uint64_t kDraws = 700'000;
  std::vector<uint64_t> counts(7, 0);
  for (uint64_t i = 0; i < kDraws; ++i) ++counts.at(random.below(7));
  const double expected = kDraws / 7.0;
  for (const uint64_t count : counts)
    EXPECT_NEAR(double(count), expected, 6 * std::sqrt(expected * 6 / 7));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(random.below(1), 0u);
  uint64_t largest = 0;
  const uint64_t most = ~uint64_t(0);
  for (int i = 0; i < 1000; ++i) largest = std::max(largest, random.below(most));
  EXPECT_GT(largest, most / 2);
}

TEST(Random, UniformAndNormalHaveTheirMoments) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  constexpr int kDraws = 400'000;
  double uniform_sum = 0, sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform(), x = random.normal();
    ASSERT_TRUE(u >= 0 && u < 1);
    ASSERT_TRUE(std::isfinite(x));
    uniform_sum += u;
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  const double root = std::sqrt(double(kDraws));
  EXPECT_NEAR(uniform_sum / kDraws, 0.5, 6 * std::sqrt(1.0 / 12) / root);
  EXPECT_NEAR(sum / kDraws, 0, 6 / root);
  EXPECT_NEAR(squares / kDraws, 1, 6 * std::sqrt(2.0) / root);
  EXPECT_NEAR(fourth / kDraws, 3, 6 * std::sqrt(96.0) / root);
}

}  // namespace
}  // namespace lacuna
