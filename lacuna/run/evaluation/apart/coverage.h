// Whether a spread over members (lacuna/run/ensemble) says how wrong a prediction may be.
//
// An interval is prediction +- q (spread + floor): floor is the mean spread of the validation part
// (where members do not differ, 1), and q, for each level, is chosen there: the smallest with which
// at least that share of the measured samples, counted as one more, lies inside (split conformal
// prediction). The coverage is then that of another part. It falls short of the level where that
// part is unlike validation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/run/evaluation/metrics.h"

namespace lacuna {

inline constexpr double kCoverageLevels[] = {0.5, 0.8, 0.9, 0.95};

// A label of a part, [S] each; NaN = not measured.
struct SpreadPredictions {
  std::span<const float> predicted, spread, measured;
};

struct Coverage {
  double level = 0;
  double covered = kNotDefined;  // share of the measured samples inside
  double width = kNotDefined;    // mean width of the intervals; infinite: too few to choose by
};

struct Uncertainty {
  double rank_correlation = kNotDefined;  // Spearman of spread and absolute error
  std::vector<Coverage> coverages = {};   // of kCoverageLevels
};

// Nothing is defined where a side has no measured sample.
Uncertainty judge_spread(const SpreadPredictions& validation, const SpreadPredictions& judged);

}  // namespace lacuna
