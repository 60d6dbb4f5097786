// Several runs, and named baselines, as one predictor.
//
// Its predictions are the mean over the members, or a weighted mean whose weights (from 0 on, sum
// 1, for each label) have the lowest MSE on the validation part. Members are what their evaluations
// hold: the same split, labels and samples, so nothing is predicted anew. Baselines are those of
// the first run's evaluation.
//
//   OUT/ensemble.json    members and their weights by label, sealed
//   OUT/evaluation.json  as of a run, and predictions/: beside the first run's baselines, each
//                        member is a predictor, too ("member 1", ...); <part>.spread.npy is the
//                        standard deviation over the members, and evaluation.json says how well it
//                        tells errors (evaluation/apart/coverage.h)
//   OUT/run.json         and config.yaml, so that `lacuna report` reads it
#pragma once

#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
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

// The members of the ensemble in this directory; nothing where it holds none. Throws Error for a
// damaged ensemble.json.
std::vector<EnsembleMember> read_ensemble(const fs::path& path);

// Throws Error that names the run that does not fit: not evaluated, of another split, of other
// labels or samples, without validation part where weights are asked for, an ensemble itself; or
// whose split has changed since. Throws UsageError for a run that is named twice.
Ensemble make_ensemble(const EnsembleRequest& request);

}  // namespace lacuna
