#include "lacuna/run/evaluation/validation.h"

#include <cmath>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

bool has_spread(std::span<const float> values) {
  float first = std::numeric_limits<float>::quiet_NaN();
  for (const float value : values) {
    if (std::isnan(value)) continue;
    if (std::isnan(first)) first = value;
    if (value != first) return true;
  }
  return false;
}

struct Mean {
  double sum = 0, count = 0;

  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return sum / count; }  // NaN of none
};

}  // namespace

Validation validate(std::span<const float> predicted, std::span<const float> measured,
                    const LabelScale& labels) {
  LACUNA_ASSERT(predicted.size() == measured.size());
  Validation result;
  if (measured.empty()) return result;
  Mean pearson, mse;
  for (size_t l = 0; l < labels.size(); ++l) {
    const auto of_label = label_column(measured, labels.size(), l);
    const Metrics metrics = compute_metrics(label_column(predicted, labels.size(), l), of_label);
    if (has_spread(of_label)) pearson.add(metrics.pearson);
    if (metrics.count > 0) mse.add(metrics.mse / (labels.sd[l] * labels.sd[l]));
    result.labels.push_back(metrics);
  }
  result.pearson = pearson.value();
  result.mse = mse.value();
  return result;
}

std::vector<std::string> labels_without_spread(std::span<const float> measured,
                                               const LabelScale& labels) {
  std::vector<std::string> names;
  for (size_t l = 0; l < labels.size(); ++l)
    if (!has_spread(label_column(measured, labels.size(), l))) names.push_back(labels.names[l]);
  return names;
}

}  // namespace lacuna
