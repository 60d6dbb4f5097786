// Runs a grid (grid.h) and shows how much its scores spread over the seeds.
//
//   OUT/compare.json    the grid
//   OUT/<run>/          a run directory each
//   OUT/summary.json    for each split, varied setting, part, label and predictor: mean, sd, min
//   OUT/summary.csv     and max over the runs that are finished, of Pearson, Spearman and MSE
//
// Resumable: a finished run (run.json says so and it has an evaluation) is not run again, one that
// was begun is resumed, the rest is started. The summary is written after every run, so it is there
// when a grid is stopped.
//
// Baselines other than the MLP do not depend on the seed: their spread is 0. With `graph: shuffled`
// every seed shuffles the graph anew: the spread is also that over shuffled graphs.
//
// Whether the model is ahead of a baseline: all seeds of a row are judged on the same samples and
// met the same draws of what was held out (bootstrap.h), which their evaluations keep. In every
// draw the model minus the baseline is averaged over the seeds; the interval is the middle 95% of
// these averages. It says how sure the mean over these seeds is for other units like those that
// were held out; how much seeds differ is the sd beside it.
//
// Folds (screen/splits/split.h) are summed up once more, as "NAME (5 folds)": spread over folds and
// seeds; the interval is that of the mean over all of these runs, each fold with the draws of its
// own genes. A note says how many genes were held out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/shard.h"
#include "lacuna/core/system/file.h"
#include "lacuna/run/compare/grid.h"
#include "lacuna/run/evaluation/bootstrap.h"

namespace lacuna {

// Trains and evaluates a run in this directory; false: stopped by a signal, to be resumed. Without
// `resume` the directory may be there all the same, with what a run leaves that was killed at its
// very start, or that another process is starting just now (run.h).
using TrainRun = std::function<bool(const Config& config, const fs::path& run, bool resume)>;

enum class RunState { missing, begun, finished };  // missing: no run.json
RunState state_of(const fs::path& run);

// Of the values that are defined, over seeds; all NaN where there is none. sd: divided by one less
// than their number, NaN for a single one.
struct Spread {
  uint64_t runs = 0;
  double mean = 0, sd = 0, min = 0, max = 0;
};
Spread spread_of(const std::vector<double>& values);

// The model minus a baseline.
struct DifferenceSpread {
  Spread pearson, spearman, mse;  // over seeds
  Difference mean = {};           // over seeds, and over draws of what was held out
};

struct SummaryRow {
  std::string split;
  std::vector<std::string> values;  // [variations]
  std::string part, label, predictor;
  Spread pearson, spearman, mse;
  // The noise ceiling of Pearson (evaluation.h), over runs their mean; NaN: not known.
  double ceiling = kNotDefined;
  // Of baselines. Nothing where it was not computed, and then why: without draws
  // (evaluate.bootstrap is 0), an evaluation of an older version, runs that met different draws.
  std::optional<DifferenceSpread> difference = {};
  std::string problem = {};
};

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
// split, varied setting, label (where there are several) and predictor: its spread, the noise
// ceiling where one is known (on the row of the model), the model minus it and what the model is
// (ahead, behind, not told apart).
std::vector<std::vector<std::string>> comparison_rows(const Comparison& comparison);

}  // namespace lacuna
