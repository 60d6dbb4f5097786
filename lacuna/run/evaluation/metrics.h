// How well predictions agree with measurements.
//
// Pairs whose measurement is NaN (not measured) are left out and not counted. Sums are taken in
// double. Pearson and Spearman are NaN where they are not defined: fewer than two pairs, or one
// side without spread. All is NaN where there is no pair, or where a prediction of one is NaN.
// How sure they are: bootstrap.h.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "lacuna/core/text/json.h"

namespace lacuna {

inline constexpr double kNotDefined = std::numeric_limits<double>::quiet_NaN();

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

// One metric with its interval; what is not defined is NaN.
struct Estimate {
  double value = kNotDefined, low = kNotDefined, high = kNotDefined;
};

// The three of them, for loops.
struct MetricField {
  const char* name;   // in JSON
  const char* title;  // for people
  double Metrics::*value;
  Interval MetricIntervals::*interval;
};
inline constexpr std::array<MetricField, 3> kMetrics = {
    {{"pearson", "Pearson", &Metrics::pearson, &MetricIntervals::pearson},
     {"spearman", "Spearman", &Metrics::spearman, &MetricIntervals::spearman},
     {"mse", "MSE", &Metrics::mse, &MetricIntervals::mse}}};
inline constexpr const MetricField& kPearson = kMetrics[0];
inline constexpr const MetricField& kSpearman = kMetrics[1];
inline constexpr const MetricField& kMse = kMetrics[2];

// {"count", "pearson", "spearman", "mse"}: what is not defined is null there, and NaN here.
Json to_json(const Metrics& metrics);
Metrics metrics_from_json(const Json& json);  // throws Json::exception

// Column l of [S, labels]: what a label's metrics are computed of.
std::vector<float> label_column(std::span<const float> values, size_t labels, size_t l);
// Throws Error when the two sides differ in length.
Metrics compute_metrics(std::span<const float> predicted, std::span<const float> measured);

// One side of the pairs, sorted once: what is wanted again and again of the same values with other
// weights. Floats, held as doubles: the sum of millions of equal ones is exact, so that a side
// without spread is seen as such.
class RankedValues {
 public:
  explicit RankedValues(std::vector<double> values);

  const std::vector<double>& values() const { return values_; }  // [n]
  bool has_nan() const { return has_nan_; }
  // The average rank of each value where value i is there weights[i] times: [n].
  void rank(std::span<const double> weights, std::span<double> ranks) const;

 private:
  std::vector<double> values_;
  bool has_nan_ = false;
  std::vector<uint32_t> order_;  // [n] ascending, then cut into groups of equals:
  std::vector<uint32_t> ptr_;    // [groups + 1] into order
};

// The metrics of pairs of which pair i is there weights[i] times (whole numbers from 0 on): those
// of as many copies. measured_ranks: measured.rank(weights). `count` is the sum of the weights.
Metrics weighted_metrics(const RankedValues& predicted, const RankedValues& measured,
                         std::span<const double> measured_ranks, std::span<const double> weights);

}  // namespace lacuna
