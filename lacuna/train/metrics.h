// How well predictions agree with measurements, and how sure that is.
//
// Pairs whose measurement is NaN (not measured) are left out and not counted. Sums are taken in
// double. Pearson and Spearman are NaN where they are not defined: fewer than two pairs, or one
// side without spread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

struct Metrics {
  uint64_t count = 0;  // pairs
  double pearson = 0;
  double spearman = 0;  // ties share their average rank
  double mse = 0;
};

struct Interval {
  double low = 0, high = 0;
};

struct MetricIntervals {
  Interval pearson, spearman, mse;
};

Metrics compute_metrics(std::span<const float> predicted, std::span<const float> measured);

// Percentile bootstrap over samples: `rounds` draws with replacement, the middle `level` of each
// metric. The same numbers for the same seed and any number of threads.
MetricIntervals bootstrap(std::span<const float> predicted, std::span<const float> measured,
                          uint64_t seed, int rounds = 1000, double level = 0.95);

// Ranks from 1, ties averaged.
std::vector<double> ranks(std::span<const double> values);

}  // namespace lacuna
