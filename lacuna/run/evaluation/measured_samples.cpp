#include "lacuna/run/evaluation/measured_samples.h"

#include <cmath>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/screen/screen_batch.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna {

MeasuredSamples measured_in(const Samples& samples, const Split& split, Part part, uint64_t label,
                            const Column* weights) {
  const std::span<const float> labels = samples.labels.as<float>();  // [S, L]
  MeasuredSamples measured;
  for (const uint64_t sample : samples_in(split, part)) {
    const float value = labels[sample * samples.label_count() + label];
    if (std::isnan(value)) continue;
    if (std::isinf(value))
      throw Error(
          "label '{}' of sample {} is infinite; baselines need numbers, and NaN for what "
          "was not measured",
          samples.label_names[label], sample);
    if (weights && weights->number(sample) == 0) continue;
    if (weights) measured.weights.push_back(weights->number(sample));
    measured.samples.push_back(sample);
    measured.labels.push_back(value);
  }
  const double sum = std::accumulate(measured.weights.begin(), measured.weights.end(), 0.0);
  for (double& weight : measured.weights) weight *= double(measured.weights.size()) / sum;
  return measured;
}

Indicators gene_indicators(const Samples& samples, uint32_t gene_count,
                           std::span<const uint64_t> chosen) {
  GeneSets sets(samples, gene_count);
  Indicators x;
  x.columns = gene_count;
  for (uint64_t sample : chosen) {
    const auto& genes = sets.read(sample);
    x.column.insert(x.column.end(), genes.begin(), genes.end());
    x.ptr.push_back(x.column.size());
  }
  return x;
}

uint64_t count_pairs(const Indicators& genes) {
  uint64_t count = 0;
  for (uint64_t s = 0; s < genes.size(); ++s)
    count += genes.of(s).size() * (genes.of(s).size() - 1) / 2;
  return count;
}

}  // namespace lacuna
