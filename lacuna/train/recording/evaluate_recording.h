// Evaluates a model of a recording: bits per spike and correlation of every session, segment and
// unit, beside the mean rate and a linear receptive field (run/evaluation/linear_fields.h), with
// intervals over trials; and its learned fields.
//
// A learned field of a unit is the mean gradient of what stands before its softplus with respect to
// the normalised window, over some training windows: [lags, Y, X], kept as the outer product of a
// time course and a picture that comes nearest to it.
#pragma once

#include "lacuna/run/evaluation/recording_evaluation.h"
#include "lacuna/train/recording/recording_session.h"

namespace lacuna {

struct EvaluateRecording {
  std::string checkpoint;  // whose weights the session has
  fs::path out;            // a run's directory, or another
};
// Writes recording_evaluation.json and fields/. Parts without windows are left out; where no part
// is asked for, nothing is computed, and there are no fields. The ranks of the session's group
// share the predictions out; rank 0 alone scores and writes, and the others get nothing to read.
RecordingEvaluation evaluate_recording(const RecordingSession& session,
                                       const EvaluateRecording& request, const Note& note,
                                       Progress& progress);
// Throws the Error that it would throw later.
void check_evaluation(const RecordingSession& session);

struct LearnedFields {
  at::Tensor spatial;   // [units, Y, X] f32
  at::Tensor temporal;  // [units, lags] f32, newest first; its largest value is above 0
};
// windows: so many training windows of the session, evenly spread.
LearnedFields learned_fields(const RecordingSession& session, int64_t model_session,
                             uint64_t windows = 32);

// Rates of every window, aligned to the rows of its segment: OUT/SESSION.SEGMENT.rates.npy, f32
// [T, units], NaN where there is no window; OUT/rates.json names units, files and the checkpoint.
// The ranks of the session's group share out the batches of each segment; rank 0 alone writes.
struct PredictedRates {
  uint64_t windows = 0, files = 0;
};
PredictedRates predict_rates(const RecordingSession& session, const std::string& checkpoint,
                             const fs::path& out, Progress& progress);

}  // namespace lacuna
