#include "lacuna/run/evaluation/recording_scores.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

int poisson(Random& random, double rate) {
  int count = 0;
  for (double product = random.uniform(); product > std::exp(-rate); ++count)
    product *= random.uniform();
  return count;
}

TEST(RecordingScores, AgreeWithTheirDefinitions) {
  Random random(test_seed());
  const double mean = 0.7;
  std::vector<double> rates, counts;
  UnitSums sums;
  for (int t = 0; t < 500; ++t) {
    rates.push_back(0.1 + random.uniform());
    counts.push_back(poisson(random, rates.back()));
    sums.add(rates.back(), counts.back(), mean);
  }
  double gain = 0, spikes = 0, mean_rate = 0, mean_count = 0;
  for (int t = 0; t < 500; ++t) {
    const auto log_p = [&](double rate) {
      return counts[t] * std::log(rate) - rate - std::lgamma(counts[t] + 1);
    };
    gain += (log_p(rates[t]) - log_p(mean)) / std::log(2.0);
    spikes += counts[t];
    mean_rate += rates[t] / 500;
    mean_count += counts[t] / 500;
  }
  EXPECT_NEAR(bits_per_spike(sums), gain / spikes, 1e-9);
  double rr = 0, cc = 0, rc = 0;
  for (int t = 0; t < 500; ++t) {
    rr += (rates[t] - mean_rate) * (rates[t] - mean_rate);
    cc += (counts[t] - mean_count) * (counts[t] - mean_count);
    rc += (rates[t] - mean_rate) * (counts[t] - mean_count);
  }
  EXPECT_NEAR(correlation(sums), rc / std::sqrt(rr * cc), 1e-9);
  UnitSums twice = sums;
  twice += sums;
  EXPECT_NEAR(bits_per_spike(sums * 2), bits_per_spike(twice), 1e-12);
}

TEST(RecordingScores, WhatIsNotDefinedIsNan) {
  UnitSums constant, silent;
  for (int t = 0; t < 10; ++t) {
    constant.add(0.3, t % 2, 0.3);
    silent.add(0.1 * (t + 1), 0, 0.1);
  }
  EXPECT_TRUE(std::isnan(correlation(constant)));
  EXPECT_TRUE(std::isnan(correlation(silent)));
  EXPECT_TRUE(std::isnan(bits_per_spike(silent)));
  EXPECT_EQ(bits_per_spike(constant), 0);  // the mean itself gains nothing
  EXPECT_TRUE(std::isnan(noise_ceiling(std::vector<std::vector<float>>{{1, 2, 3}})));
}

// The ceiling is what the true rates reach, by construction of the simulation.
TEST(RecordingScores, TheTrueRatesReachTheCeiling) {
  Random random(test_seed());
  const int rows = 4000, repeats = 8;
  std::vector<double> rates(rows);
  for (double& rate : rates) rate = 0.2 + 2 * random.uniform() * random.uniform();
  std::vector<std::vector<float>> responses(repeats, std::vector<float>(rows));
  UnitSums sums;
  for (auto& response : responses)
    for (int t = 0; t < rows; ++t) {
      response[t] = float(poisson(random, rates[t]));
      sums.add(rates[t], response[t], 0.7);
    }
  EXPECT_NEAR(noise_ceiling(responses), correlation(sums), 0.03);
  EXPECT_LT(noise_ceiling(responses), 0.8);
}

}  // namespace
}  // namespace lacuna
