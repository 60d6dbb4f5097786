// What a grid of runs came to (`lacuna compare`), from its summary.json: a table and a forest plot
// of every split, label and part, with mean, standard deviation and interval over its runs.
#pragma once

#include <string>

#include "lacuna/run/compare/summary_file.h"

namespace lacuna::report {

std::string grid_section(const GridSummary& summary);

}  // namespace lacuna::report
