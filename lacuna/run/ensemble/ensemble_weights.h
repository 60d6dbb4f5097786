// How much each member of an ensemble counts.
#pragma once

#include <span>
#include <vector>

namespace lacuna {

// The weights from 0 on, with sum 1, whose weighted mean of the members has the lowest mean squared
// error. members: [M][S], measured: [S], NaN = not measured. Equal weights where nothing is
// measured. By projected gradients in a fixed order: the same bits on every run.
std::vector<double> best_weights(const std::vector<std::vector<float>>& members,
                                 std::span<const float> measured);

// Mean and standard deviation over the members, weighted: [S] each.
struct MeanAndSpread {
  std::vector<float> mean, spread;
};
MeanAndSpread combine(const std::vector<std::vector<float>>& members,
                      std::span<const double> weights);

}  // namespace lacuna
