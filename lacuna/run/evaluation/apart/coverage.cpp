#include "lacuna/run/evaluation/apart/coverage.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

std::vector<uint64_t> measured_samples(const SpreadPredictions& part) {
  LACUNA_ASSERT(part.predicted.size() == part.measured.size());
  LACUNA_ASSERT(part.spread.size() == part.measured.size());
  std::vector<uint64_t> samples;
  for (uint64_t s = 0; s < part.measured.size(); ++s)
    if (!std::isnan(part.measured[s])) samples.push_back(s);
  return samples;
}

double absolute_error(const SpreadPredictions& part, uint64_t s) {
  return std::abs(double(part.predicted[s]) - double(part.measured[s]));
}

// The smallest q that covers the level; infinite where there are too few to tell.
double quantile_above(const std::vector<double>& sorted, double level) {
  const auto place = size_t(std::ceil(level * double(sorted.size() + 1)));
  return place > sorted.size() ? std::numeric_limits<double>::infinity() : sorted[place - 1];
}

}  // namespace

Uncertainty judge_spread(const SpreadPredictions& validation, const SpreadPredictions& judged) {
  const auto chosen = measured_samples(validation), here = measured_samples(judged);
  Uncertainty result;
  for (const double level : kCoverageLevels) result.coverages.push_back({.level = level});
  if (chosen.empty() || here.empty()) return result;
  double floor = 0;
  for (const uint64_t s : chosen) floor += double(validation.spread[s]) / double(chosen.size());
  if (!(floor > 0)) floor = 1;
  std::vector<double> scores;
  for (const uint64_t s : chosen)
    scores.push_back(absolute_error(validation, s) / (double(validation.spread[s]) + floor));
  std::sort(scores.begin(), scores.end());
  for (Coverage& coverage : result.coverages) {
    const double q = quantile_above(scores, coverage.level);
    coverage.covered = coverage.width = 0;
    for (const uint64_t s : here) {
      const double half = q * (double(judged.spread[s]) + floor);
      coverage.covered += (absolute_error(judged, s) <= half) / double(here.size());
      coverage.width += 2 * half / double(here.size());
    }
  }
  std::vector<float> spread, errors;
  for (const uint64_t s : here) {
    spread.push_back(judged.spread[s]);
    errors.push_back(float(absolute_error(judged, s)));
  }
  result.rank_correlation = compute_metrics(spread, errors).spearman;
  return result;
}

}  // namespace lacuna
