// How much a score differs over runs, and how sure its mean is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/run/evaluation/metrics.h"

namespace lacuna {

// Of the values that are defined; all NaN where there is none.
struct Spread {
  uint64_t runs = 0;
  double mean = 0;
  double sd = 0;  // over all runs, divided by one less than their number; NaN for a single one
  double min = 0, max = 0;
  // The middle 95% of the mean, by Student's t: where it lies over all such runs, if they are drawn
  // alike and their scores near normal. NaN of fewer than three, of which it would say nothing, and
  // where they do not differ.
  Interval interval = {kNotDefined, kNotDefined};
};

// Of seeds of one split: the interval is over the seeds.
Spread spread_of(const std::vector<double>& values);

// splits: of the values, [values]. Seeds of one split share what was held out, so where there are
// several splits (folds) the mean is that of the splits' means, and the interval is over these: 25
// runs of five folds are five observations of what a model does with other genes.
Spread spread_of(const std::vector<double>& values, const std::vector<std::string>& splits);

}  // namespace lacuna
