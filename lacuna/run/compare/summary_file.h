// The summary of a grid (compare.h) on disk: summary.json and summary.csv, and the former read back
// for the report.
#pragma once

#include <string>
#include <vector>

#include "lacuna/run/compare/compare.h"

namespace lacuna {

struct GridSummaryRow {
  SummaryRow row;
  // Of baselines, as it was written: the difference above does not know its number of units, and so
  // not where the model stands.
  std::string judged_by = {}, model_is = {};
};

struct GridSummary {
  uint64_t finished = 0, total = 0;  // runs
  std::vector<RunFailure> failures = {};
  std::vector<std::string> held_out = {};  // of folds: what was held out in all, in words
  std::vector<std::string> keys = {};      // [variations]
  std::vector<GridSummaryRow> rows = {};
};

void write_summary(const fs::path& grid, const Comparison& comparison);
bool has_summary(const fs::path& grid);
// Throws Error that names summary.json where it is damaged.
GridSummary read_summary(const fs::path& grid);

}  // namespace lacuna
