#include "lacuna/run/compare/spread.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lacuna {
namespace {

constexpr double kMissing = kNotDefined;

TEST(SpreadOf, IsThatOfTheTextbookOverWhatIsDefined) {
  const Spread spread = spread_of({1, 2, kMissing, 6});
  EXPECT_EQ(spread.runs, 3u);
  EXPECT_EQ(spread.mean, 3);
  EXPECT_NEAR(spread.sd, std::sqrt(7.0), 1e-12);
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, 6);
  EXPECT_TRUE(std::isnan(spread_of({4}).sd));
  EXPECT_EQ(spread_of({4}).mean, 4);
  EXPECT_EQ(spread_of({0.1, 0.1, 0.1}).sd, 0);
  EXPECT_EQ(spread_of({0.1, 0.1, 0.1}).mean, 0.1);
  EXPECT_EQ(spread_of({kMissing}).runs, 0u);
  EXPECT_TRUE(std::isnan(spread_of({}).mean));
}

TEST(SpreadOf, SeedsOfOneSplitHaveStudentsInterval) {
  // Of 1 to 5: mean 3, sd 1.5811; t of four degrees of freedom is 2.776.
  const Interval five = spread_of({1, 2, 3, 4, 5}).interval;
  EXPECT_NEAR(five.low, 3 - 2.776 * std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(five.high, 3 + 2.776 * std::sqrt(0.5), 1e-12);
  EXPECT_TRUE(std::isnan(spread_of({2, 4}).interval.low));
  EXPECT_TRUE(std::isnan(spread_of({3, 3, 3, 3}).interval.low));
}

// Seeds that differ by next to nothing say nothing about other folds: their number must not narrow
// the interval.
TEST(SpreadOf, SeveralSplitsAreOneObservationEach) {
  std::vector<double> values;
  std::vector<std::string> splits;
  for (int fold = 1; fold <= 5; ++fold)
    for (int seed = -2; seed <= 2; ++seed) {
      values.push_back(fold + 0.01 * seed);
      splits.push_back("gene-" + std::to_string(fold));
    }
  const Spread spread = spread_of(values, splits);
  EXPECT_EQ(spread.runs, 25u);
  EXPECT_NEAR(spread.mean, 3, 1e-12);
  EXPECT_NEAR(spread.interval.low, 3 - 2.776 * std::sqrt(0.5), 1e-9);
  EXPECT_NEAR(spread.interval.high, 3 + 2.776 * std::sqrt(0.5), 1e-9);
  EXPECT_LT(spread_of(values).interval.high - 3, 0.5 * (spread.interval.high - 3));
  EXPECT_NEAR(spread.sd, spread_of(values).sd, 1e-12);  // over all runs, as before
  // A fold with more seeds counts no more than another.
  EXPECT_EQ(spread_of({1, 1, 1, 4}, {"a", "a", "a", "b"}).mean, 2.5);
  EXPECT_TRUE(std::isnan(spread_of({1, 1, 1, 4}, {"a", "a", "a", "b"}).interval.low));
}

}  // namespace
}  // namespace lacuna
