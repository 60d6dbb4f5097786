// How sure metrics are, and whether one predictor is ahead of another: a bootstrap over what was
// held out (screen/splits/held_out.h).
//
// A draw takes as many units as there are, with replacement. A sample then weighs the product of
// the draws of its units: how often it comes up where it has one unit, and where it has several
// (genes), as often as all of them together (the pigeonhole bootstrap of Owen, 2007, which errs on
// the wide side). Exact: a weight w is w copies of the sample, and ranks are those within the draw.
//
//   const auto draws = bootstrap({model, ridge}, measured, units, seed, 1000);
//   const MetricIntervals sure = interval_of(draws[0]);
//   const Difference lead = difference_of(metrics[0], metrics[1], draws[0], draws[1]);
//   name(standing(lead));  // "ahead"
//
// All predictors meet the same draws, which are a pure function of units, measured samples, seed
// and round, whatever the number of threads: so differences are paired, and predictors that were
// bootstrapped elsewhere on the same samples can be compared, too.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "lacuna/run/evaluation/metrics.h"
#include "lacuna/screen/splits/held_out.h"

namespace lacuna {

inline constexpr double kBootstrapLevel = 0.95;

using Draws = std::vector<Metrics>;  // [rounds]; NaN where a metric is not defined

// The measured samples, and what each of them weighs in a draw.
class DrawnWeights {
 public:
  // Units that have no measured sample are not drawn.
  DrawnWeights(std::span<const float> measured, const HeldOutUnits& units, uint64_t seed);

  const std::vector<uint64_t>& rows() const { return rows_; }  // [n] of the samples
  uint64_t units() const { return units_.count; }              // fewer than 2: no draws
  std::vector<double> draw(uint64_t round) const;              // [n]

 private:
  std::vector<uint64_t> rows_;
  HeldOutUnits units_;  // of these rows, numbered anew
  uint64_t seed_;
};

// For each predictor ([S] predictions) its metrics in every draw. Units that have no measured
// sample are not drawn; in a draw without any sample all metrics are NaN, and so is everything
// where there are fewer than two units, of which all draws are the same. Looks for a stop
// (core/system/stop.h) in every round. 1,000 rounds of 33,000 samples and seven predictors: 2
// seconds of processor time.
std::vector<Draws> bootstrap(const std::vector<std::vector<float>>& predictors,
                             std::span<const float> measured, const HeldOutUnits& units,
                             uint64_t seed, int rounds);

// How many units have a measured sample: those that are drawn.
uint64_t measured_units(std::span<const float> measured, const HeldOutUnits& units);

// The middle `level` of the values, NaN left out; linear between order statistics.
Interval middle(std::vector<double> values, double level = kBootstrapLevel);
// The same of each metric.
MetricIntervals interval_of(std::span<const Metrics> draws, double level = kBootstrapLevel);

// The first minus the second, as a whole and in the middle of the draws in which both are defined.
struct Difference {
  Metrics value = {};
  MetricIntervals interval = {};
  uint64_t units = std::numeric_limits<uint64_t>::max();  // that were drawn; not said: many

  Estimate estimate(const MetricField& field) const;
};
Metrics minus(const Metrics& a, const Metrics& b);  // count: of a
Difference difference_of(const Metrics& a, const Metrics& b, std::span<const Metrics> a_draws,
                         std::span<const Metrics> b_draws, double level = kBootstrapLevel);

// Where the first stands: ahead where the interval of the difference of Pearson lies above 0,
// behind where it lies below, not told apart where it holds 0. Where that is not defined (the mean
// has no Pearson), by MSE, of which less is better. Of fewer than kFewestUnits units nothing is
// told apart: by chance alone all of n units are on one side in one case of 2^(n - 1), and then so
// is every draw; of five that is more than 5%.
inline constexpr uint64_t kFewestUnits = 6;
enum class Standing { ahead, behind, not_told_apart, not_defined };
Standing standing(const Difference& difference);
const MetricField& judged_by(const Difference& difference);  // one of kMetrics
std::string_view name(Standing standing);                    // "not told apart"

}  // namespace lacuna
