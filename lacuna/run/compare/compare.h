// Runs a grid (grid.h) and shows how much its scores spread over seeds and folds (summary.h).
//
//   OUT/compare.json    the grid
//   OUT/<run>/          a run directory each
//   OUT/summary.json    for each split, varied setting, part, label and predictor: mean, sd, min,
//   OUT/summary.csv     max and interval of the mean over the runs that are finished, of Pearson,
//                       Spearman and MSE; the JSON also of groups of samples and tails
//
// Resumable: a finished run (run.json says so and it has an evaluation) is not run again, one that
// was begun is resumed, the rest is started. The summary is written after every run, so it is there
// when a grid is stopped.
//
// Baselines other than the MLP do not depend on the seed: their spread is 0. With `graph: shuffled`
// every seed shuffles the graph anew: the spread is also that over shuffled graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lacuna/core/shard.h"
#include "lacuna/core/system/file.h"
#include "lacuna/run/compare/grid.h"
#include "lacuna/run/compare/summary.h"

namespace lacuna {

// Trains and evaluates a run in this directory; false: stopped by a signal, to be resumed. Without
// `resume` the directory may be there all the same, with what a run leaves that was killed at its
// very start, or that another process is starting just now (run.h).
using TrainRun = std::function<bool(const Config& config, const fs::path& run, bool resume)>;

enum class RunState { missing, begun, finished };  // missing: no run.json
RunState state_of(const fs::path& run);

struct RunFailure {
  std::string run, message;
};

struct Comparison {
  uint64_t finished = 0, total = 0;  // runs
  bool stopped = false;
  std::vector<RunFailure> failures = {};
  std::vector<std::string> keys = {};      // [variations]
  std::vector<SummaryRow> rows = {};       // in the grid's order
  std::vector<std::string> held_out = {};  // of folds, how many genes in all: a line a name
  std::vector<std::string> notes = {};
};

// Whether a row has an interval of its mean: from three seeds, or three folds, on.
bool has_intervals(const Comparison& comparison);

// Told of every run, before it is trained or passed over.
using RunHeard = std::function<void(const GridRun& run, size_t number, size_t total, RunState)>;

// Claims the directory, runs what is not finished and writes the summary. A run that throws is
// noted in failures and the others go on: whoever calls says so. Throws Error when the
// grid or the directory is refused, before anything is run: also where a run in it was trained on
// another split of the same name. shard: only those of the grid's runs; the summary is over what is
// finished, so the same call without a shard puts it together.
Comparison compare(Grid grid, const fs::path& out, const std::string& command,
                   const TrainRun& train, const RunHeard& heard = {}, const Shard& shard = {});

// A table for people of one part: test where it is there, else the last one. A head, then a row a
// split, varied setting, label (where there are several) and predictor: its spread, the interval of
// the mean where one row has one, the noise ceiling where one is known (on the row of the model),
// the model minus it and what the model is (ahead, behind, not told apart).
std::vector<std::vector<std::string>> comparison_rows(const Comparison& comparison);

}  // namespace lacuna
