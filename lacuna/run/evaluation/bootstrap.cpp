#include "lacuna/run/evaluation/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Metrics kUndefined = {0, kNan, kNan, kNan};

RankedValues take(std::span<const float> values, std::span<const uint64_t> rows) {
  std::vector<double> taken;
  taken.reserve(rows.size());
  for (const uint64_t row : rows) taken.push_back(values[row]);
  return RankedValues(std::move(taken));
}

}  // namespace

DrawnWeights::DrawnWeights(std::span<const float> measured, const HeldOutUnits& units,
                           uint64_t seed)
    : seed_(seed) {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  LACUNA_ASSERT(units.size() == measured.size());
  std::vector<uint32_t> numbers(units.count, kNone);
  for (uint64_t row = 0; row < measured.size(); ++row) {
    if (std::isnan(measured[row])) continue;
    rows_.push_back(row);
    for (const uint32_t unit : units.of(row)) {
      if (numbers[unit] == kNone) numbers[unit] = uint32_t(units_.count++);
      units_.units.push_back(numbers[unit]);
    }
    units_.ptr.push_back(units_.units.size());
  }
}

std::vector<double> DrawnWeights::draw(uint64_t round) const {
  Random random(seed_, round);
  std::vector<double> times(units_.count, 0.0);
  for (uint64_t i = 0; i < units_.count; ++i) times[random.below(units_.count)] += 1;
  std::vector<double> weights(units_.size());
  for (uint64_t s = 0; s < units_.size(); ++s) {
    double weight = 1;
    for (const uint32_t unit : units_.of(s)) weight *= times[unit];
    weights[s] = weight;
  }
  return weights;
}

std::vector<Draws> bootstrap(const std::vector<std::vector<float>>& predictors,
                             std::span<const float> measured, const HeldOutUnits& units,
                             uint64_t seed, int rounds) {
  LACUNA_ASSERT(rounds >= 0);
  const DrawnWeights here(measured, units, seed);
  const RankedValues truth = take(measured, here.rows());
  std::vector<RankedValues> sides;
  for (const std::vector<float>& predicted : predictors) {
    LACUNA_ASSERT(predicted.size() == measured.size());
    sides.push_back(take(predicted, here.rows()));
  }
  std::vector<Draws> draws(predictors.size(), Draws(size_t(rounds), kUndefined));
  if (here.units() < 2) return draws;  // all draws would be the same
  parallel_for(uint64_t(rounds), 0, [&](uint64_t round) {
    const std::vector<double> weights = here.draw(round);
    std::vector<double> ranks(weights.size());
    truth.rank(weights, ranks);
    for (size_t p = 0; p < sides.size(); ++p)
      draws[p][round] = weighted_metrics(sides[p], truth, ranks, weights);
  });
  return draws;
}

uint64_t measured_units(std::span<const float> measured, const HeldOutUnits& units) {
  return DrawnWeights(measured, units, 0).units();
}

Interval middle(std::vector<double> values, double level) {
  std::erase_if(values, [](double v) { return std::isnan(v); });
  if (values.empty()) return {kNan, kNan};
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double q) {
    const double at = q * double(values.size() - 1);
    const size_t low = size_t(at), high = std::min(low + 1, values.size() - 1);
    return values[low] + (at - double(low)) * (values[high] - values[low]);
  };
  return {quantile((1 - level) / 2), quantile((1 + level) / 2)};
}

MetricIntervals interval_of(std::span<const Metrics> draws, double level) {
  MetricIntervals intervals;
  for (const MetricField& field : kMetrics) {
    std::vector<double> values;
    for (const Metrics& metrics : draws) values.push_back(metrics.*field.value);
    intervals.*field.interval = middle(std::move(values), level);
  }
  return intervals;
}

Estimate Difference::estimate(const MetricField& field) const {
  const Interval& middle = interval.*field.interval;
  return {value.*field.value, middle.low, middle.high};
}

Metrics minus(const Metrics& a, const Metrics& b) {
  return {a.count, a.pearson - b.pearson, a.spearman - b.spearman, a.mse - b.mse};
}

Difference difference_of(const Metrics& a, const Metrics& b, std::span<const Metrics> a_draws,
                         std::span<const Metrics> b_draws, double level) {
  LACUNA_ASSERT(a_draws.size() == b_draws.size());
  Draws differences;
  for (size_t r = 0; r < a_draws.size(); ++r) differences.push_back(minus(a_draws[r], b_draws[r]));
  return {minus(a, b), interval_of(differences, level)};
}

const MetricField& judged_by(const Difference& difference) {
  const Interval& pearson = difference.interval.pearson;
  const bool has_pearson = !std::isnan(difference.value.pearson) && !std::isnan(pearson.low);
  return has_pearson ? kMetrics[0] : kMetrics[2];
}

Standing standing(const Difference& difference) {
  const MetricField& field = judged_by(difference);
  Interval interval = difference.interval.*field.interval;
  if (field.value == &Metrics::mse) interval = {-interval.high, -interval.low};  // less is better
  if (std::isnan(interval.low) || std::isnan(interval.high)) return Standing::not_defined;
  if (difference.units < kFewestUnits) return Standing::not_told_apart;
  if (interval.low > 0) return Standing::ahead;
  return interval.high < 0 ? Standing::behind : Standing::not_told_apart;
}

std::string_view name(Standing standing) {
  switch (standing) {
    case Standing::ahead:
      return "ahead";
    case Standing::behind:
      return "behind";
    case Standing::not_told_apart:
      return "not told apart";
    case Standing::not_defined:
      break;
  }
  return "not defined";
}

}  // namespace lacuna
