#include "lacuna/train/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/threads.h"

namespace lacuna {
namespace {

struct Pairs {
  std::vector<double> predicted, measured;  // [n]
};

Pairs measured_pairs(std::span<const float> predicted, std::span<const float> measured) {
  if (predicted.size() != measured.size())
    throw Error("{} predictions were given for {} measurements", predicted.size(), measured.size());
  Pairs pairs;
  for (size_t i = 0; i < measured.size(); ++i) {
    if (std::isnan(measured[i])) continue;
    pairs.predicted.push_back(predicted[i]);
    pairs.measured.push_back(measured[i]);
  }
  return pairs;
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double pearson(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  const double mean_a = mean(a), mean_b = mean(b);
  double aa = 0, bb = 0, ab = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double da = a[i] - mean_a, db = b[i] - mean_b;
    aa += da * da;
    bb += db * db;
    ab += da * db;
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : std::numeric_limits<double>::quiet_NaN();
}

Metrics metrics_of(const Pairs& pairs) {
  Metrics metrics;
  metrics.count = pairs.measured.size();
  double squares = 0;
  for (size_t i = 0; i < pairs.measured.size(); ++i) {
    const double error = pairs.predicted[i] - pairs.measured[i];
    squares += error * error;
  }
  metrics.mse = squares / double(metrics.count);
  metrics.pearson = pearson(pairs.predicted, pairs.measured);
  metrics.spearman = pearson(ranks(pairs.predicted), ranks(pairs.measured));
  return metrics;
}

Pairs resample(const Pairs& pairs, uint64_t seed, uint64_t round) {
  Random random(seed, round);
  const size_t n = pairs.measured.size();
  Pairs drawn;
  drawn.predicted.reserve(n);
  drawn.measured.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t from = random.below(n);
    drawn.predicted.push_back(pairs.predicted[from]);
    drawn.measured.push_back(pairs.measured[from]);
  }
  return drawn;
}

// The middle `level` of the values, NaN left out; linear between order statistics.
Interval middle(std::vector<double> values, double level) {
  std::erase_if(values, [](double v) { return std::isnan(v); });
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (values.empty()) return {nan, nan};
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double q) {
    const double at = q * double(values.size() - 1);
    const size_t low = size_t(at), high = std::min(low + 1, values.size() - 1);
    return values[low] + (at - double(low)) * (values[high] - values[low]);
  };
  return {quantile((1 - level) / 2), quantile((1 + level) / 2)};
}

}  // namespace

std::vector<double> ranks(std::span<const double> values) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (size_t i = 0, end; i < order.size(); i = end) {
    for (end = i + 1; end < order.size() && values[order[end]] == values[order[i]];) ++end;
    const double shared = 0.5 * double(i + 1 + end);
    for (size_t k = i; k < end; ++k) result[order[k]] = shared;
  }
  return result;
}

Metrics compute_metrics(std::span<const float> predicted, std::span<const float> measured) {
  return metrics_of(measured_pairs(predicted, measured));
}

MetricIntervals bootstrap(std::span<const float> predicted, std::span<const float> measured,
                          uint64_t seed, int rounds, double level) {
  const Pairs pairs = measured_pairs(predicted, measured);
  std::vector<double> pearsons(size_t(rounds), 0), spearmans(pearsons), mses(pearsons);  // [rounds]
  parallel_for(uint64_t(rounds), 0, [&](uint64_t round) {
    const Metrics metrics = metrics_of(resample(pairs, seed, round));
    pearsons[round] = metrics.pearson;
    spearmans[round] = metrics.spearman;
    mses[round] = metrics.mse;
  });
  return {middle(pearsons, level), middle(spearmans, level), middle(mses, level)};
}

}  // namespace lacuna
