// The report of one or several runs: one HTML file that opens offline.
//
//   write_report({"runs/a", "runs/b"}, "report.html", progress);
//
// One run: summary, data, training curves, baselines, predictions, errors by gene and pair, profile
// and ladder where they were measured, settings. Several: the same side by side, with a section for
// each run to unfold. Thousands of samples become bins and curves at most 1,000 points, so a run
// adds some hundred kilobytes.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/core/system/progress.h"

namespace lacuna {

// What a report is asked for beside its runs.
struct ReportOptions {
  // What is called strong: at most -threshold or at least threshold, in a label's own units. NaN:
  // the lowest and the highest twentieth of what was measured.
  double threshold = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::string> genes = {};  // each gets a page of its own; a run needs its screen then
};

// Reads the runs (run/run_contents.h) and their screens, where these are still there, and writes
// the file atomically. Returns how many runs are in it. Throws Error where a run cannot be read or
// the file cannot be written.
size_t write_report(const std::vector<fs::path>& runs, const fs::path& out,
                    Progress& progress = Progress::none(), const ReportOptions& options = {});

}  // namespace lacuna
