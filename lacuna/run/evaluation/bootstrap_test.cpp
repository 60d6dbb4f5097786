#include "lacuna/run/evaluation/bootstrap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lacuna/core/system/stop.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/evaluation/metrics_testing.h"

namespace lacuna {
namespace {

TEST(Bootstrap, IsThatOfSamplesWrittenOutAndSorted) {
  const uint64_t seed = test_seed();
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
    const auto got = sample_bootstrap(e.predicted, e.measured, seed, kRounds, level);
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
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  double last = 2;
  for (size_t n : {100, 1600, 25600}) {
    const Example e = random_example(seed, n);
    const auto interval = sample_bootstrap(e.predicted, e.measured, seed, 200).pearson;
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
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Example e = random_example(seed, 200);
  const auto once = sample_bootstrap(e.predicted, e.measured, 5, 100);
  const auto again = sample_bootstrap(e.predicted, e.measured, 5, 100);
  EXPECT_EQ(once.spearman.low, again.spearman.low);
  EXPECT_EQ(once.mse.high, again.mse.high);
  const auto other = sample_bootstrap(e.predicted, e.measured, 6, 100);
  EXPECT_NE(once.spearman.low, other.spearman.low);
  const auto wide = sample_bootstrap(e.predicted, e.measured, 5, 100, 0.99);
  EXPECT_LE(wide.mse.low, once.mse.low);
  EXPECT_GE(wide.mse.high, once.mse.high);
  EXPECT_TRUE(std::isnan(sample_bootstrap(e.predicted, e.measured, 5, 0).mse.low));
}

TEST(Bootstrap, LeavesOutRoundsWithoutSpread) {
  // Of two pairs, half of the draws hold one of them twice.
  const std::vector<float> predicted = {0.1f, 0.3f}, measured = {0.7f, 0.2f};
  const auto interval = sample_bootstrap(predicted, measured, 1, 100);
  EXPECT_NEAR(interval.pearson.low, -1, 1e-12);
  EXPECT_NEAR(interval.pearson.high, -1, 1e-12);
}

// Sample s is in group s % groups.
HeldOutUnits in_groups(uint64_t samples, uint64_t groups) {
  HeldOutUnits units = {.unit = "pairs", .count = groups};
  for (uint64_t s = 0; s < samples; ++s) {
    units.units.push_back(uint32_t(s % groups));
    units.ptr.push_back(s + 1);
  }
  return units;
}

// One to three of `count` units a sample, each of them once.
HeldOutUnits several_each(uint64_t seed, uint64_t samples, uint32_t count) {
  Random random(seed, 5);
  HeldOutUnits units = {.unit = "genes", .count = count};
  for (uint64_t s = 0; s < samples; ++s) {
    const std::vector<uint32_t> order = shuffled(count, random);
    for (uint64_t k = 0; k <= random.below(3); ++k) units.units.push_back(order[k]);
    units.ptr.push_back(units.units.size());
  }
  return units;
}

TEST(Bootstrap, OverUnitsIsThatOfSamplesWrittenOut) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Example e = random_example(seed, 60, 3);
  for (const HeldOutUnits& units : {in_groups(60, 12), several_each(seed, 60, 20)}) {
    constexpr int kRounds = 50;
    const auto draws = bootstrap({e.predicted}, e.measured, units, seed, kRounds)[0];
    // Units are numbered in the order in which samples have them.
    std::vector<uint32_t> order;
    for (const uint32_t unit : units.units)
      if (std::ranges::find(order, unit) == order.end()) order.push_back(unit);
    for (uint64_t round = 0; round < kRounds; ++round) {
      Random random(seed, round);
      std::vector<int> times(units.count, 0);
      for (size_t i = 0; i < order.size(); ++i) ++times[order[random.below(order.size())]];
      Example drawn;
      for (uint64_t s = 0; s < units.size(); ++s) {
        int copies = 1;
        for (const uint32_t unit : units.of(s)) copies *= times[unit];
        for (int copy = 0; copy < copies; ++copy) {
          drawn.predicted.push_back(e.predicted[s]);
          drawn.measured.push_back(e.measured[s]);
        }
      }
      expect_same(draws[round], plain_metrics(drawn));
    }
  }
}

// Predictions and measurements that share effects of groups, and have noise of their own.
Example grouped_example(uint64_t seed, uint64_t groups, uint64_t samples) {
  Random random(seed, 9);
  std::vector<double> common(groups), predicted(groups), measured(groups);
  for (auto* effects : {&common, &predicted, &measured})
    for (double& effect : *effects) effect = random.normal();
  Example e;
  for (uint64_t s = 0; s < samples; ++s) {
    const uint64_t g = s % groups;
    e.predicted.push_back(float(common[g] + predicted[g] + 0.3 * random.normal()));
    e.measured.push_back(float(common[g] + measured[g] + 0.3 * random.normal()));
  }
  return e;
}

TEST(Bootstrap, WhereGroupsWereHeldOutTheirIntervalCoversAndThatOfSamplesDoesNot) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  constexpr uint64_t kGroups = 40, kSamples = 1000;
  constexpr int kTimes = 60, kRounds = 200;
  const double truth = 1 / (2 + 0.09);  // covariance 1, both variances 2.09
  int by_groups = 0, by_samples = 0;
  double ratio = 0;
  for (uint64_t time = 0; time < kTimes; ++time) {
    const Example e = grouped_example(seed + time, kGroups, kSamples);
    const auto interval = [&](const HeldOutUnits& units) {
      return interval_of(bootstrap({e.predicted}, e.measured, units, seed, kRounds)[0]).pearson;
    };
    const Interval wide = interval(in_groups(kSamples, kGroups));
    const Interval narrow = interval(each_sample(kSamples));
    by_groups += wide.low < truth && truth < wide.high;
    by_samples += narrow.low < truth && truth < narrow.high;
    ratio += (wide.high - wide.low) / (narrow.high - narrow.low) / kTimes;
  }
  EXPECT_GE(by_groups, 44);   // of 60, 95% wanted
  EXPECT_LE(by_samples, 40);  // about a third of them
  EXPECT_GT(ratio, 2.5);
}

TEST(Bootstrap, ADrawWithoutASampleIsLeftOutAndOneUnitIsNotEnough) {
  // Two samples, each of which needs two units of four: many draws have neither.
  const std::vector<float> predicted = {1, 2, 5}, measured = {1, 3, 4};
  const HeldOutUnits units = {
      .unit = "genes", .count = 6, .ptr = {0, 2, 4, 6}, .units = {0, 1, 2, 3, 4, 5}};
  const auto draws = bootstrap({predicted}, measured, units, 1, 400)[0];
  uint64_t empty = 0;
  for (const Metrics& draw : draws) {
    EXPECT_EQ(draw.count == 0, std::isnan(draw.mse));
    empty += draw.count == 0;
  }
  EXPECT_GT(empty, 20u);
  EXPECT_LT(empty, 380u);
  EXPECT_FALSE(std::isnan(interval_of(draws).mse.low));
  const HeldOutUnits one = {.unit = "pairs", .count = 1, .ptr = {0, 1, 2, 3}, .units = {0, 0, 0}};
  EXPECT_TRUE(std::isnan(interval_of(bootstrap({predicted}, measured, one, 1, 50)[0]).mse.low));
}

TEST(Bootstrap, OnlyUnitsWithAMeasuredSampleAreDrawn) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Example e = random_example(seed, 40);
  Example more = e;
  HeldOutUnits units = in_groups(40, 8), with_more = units;
  with_more.count = 11;
  for (uint32_t unit : {8u, 9u, 10u}) {
    more.predicted.push_back(3);
    more.measured.push_back(std::numeric_limits<float>::quiet_NaN());
    with_more.units.push_back(unit);
    with_more.ptr.push_back(with_more.units.size());
  }
  const auto a = bootstrap({e.predicted}, e.measured, units, seed, 30)[0];
  const auto b = bootstrap({more.predicted}, more.measured, with_more, seed, 30)[0];
  for (int r = 0; r < 30; ++r) EXPECT_EQ(a[size_t(r)].mse, b[size_t(r)].mse);
}

TEST(Bootstrap, IsStopped) {
  const Example e = random_example(1, 50);
  const StopAfter stop(10);
  EXPECT_THROW(bootstrap({e.predicted}, e.measured, each_sample(50), 1, 100'000), Stopped);
}

TEST(Difference, IsPairedAndSaysWhatIntervalsThatOverlapCannot) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Example e = random_example(seed, 500);
  std::vector<float> better = e.predicted, worse = e.predicted;  // by a little, everywhere
  Random random(seed, 4);
  for (size_t i = 0; i < better.size(); ++i) {
    better[i] += 0.1f * (e.measured[i] - e.predicted[i]);
    worse[i] = e.predicted[i];
  }
  const auto draws = bootstrap({better, worse}, e.measured, each_sample(500), seed, 400);
  const Metrics a = compute_metrics(better, e.measured), b = compute_metrics(worse, e.measured);
  const Difference lead = difference_of(a, b, draws[0], draws[1]);
  EXPECT_EQ(lead.value.pearson, a.pearson - b.pearson);
  EXPECT_LT(interval_of(draws[0]).pearson.low, interval_of(draws[1]).pearson.high);  // overlap
  EXPECT_EQ(name(standing(lead)), "ahead");
  EXPECT_EQ(name(standing(difference_of(b, a, draws[1], draws[0]))), "behind");
  EXPECT_EQ(name(standing(difference_of(a, a, draws[0], draws[0]))), "not told apart");
  std::vector<double> differences;
  for (size_t r = 0; r < 400; ++r) differences.push_back(draws[0][r].pearson - draws[1][r].pearson);
  std::ranges::sort(differences);
  EXPECT_GE(lead.interval.pearson.low, differences[9]);
  EXPECT_LE(lead.interval.pearson.low, differences[10]);
  EXPECT_GE(lead.interval.pearson.high, differences[389]);
  EXPECT_LE(lead.interval.pearson.high, differences[390]);
}

TEST(Difference, OfAFewUnitsTellsNothingApart) {
  Difference lead = {{9, 0.5, 0.5, -1}, {{0.4, 0.6}, {0.4, 0.6}, {-2, -0.5}}, kFewestUnits};
  EXPECT_EQ(name(standing(lead)), "ahead");
  lead.units = kFewestUnits - 1;
  EXPECT_EQ(name(standing(lead)), "not told apart");
}

TEST(Difference, IsJudgedByMseWhereThereIsNoPearson) {
  const Example e = random_example(3, 400);
  double sum = 0;
  for (float value : e.measured) sum += value / 400;
  const std::vector<float> mean(400, float(sum));
  const auto draws = bootstrap({e.measured, mean}, e.measured, each_sample(400), 1, 200);
  const Metrics a = compute_metrics(e.measured, e.measured), b = compute_metrics(mean, e.measured);
  const Difference lead = difference_of(a, b, draws[0], draws[1]);
  EXPECT_TRUE(std::isnan(lead.value.pearson));
  EXPECT_LT(lead.interval.mse.high, 0);
  EXPECT_EQ(std::string(judged_by(lead).name), "mse");
  EXPECT_EQ(name(standing(lead)), "ahead");
  EXPECT_EQ(name(standing(difference_of(b, a, draws[1], draws[0]))), "behind");
  EXPECT_EQ(name(standing(difference_of(a, b, {}, {}))), "not defined");
}

}  // namespace
}  // namespace lacuna
