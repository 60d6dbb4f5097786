// Evaluates predictions that were made elsewhere, by a model that Lacuna has never seen: the same
// baselines, metrics and intervals as for a run, in a directory that `lacuna report` reads.
#pragma once

#include <string>
#include <vector>

#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/train/session.h"

namespace lacuna {

struct GivenPredictions {
  fs::path screen;
  std::string split;
  std::vector<std::string> labels = {};  // which of the screen's; none: all
  std::vector<float> predicted = {};     // [samples of the screen, L] NaN = not predicted
  std::string made_by = {};              // the command, for the report
  bool baselines = true;
  int bootstrap = 1000;
};

// A table with a column "sample" (numbers in the screen) and one a label, or "prediction" where
// there is one label; or .npy, f32 or f64, [samples of the screen] or [.., L]. Throws Error naming
// the cell or the shape that is wrong.
std::vector<float> read_given_predictions(const fs::path& file, const Screen& screen,
                                          const std::vector<std::string>& labels);

// Evaluates the test and the validation part, those of them that were predicted, and writes a new
// run directory `out`, which has no checkpoints. Predictions of training samples are not looked at.
// Throws Error where a part was predicted only in part, naming a sample, and where none was.
Evaluation evaluate_predictions(const GivenPredictions& given, const fs::path& out,
                                const Note& note, Progress& progress);

}  // namespace lacuna
