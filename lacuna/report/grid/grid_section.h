// What a grid of runs came to (`lacuna compare`), from its summary.json: a table and a forest plot
// of every split, label and part, with mean, standard deviation and interval over its runs.
#pragma once

#include <string>

#include "lacuna/run/compare/summary_file.h"

namespace lacuna::report {

// The interval of a mean over runs (seeds, folds) by Student's t: the 95% that holds the mean over
// all such runs, if they are drawn alike and their scores near normal. NaN for fewer than three
// runs, of which an interval says nothing, and where they do not differ.
Estimate mean_of_runs(const Spread& spread);

std::string grid_section(const GridSummary& summary);

}  // namespace lacuna::report
