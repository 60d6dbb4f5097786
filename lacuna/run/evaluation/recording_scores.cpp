#include "lacuna/run/evaluation/recording_scores.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lacuna {
namespace {

constexpr double kLeastMean = 1e-6;  // a unit that never fired in training

double variance(std::span<const double> values) {
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / double(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares / double(values.size());
}

struct Powers {
  double signal = 0, total = 0;  // times rows
};

// Signal power: what the mean over n repeats has beyond the n-th part of the noise.
Powers powers_of(const std::vector<std::vector<float>>& repeats) {
  const size_t n = repeats.size();
  if (n < 2) return {};
  size_t rows = repeats[0].size();
  for (const auto& repeat : repeats) rows = std::min(rows, repeat.size());
  if (rows < 2) return {};
  std::vector<double> mean(rows, 0.0), one(rows);
  double total = 0;
  for (const auto& repeat : repeats) {
    for (size_t t = 0; t < rows; ++t) {
      one[t] = repeat[t];
      mean[t] += one[t] / double(n);
    }
    total += variance(one) / double(n);
  }
  const double signal = (double(n) * variance(mean) - total) / double(n - 1);
  return {signal * double(rows), total * double(rows)};
}

}  // namespace

void UnitSums::add(double r, double count, double mean) {
  rows += 1;
  spikes += count;
  rate += r;
  gain += (count > 0 ? count * std::log(r / mean) : 0) - (r - mean);
  rate2 += r * r;
  count2 += count * count;
  product += r * count;
}

UnitSums& UnitSums::operator+=(const UnitSums& other) {
  rows += other.rows;
  spikes += other.spikes;
  rate += other.rate;
  gain += other.gain;
  rate2 += other.rate2;
  count2 += other.count2;
  product += other.product;
  return *this;
}

UnitSums UnitSums::operator*(double times) const {
  return {rows * times,  spikes * times, rate * times,   gain * times,
          rate2 * times, count2 * times, product * times};
}

double compared_rate(double mean_count) { return float(std::max(mean_count, kLeastMean)); }

double bits_gained(const UnitSums& sums) { return sums.gain / std::numbers::ln2; }

double bits_per_spike(const UnitSums& sums) {
  return sums.spikes > 0 ? bits_gained(sums) / sums.spikes : kNotDefined;
}

double correlation(const UnitSums& sums) {
  if (sums.rows < 2) return kNotDefined;
  const double n = sums.rows;
  const double rates = sums.rate2 - sums.rate * sums.rate / n;
  const double counts = sums.count2 - sums.spikes * sums.spikes / n;
  // Rates without spread leave rounding alone.
  if (!(counts > 0) || !(rates > 1e-12 * std::max(sums.rate2, 1e-300))) return kNotDefined;
  return (sums.product - sums.rate * sums.spikes / n) / std::sqrt(rates * counts);
}

SessionScores session_scores(std::span<const UnitSums> units) {
  SessionScores scores;
  double bits = 0, spikes = 0, correlations = 0, defined = 0, rows = 0;
  for (const UnitSums& unit : units) {
    rows = std::max(rows, unit.rows);
    spikes += unit.spikes;
    bits += bits_gained(unit);
    if (const double value = correlation(unit); std::isfinite(value)) {
      correlations += value;
      ++defined;
    }
  }
  scores.rows = uint64_t(rows);
  scores.spikes = uint64_t(spikes);
  if (spikes > 0) scores.bits_per_spike = bits / spikes;
  if (defined > 0) scores.correlation = correlations / defined;
  return scores;
}

double noise_ceiling(const std::vector<std::vector<std::vector<float>>>& stimuli) {
  Powers sum;
  for (const auto& repeats : stimuli) {
    const Powers one = powers_of(repeats);
    sum.signal += one.signal;
    sum.total += one.total;
  }
  if (!(sum.signal > 0) || !(sum.total > 0)) return kNotDefined;
  return std::sqrt(std::min(1.0, sum.signal / sum.total));
}

double noise_ceiling(const std::vector<std::vector<float>>& repeats) {
  return noise_ceiling(std::vector<std::vector<std::vector<float>>>(1, repeats));
}

}  // namespace lacuna
