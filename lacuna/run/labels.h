// The labels that a run learns, and their scale: standardised by the training samples alone, so
// that nothing about the rest leaks in.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lacuna/screen/samples.h"

namespace lacuna {

struct LabelScale {
  std::vector<std::string> names;  // [L]
  std::vector<uint64_t> columns;   // [L] where each stands among the screen's labels
  std::vector<double> mean, sd;    // [L]

  uint64_t size() const { return names.size(); }
  // Of chosen label `l`; NaN stays NaN.
  float standardise(uint64_t l, float value) const { return float((value - mean[l]) / sd[l]); }
  float restore(uint64_t l, float value) const { return float(value * sd[l] + mean[l]); }
};

// chosen: names; none: all. Throws Error for a name that is not there or there twice, for an
// infinite value in a training sample, and for a label without spread over the training samples (sd
// 0, or fewer than two measured).
LabelScale scale_labels(const Samples& samples, const std::vector<std::string>& chosen,
                        std::span<const uint32_t> training);
// The same labels found in a screen by name, the scale kept: for a model that was trained before.
LabelScale find_labels(const Samples& samples, const LabelScale& trained);
// Throws Error naming label and sample where one of the chosen samples has an infinite label.
void check_labels(const Samples& samples, const LabelScale& labels,
                  std::span<const uint32_t> chosen);

}  // namespace lacuna
