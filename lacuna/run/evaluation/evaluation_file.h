// The files of a run that say how well its model predicts (docs/evaluation.md):
//
//   evaluation.json                       metrics of the model and of each baseline, by part and
//                                         label, with intervals and paired differences; names the
//                                         files below with their bytes and XXH3, and is sealed
//   predictions/<part>.sample.npy         [S] u32 (u64 beyond 2^32): numbers of the samples
//   predictions/<part>.predicted.npy      [S, L] f32: the model's, in the labels' own units
//   predictions/<part>.measured.npy       [S, L] f32: NaN = not measured
//   predictions/<part>.baseline.<name>.npy        [S, L] f32: a baseline's; NaN = left out of a
//                                                 label
//   predictions/<part>.baseline.<name>.other.npy  the same, fitted on the screen that --screen
//                                                 names
//   predictions/<part>.spread.npy         [S, L] f32: of an ensemble, the sd over its members
//   predictions/<part>.draws.npy          [P, rounds, L, 3] f32: Pearson, Spearman and MSE of every
//                                         predictor in every draw; not without a bootstrap
//
// They are replaced together: a kill at any moment leaves the old ones or the new, whole
// (store/file_set.h).
#pragma once

#include "lacuna/core/system/file.h"
#include "lacuna/run/evaluation/evaluation.h"

namespace lacuna {

// Other files that lie in predictions/ stay.
void write_evaluation(const fs::path& run, const EvaluationInput& input,
                      const Evaluation& evaluation);
// Without draws. Throws Error when the run has none, or where it or one of the predictions is
// damaged, which it names. One of an older version, without checksums, is not checked. What it does
// not say is NaN, 0 or empty.
Evaluation read_evaluation(const fs::path& run);
// Of the parts of an evaluation that was read from `run`, without baselines and units: test first,
// then validation, then others. Throws Error where a part's files do not belong together.
std::vector<PartPredictions> read_predictions(const fs::path& run, const Evaluation& evaluation);
// The baselines of such a part, without those fitted on another screen. Throws Error likewise.
void read_baselines(const fs::path& run, const Evaluation& evaluation, PartPredictions& part);
// Of a part of an evaluation that was read from `run`; empty where it has none.
PartDraws read_draws(const Evaluation& evaluation, const PartEvaluation& part);

}  // namespace lacuna
