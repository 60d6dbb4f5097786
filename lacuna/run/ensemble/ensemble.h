// Several runs, and named baselines, as one predictor.
//
// Its predictions are the mean over the members, or a weighted mean whose weights (from 0 on, sum
// 1, for each label) have the lowest MSE on the validation part. Members are what their evaluations
// hold: the same split, labels and samples, so nothing is predicted anew. Baselines are those of
// the first run's evaluation.
//
//   OUT/ensemble.json    members and their weights by label, sealed
//   OUT/evaluation.json  as of a run, and predictions/: beside the first run's baselines, each
//                        member is a predictor, too ("member 1", ..., marked as such: no member is
//                        the best baseline); <part>.spread.npy is the
//                        standard deviation over the members, and evaluation.json says how well it
//                        tells errors (evaluation/apart/coverage.h)
//   OUT/run.json         and config.yaml, so that `lacuna report` reads it
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/core/system/progress.h"
#include "lacuna/run/evaluation/evaluation.h"

namespace lacuna {

struct EnsembleRequest {
  std::vector<fs::path> runs;               // at least one, evaluated
  std::vector<std::string> baselines = {};  // "network"
  bool weighted = false;                    // weights on validation; else all count alike
  fs::path out;                             // a new directory
  std::string command = {};
};

struct EnsembleMember {
  std::string name = {};             // "member 1"
  fs::path run = {};                 // absolute
  std::string baseline = {};         // of that run's evaluation; empty: its model
  std::vector<double> weights = {};  // [L]

  std::string words() const;  // the run's path, or "baseline network of PATH"
};

struct Ensemble {
  std::vector<EnsembleMember> members;
  Evaluation evaluation;
};

inline constexpr const char* kEnsembleFile = "ensemble.json";

// What ensemble.json says.
struct EnsembleFile {
  bool weighted = false;
  std::vector<EnsembleMember> members = {};

  std::vector<fs::path> runs() const;  // that are members: whose models can be asked again
  // `lacuna ensemble RUN... --baseline NAME... --out OUT`, which makes it once more
  std::string command(const fs::path& out) const;
};

// Of the ensemble in this directory; nothing where it holds none. Throws Error for a damaged one.
std::optional<EnsembleFile> read_ensemble_file(const fs::path& path);
// Its members alone; none where the directory holds no ensemble.
std::vector<EnsembleMember> read_ensemble(const fs::path& path);

// Throws Error that names the run that does not fit: not evaluated, of another split, of other
// labels or samples, without validation part where weights are asked for, an ensemble itself; or
// whose split has changed since. Throws UsageError for a run or a baseline that is named twice.
Ensemble make_ensemble(const EnsembleRequest& request, Progress& progress = Progress::none());

}  // namespace lacuna
