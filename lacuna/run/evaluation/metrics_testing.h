// For tests only: examples, and metrics as the textbook has them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/run/evaluation/bootstrap.h"
#include "lacuna/run/evaluation/metrics.h"

namespace lacuna {

struct Example {
  std::vector<float> predicted, measured;
};

// Correlated normal values; `steps` above 0 rounds them so that there are many ties.
inline Example random_example(uint64_t seed, size_t n, int steps = 0) {
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
inline double plain_pearson(const std::vector<double>& a, const std::vector<double>& b) {
  double covariance = 0, variance_a = 0, variance_b = 0;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a.size(); ++j) {
      covariance += (a[i] - a[j]) * (b[i] - b[j]);
      variance_a += (a[i] - a[j]) * (a[i] - a[j]);
      variance_b += (b[i] - b[j]) * (b[i] - b[j]);
    }
  return covariance / std::sqrt(variance_a * variance_b);
}

inline std::vector<double> plain_ranks(const std::vector<float>& values) {
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

inline Metrics plain_metrics(const Example& e) {
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

inline void expect_same(const Metrics& a, const Metrics& b) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_NEAR(a.pearson, b.pearson, 1e-12);
  EXPECT_NEAR(a.spearman, b.spearman, 1e-12);
  EXPECT_NEAR(a.mse, b.mse, 1e-12 * (1 + b.mse));
}

// Over samples, of one predictor.
inline MetricIntervals sample_bootstrap(const std::vector<float>& predicted,
                                        const std::vector<float>& measured, uint64_t seed,
                                        int rounds, double level = kBootstrapLevel) {
  return interval_of(
      bootstrap({predicted}, measured, each_sample(measured.size()), seed, rounds)[0], level);
}

}  // namespace lacuna
