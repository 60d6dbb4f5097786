// How an epoch did on the validation part: metrics by label, and one score over all labels, by
// which the best epoch is kept.
//
// A label takes part in a score where its measurements allow it: in that of Pearson where two of
// them differ, in that of the MSE where there is one. So it is the same labels in every epoch.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "lacuna/run/evaluation/metrics.h"
#include "lacuna/run/labels.h"

namespace lacuna {

struct Validation {
  std::vector<Metrics> labels = {};  // [L]; empty: there are no validation samples
  // Means over the labels that take part. NaN: none does, or the model predicts one of them without
  // any spread; such an epoch is never the best. mse: of standardised labels, whatever their units.
  double pearson = std::numeric_limits<double>::quiet_NaN();
  double mse = std::numeric_limits<double>::quiet_NaN();
};

// predicted, measured: [S, L] in the labels' own units; NaN = not measured.
Validation validate(std::span<const float> predicted, std::span<const float> measured,
                    const LabelScale& labels);

// The labels that take no part in the score of Pearson, by name.
std::vector<std::string> labels_without_spread(std::span<const float> measured,
                                               const LabelScale& labels);

}  // namespace lacuna
