#include "lacuna/run/evaluation/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/run/json_file.h"

namespace lacuna {
namespace {

// Pearson of pairs of which pair i is there weights[i] times.
double weighted_pearson(std::span<const double> a, std::span<const double> b,
                        std::span<const double> weights) {
  double n = 0, sum_a = 0, sum_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    n += weights[i];
    sum_a += weights[i] * a[i];
    sum_b += weights[i] * b[i];
  }
  if (n < 2) return kNotDefined;
  const double mean_a = sum_a / n, mean_b = sum_b / n;
  double aa = 0, bb = 0, ab = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double da = a[i] - mean_a, db = b[i] - mean_b;
    aa += weights[i] * da * da;
    bb += weights[i] * db * db;
    ab += weights[i] * da * db;
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa) / std::sqrt(bb) : kNotDefined;
}

}  // namespace

RankedValues::RankedValues(std::vector<double> values) : values_(std::move(values)) {
  has_nan_ = std::any_of(values_.begin(), values_.end(), [](double v) { return std::isnan(v); });
  if (has_nan_) return;  // NaN has no order
  order_.resize(values_.size());
  std::iota(order_.begin(), order_.end(), 0u);
  std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    return values_[a] != values_[b] ? values_[a] < values_[b] : a < b;
  });
  for (size_t i = 0; i < values_.size(); ++i)
    if (i == 0 || values_[order_[i]] != values_[order_[i - 1]]) ptr_.push_back(uint32_t(i));
  ptr_.push_back(uint32_t(values_.size()));
}

void RankedValues::rank(std::span<const double> weights, std::span<double> ranks) const {
  double before = 0;  // weights of lower groups
  for (size_t g = 0; g + 1 < ptr_.size(); ++g) {
    double here = 0;
    for (uint32_t k = ptr_[g]; k < ptr_[g + 1]; ++k) here += weights[order_[k]];
    const double shared = before + 0.5 * (here + 1);
    for (uint32_t k = ptr_[g]; k < ptr_[g + 1]; ++k) ranks[order_[k]] = shared;
    before += here;
  }
}

Metrics weighted_metrics(const RankedValues& predicted, const RankedValues& measured,
                         std::span<const double> measured_ranks, std::span<const double> weights) {
  const std::vector<double>&a = predicted.values(), &b = measured.values();
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  Metrics metrics = {uint64_t(total), kNotDefined, kNotDefined, kNotDefined};
  if (predicted.has_nan() || total == 0) return metrics;
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += weights[i] * (a[i] - b[i]) * (a[i] - b[i]);
  metrics.mse = squares / total;
  metrics.pearson = weighted_pearson(a, b, weights);
  std::vector<double> predicted_ranks(a.size());
  predicted.rank(weights, predicted_ranks);
  metrics.spearman = weighted_pearson(predicted_ranks, measured_ranks, weights);
  return metrics;
}

Json to_json(const Metrics& metrics) {
  Json json = {{"count", metrics.count}};
  for (const auto& metric : kMetrics) json[metric.name] = metrics.*metric.value;
  return json;
}

Metrics metrics_from_json(const Json& json) {
  Metrics metrics;
  metrics.count = count_of(json, "count");
  for (const auto& metric : kMetrics) metrics.*metric.value = number_of(json, metric.name);
  return metrics;
}

std::vector<float> label_column(std::span<const float> values, size_t labels, size_t l) {
  std::vector<float> column;
  column.reserve(values.size() / labels);
  for (size_t i = l; i < values.size(); i += labels) column.push_back(values[i]);
  return column;
}

Metrics compute_metrics(std::span<const float> predicted, std::span<const float> measured) {
  if (predicted.size() != measured.size())
    throw Error("{} predictions were given for {} measurements", predicted.size(), measured.size());
  std::vector<double> a, b;
  for (size_t i = 0; i < measured.size(); ++i) {
    if (std::isnan(measured[i])) continue;
    a.push_back(predicted[i]);
    b.push_back(measured[i]);
  }
  const RankedValues left(std::move(a)), right(std::move(b));
  const std::vector<double> weights(right.values().size(), 1.0);
  std::vector<double> ranks(weights.size());
  right.rank(weights, ranks);
  return weighted_metrics(left, right, ranks, weights);
}

}  // namespace lacuna
