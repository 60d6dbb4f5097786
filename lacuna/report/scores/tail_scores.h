// How well a model finds the strong ones: the samples below a low threshold, or above a high one.
//
// A screen is read for its few strong interactions, and a correlation over all samples says little
// about them. The model ranks the samples; what is asked is whether the strong ones come first
// (run/evaluation/apart/ranking.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "lacuna/run/evaluation/metrics.h"

namespace lacuna::report {

inline constexpr std::array<uint64_t, 3> kFirst = {10, 50, 100};  // k of the precision at k

struct TailScores {
  double threshold = kNotDefined;
  uint64_t samples = 0, strong = 0;
  // What follows is NaN where there is no strong sample, or no other.
  double auroc = kNotDefined;              // 0.5 by chance; ties count half
  double average_precision = kNotDefined;  // strong / samples by chance; ties enter together
  // Of the k samples that the model ranks first the share that is strong, of ties at the end their
  // expectation; NaN where there are fewer than k samples.
  std::array<double, kFirst.size()> precision = {kNotDefined, kNotDefined, kNotDefined};
};

// is_low: strong is measured <= threshold, and the lowest predictions come first; else measured >=
// threshold and the highest. Pairs with a side that is not finite are left out.
TailScores tail_scores(std::span<const float> predicted, std::span<const float> measured,
                       double threshold, bool is_low);

}  // namespace lacuna::report
