// How well predictions agree with measurements, and how sure that is.
//
// Pairs whose measurement is NaN (not measured) are left out and not counted. Sums are taken in
// double. Pearson and Spearman are NaN where they are not defined: fewer than two pairs, or one
// side without spread. All is NaN where there is no pair, or where a prediction of one is NaN.
// Throws Error when the two sides differ in length.
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
// metric; rounds in which a metric is not defined are left out. Exact: ranks are those within the
// draw. The same numbers for the same seed and any number of threads; predictors that are given the
// same measurements and seed meet the same draws. 1,000 rounds of 33,000 pairs: under a second on
// two cores.
MetricIntervals bootstrap(std::span<const float> predicted, std::span<const float> measured,
                          uint64_t seed, int rounds = 1000, double level = 0.95);

}  // namespace lacuna
