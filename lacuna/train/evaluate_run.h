// Evaluates a run: its model and the simple baselines, on the parts that its config names.
#pragma once

#include <string>
#include <vector>

#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/run/run.h"
#include "lacuna/train/session.h"

namespace lacuna {

struct EvaluateRequest {
  std::string checkpoint = {};  // empty: best_pearson where there is one, else last
  std::string device = {};      // empty: the run's
  fs::path screen = {};         // empty: the run's
  fs::path out = {};            // where to write; empty: the run
};

// Writes evaluation.json and predictions/. Parts without samples are left out, with a note. With
// another screen, or a split that is not the one that the run was begun with (kept_split.h), notes
// say how many samples are in another part, and how many remove the same genes as one that the run
// was trained on. The MLP without a graph (nn/models/gene_mlp.cpp) is trained here, on the training
// part, with early stopping on the validation part where there is one. Where it is stopped
// (core/system/stop.h) nothing is written.
//
// Baselines are fitted on the samples that the model was trained on. Where these are not the
// training part of the screen that is evaluated (another screen, another split since), there is a
// second set, fitted on that part and labelled so; where they cannot be had, only that one, and a
// note says so.
Evaluation evaluate_run(const Run& run, const EvaluateRequest& request, const Note& note,
                        Progress& progress, Group& group = Group::alone());
// The same with a session that is open, and has the weights of request.checkpoint. All ranks
// predict; rank 0 does the rest, and it alone gets the result.
Evaluation evaluate_session(const Run& run, ScreenSession& session, const EvaluateRequest& request,
                            const Note& note, Progress& progress);

// ---- what evaluate_predictions.h has in common
// What the bootstrap resamples in a part, with a word where that is not what was held out, or is
// too little.
HeldOutUnits units_of(const ScreenSession& session, Part part, std::span<const uint64_t> samples,
                      const Note& note);
// Which genes a training sample of the split removes: [genes].
std::vector<bool> seen_in(const Screen& screen, const Split& split);
// Groups the samples of all parts by their genes that were not seen (evaluation/apart/groups.h).
void add_groupings(EvaluationInput& input, const ScreenSession& session,
                   const std::vector<bool>& is_seen);
// All baselines, the MLP among them, fitted on the training part of `fitting`, to the parts of the
// input. fitted_on: as in BaselinePredictions.
void add_all_baselines(EvaluationInput& input, const ScreenSession& fitting,
                       const ScreenSession& session, const std::string& fitted_on,
                       Progress& progress);

// Throws the Error that evaluate_run() would throw for the labels of a session's screen, so that a
// training can be refused before it starts.
void check_evaluation(const ScreenSession& session);

}  // namespace lacuna
