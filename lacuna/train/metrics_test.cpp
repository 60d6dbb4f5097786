#include "lacuna/train/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

struct Example {
  std::vector<float> predicted, measured;
};

// Correlated normal values; `steps` above 0 rounds them so that there are many ties.
Example random_example(uint64_t seed, size_t n, int steps = 0) {
  Random random(seed);
  Example example;
  const auto shape = [&](double value) {
    return float(steps > 0 ? std::round(value * steps) / steps : value);
  };
  for (size_t i = 0; i < n; ++i) {
    const double common = random.normal();
    example.predicted.push_back(shape(common + random.normal()));
    example.measured.push_back(shape(common + random.normal()));
  }
  return example;
}

// The textbook's formulas, over all pairs of values.
double plain_pearson(const std::vector<double>& a, const std::vector<double>& b) {
  double covariance = 0, variance_a = 0, variance_b = 0;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a.size(); ++j) {
      covariance += (a[i] - a[j]) * (b[i] - b[j]);
      variance_a += (a[i] - a[j]) * (a[i] - a[j]);
      variance_b += (b[i] - b[j]) * (b[i] - b[j]);
    }
  return covariance / std::sqrt(variance_a * variance_b);
}

std::vector<double> plain_ranks(const std::vector<float>& values) {
  std::vector<double> ranks;
  for (float value : values) {
    double lower = 0, equal = 0;
    for (float other : values) {
      lower += other < value;
      equal += other == value;
    }
    ranks.push_back(lower + (equal + 1) / 2);
  }
  return ranks;
}

Metrics plain_metrics(const Example& e) {
  const auto wide = [](const std::vector<float>& v) {
    return std::vector<double>(v.begin(), v.end());
  };
  double squares = 0;
  for (size_t i = 0; i < e.measured.size(); ++i)
    squares += std::pow(double(e.predicted[i]) - double(e.measured[i]), 2);
  return {e.measured.size(), plain_pearson(wide(e.predicted), wide(e.measured)),
          plain_pearson(plain_ranks(e.predicted), plain_ranks(e.measured)),
          squares / double(e.measured.size())};
}

void expect_same(const Metrics& a, const Metrics& b) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_NEAR(a.pearson, b.pearson, 1e-12);
  EXPECT_NEAR(a.spearman, b.spearman, 1e-12);
  EXPECT_NEAR(a.mse, b.mse, 1e-12 * (1 + b.mse));
}

TEST(Metrics, AreThoseOfTheTextbookWithAndWithoutTies) {
  const uint64_t seed = fresh_seed();
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
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed);
  const Example e = random_example(seed, 80);
  Example with_gaps;
  for (size_t i = 0; i < e.measured.size(); ++i) {
    with_gaps.predicted.push_back(i % 2 ? kMissing : 1e6f);  // read by nobody
    with_gaps.measured.push_back(kMissing);
    with_gaps.predicted.push_back(e.predicted[i]);
    with_gaps.measured.push_back(e.measured[i]);
  }
  expect_same(compute_metrics(with_gaps.predicted, with_gaps.measured), plain_metrics(e));
  const auto gaps = bootstrap(with_gaps.predicted, with_gaps.measured, 3, 20);
  const auto none = bootstrap(e.predicted, e.measured, 3, 20);
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
  const std::vector<float> broken = {1, kMissing, 3};
  EXPECT_TRUE(std::isnan(compute_metrics(broken, rising).mse));
  EXPECT_TRUE(std::isnan(compute_metrics(broken, rising).spearman));
  EXPECT_TRUE(std::isnan(bootstrap(broken, rising, 1, 10).spearman.low));
  EXPECT_ERROR(compute_metrics(one, rising), "1 predictions were given for 3 measurements");
}

TEST(Bootstrap, IsThatOfSamplesWrittenOutAndSorted) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed);
  const Example e = random_example(seed, 40, 3);
  constexpr int kRounds = 9;
  // With an odd number of rounds and level 0 both ends are the median: compare all order
  // statistics by asking for several levels.
  std::vector<double> pearsons, spearmans, mses;
  for (int round = 0; round < kRounds; ++round) {
    Random random(seed, uint64_t(round));
    Example drawn;
    for (size_t i = 0; i < e.measured.size(); ++i) {
      const size_t from = random.below(e.measured.size());
      drawn.predicted.push_back(e.predicted[from]);
      drawn.measured.push_back(e.measured[from]);
    }
    const Metrics metrics = plain_metrics(drawn);
    pearsons.push_back(metrics.pearson);
    spearmans.push_back(metrics.spearman);
    mses.push_back(metrics.mse);
  }
  for (auto* values : {&pearsons, &spearmans, &mses}) std::sort(values->begin(), values->end());
  for (int cut = 0; cut <= kRounds / 2; ++cut) {
    const double level = 1 - 2.0 * cut / (kRounds - 1);
    const auto got = bootstrap(e.predicted, e.measured, seed, kRounds, level);
    const size_t low = size_t(cut), high = size_t(kRounds - 1 - cut);
    EXPECT_NEAR(got.pearson.low, pearsons[low], 1e-10);
    EXPECT_NEAR(got.pearson.high, pearsons[high], 1e-10);
    EXPECT_NEAR(got.spearman.low, spearmans[low], 1e-10);
    EXPECT_NEAR(got.spearman.high, spearmans[high], 1e-10);
    EXPECT_NEAR(got.mse.low, mses[low], 1e-10);
    EXPECT_NEAR(got.mse.high, mses[high], 1e-10);
  }
}

TEST(Bootstrap, NarrowsWithMoreSamplesAndHoldsTheEstimate) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed);
  double last = 2;
  for (size_t n : {100, 1600, 25600}) {
    const Example e = random_example(seed, n);
    const auto interval = bootstrap(e.predicted, e.measured, seed, 200).pearson;
    const double estimate = compute_metrics(e.predicted, e.measured).pearson;
    EXPECT_LT(interval.low, estimate);
    EXPECT_GT(interval.high, estimate);
    EXPECT_LT(interval.high - interval.low, 0.5 * last);  // about a quarter each time
    last = interval.high - interval.low;
    // The textbook's standard error of a correlation r is (1 - r^2) / sqrt(n).
    const double expected = 2 * 1.96 * (1 - estimate * estimate) / std::sqrt(double(n));
    EXPECT_NEAR(last / expected, 1, 0.5);
  }
}

TEST(Bootstrap, SameSeedSameNumbersWiderLevelWiderInterval) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed);
  const Example e = random_example(seed, 200);
  const auto once = bootstrap(e.predicted, e.measured, 5, 100);
  const auto again = bootstrap(e.predicted, e.measured, 5, 100);
  EXPECT_EQ(once.spearman.low, again.spearman.low);
  EXPECT_EQ(once.mse.high, again.mse.high);
  const auto other = bootstrap(e.predicted, e.measured, 6, 100);
  EXPECT_NE(once.spearman.low, other.spearman.low);
  const auto wide = bootstrap(e.predicted, e.measured, 5, 100, 0.99);
  EXPECT_LE(wide.mse.low, once.mse.low);
  EXPECT_GE(wide.mse.high, once.mse.high);
  EXPECT_TRUE(std::isnan(bootstrap(e.predicted, e.measured, 5, 0).mse.low));
}

TEST(Bootstrap, LeavesOutRoundsWithoutSpread) {
  // Of two pairs, half of the draws hold one of them twice.
  const std::vector<float> predicted = {0.1f, 0.3f}, measured = {0.7f, 0.2f};
  const auto interval = bootstrap(predicted, measured, 1, 100);
  EXPECT_NEAR(interval.pearson.low, -1, 1e-12);
  EXPECT_NEAR(interval.pearson.high, -1, 1e-12);
}

}  // namespace
}  // namespace lacuna
