#include "lacuna/run/labels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

uint64_t column_of(const Samples& samples, const std::string& name) {
  const auto& names = samples.label_names;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw Error("the screen has no label '{}'; it has: {}", name, fmt::join(names, ", "));
  return uint64_t(found - names.begin());
}

[[noreturn]] void throw_infinite(const std::string& label, uint64_t sample) {
  throw Error("label '{}' of sample {} is infinite; take the sample out, or make it missing", label,
              sample);
}

}  // namespace

LabelScale scale_labels(const Samples& samples, const std::vector<std::string>& chosen,
                        std::span<const uint32_t> training) {
  LabelScale scale;
  scale.names = chosen.empty() ? samples.label_names : chosen;
  for (const std::string& name : scale.names)
    if (std::ranges::count(scale.names, name) > 1)
      throw Error("label '{}' is named twice; name each label once (key `labels`)", name);
  const auto labels = samples.labels.as<float>();
  const uint64_t stride = samples.label_count();
  for (const std::string& name : scale.names) {
    const uint64_t column = column_of(samples, name);
    double sum = 0, squares = 0;
    uint64_t count = 0;
    for (const uint32_t sample : training) {
      const double value = labels[sample * stride + column];
      if (std::isnan(value)) continue;
      if (std::isinf(value)) throw_infinite(name, sample);
      sum += value;
      ++count;
    }
    const double mean = count ? sum / double(count) : 0;
    for (const uint32_t sample : training) {
      const double value = labels[sample * stride + column];
      if (!std::isnan(value)) squares += (value - mean) * (value - mean);
    }
    const double sd = count ? std::sqrt(squares / double(count)) : 0;
    if (!(sd > 0) || !std::isfinite(sd))
      throw Error(
          "label '{}' has {} measured training samples with standard deviation {}: nothing to "
          "learn; choose other labels (key `labels`) or another split",
          name, count, sd);
    scale.columns.push_back(column);
    scale.mean.push_back(mean);
    scale.sd.push_back(sd);
  }
  return scale;
}

LabelScale find_labels(const Samples& samples, const LabelScale& trained) {
  LabelScale scale = trained;
  for (uint64_t l = 0; l < scale.size(); ++l) scale.columns[l] = column_of(samples, scale.names[l]);
  return scale;
}

void check_labels(const Samples& samples, const LabelScale& labels,
                  std::span<const uint32_t> chosen) {
  const auto values = samples.labels.as<float>();
  for (const uint64_t sample : chosen)
    for (uint64_t l = 0; l < labels.size(); ++l)
      if (std::isinf(values[sample * samples.label_count() + labels.columns[l]]))
        throw_infinite(labels.names[l], sample);
}

}  // namespace lacuna
