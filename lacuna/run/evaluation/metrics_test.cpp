#include "lacuna/run/evaluation/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/evaluation/metrics_testing.h"

namespace lacuna {
namespace {

constexpr float kNotMeasured = std::numeric_limits<float>::quiet_NaN();

TEST(Metrics, AreThoseOfTheTextbookWithAndWithoutTies) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (int steps : {0, 1, 4}) {
    const Example e = random_example(seed, 300, steps);
    expect_same(compute_metrics(e.predicted, e.measured), plain_metrics(e));
  }
}

TEST(Metrics, HandCheckedWithTies) {
  // Ranks 1, 2.5, 2.5, 4 and 2, 1, 3.5, 3.5: products sum to 2.25, squares to 4.5 and 4.5.
  const std::vector<float> predicted = {1, 2, 2, 5}, measured = {0, -1, 7, 7};
  EXPECT_NEAR(compute_metrics(predicted, measured).spearman, 2.25 / 4.5, 1e-15);
  EXPECT_EQ(compute_metrics(predicted, measured).mse, (1 + 9 + 25 + 4) / 4.0);
}

TEST(Metrics, WhatWasNotMeasuredIsLeftOut) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Example e = random_example(seed, 80);
  Example with_gaps;
  for (size_t i = 0; i < e.measured.size(); ++i) {
    with_gaps.predicted.push_back(i % 2 ? kNotMeasured : 1e6f);  // read by nobody
    with_gaps.measured.push_back(kNotMeasured);
    with_gaps.predicted.push_back(e.predicted[i]);
    with_gaps.measured.push_back(e.measured[i]);
  }
  expect_same(compute_metrics(with_gaps.predicted, with_gaps.measured), plain_metrics(e));
  const auto gaps = sample_bootstrap(with_gaps.predicted, with_gaps.measured, 3, 20);
  const auto none = sample_bootstrap(e.predicted, e.measured, 3, 20);
  EXPECT_EQ(gaps.pearson.low, none.pearson.low);
  EXPECT_EQ(gaps.mse.high, none.mse.high);
}

TEST(Metrics, AreNanWhereTheyAreNotDefined) {
  const std::vector<float> rising = {1, 2, 3}, constant = {0.1f, 0.1f, 0.1f};
  EXPECT_TRUE(std::isnan(compute_metrics(constant, rising).pearson));
  EXPECT_TRUE(std::isnan(compute_metrics(rising, constant).spearman));
  EXPECT_FALSE(std::isnan(compute_metrics(constant, rising).mse));
  // Also where a mean of many equal floats could come out a little beside them.
  const std::vector<float> many(100'003, 0.1f);
  EXPECT_TRUE(std::isnan(compute_metrics(many, many).pearson));
  const std::vector<float> one = {2};
  EXPECT_TRUE(std::isnan(compute_metrics(one, one).pearson));
  EXPECT_EQ(compute_metrics(one, one).mse, 0);
  EXPECT_EQ(compute_metrics({}, {}).count, 0u);
  EXPECT_TRUE(std::isnan(compute_metrics({}, {}).mse));
  const std::vector<float> broken = {1, kNotMeasured, 3};
  EXPECT_TRUE(std::isnan(compute_metrics(broken, rising).mse));
  EXPECT_TRUE(std::isnan(compute_metrics(broken, rising).spearman));
  EXPECT_TRUE(std::isnan(sample_bootstrap(broken, rising, 1, 10).spearman.low));
  EXPECT_ERROR(compute_metrics(one, rising), "1 predictions were given for 3 measurements");
}

TEST(Metrics, AWeightIsAsManyCopies) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed, 3);
  for (int steps : {0, 1, 4}) {
    const Example e = random_example(seed, 150, steps);
    std::vector<double> weights;
    Example copies;
    for (size_t i = 0; i < e.measured.size(); ++i) {
      weights.push_back(double(random.below(4)));
      for (double copy = 0; copy < weights[i]; ++copy) {
        copies.predicted.push_back(e.predicted[i]);
        copies.measured.push_back(e.measured[i]);
      }
    }
    const RankedValues predicted({e.predicted.begin(), e.predicted.end()});
    const RankedValues measured({e.measured.begin(), e.measured.end()});
    std::vector<double> ranks(weights.size());
    measured.rank(weights, ranks);
    expect_same(weighted_metrics(predicted, measured, ranks, weights), plain_metrics(copies));
    std::ranges::fill(weights, 0.0);
    measured.rank(weights, ranks);
    const Metrics none = weighted_metrics(predicted, measured, ranks, weights);
    EXPECT_EQ(none.count, 0u);
    EXPECT_TRUE(std::isnan(none.mse) && std::isnan(none.pearson) && std::isnan(none.spearman));
  }
}

}  // namespace
}  // namespace lacuna
