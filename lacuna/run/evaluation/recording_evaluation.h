// The evaluation of a run on a recording: how well the model and the baselines predict the counts
// of every session, as a whole and by segment and unit, with intervals over trials.
//
//   RUN/recording_evaluation.json   all of it, sealed
//   RUN/fields/SESSION.spatial.npy, .temporal.npy   learned fields (train/recording/fields.h)
//
// A draw of the bootstrap takes as many trials of a session as there are, with replacement; all
// predictors meet the same draws, so the differences are paired. The score of a part is the mean
// over its sessions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/core/text/json.h"
#include "lacuna/run/evaluation/recording_scores.h"

namespace lacuna {

// ---- what is evaluated

// Where a row of predictions comes from.
struct PredictedRow {
  uint32_t segment = 0;
  uint64_t t = 0;
  int64_t trial = -1;
  int64_t stimulus = -1;  // rows of one number and offset saw the same; below 0: shown once
  uint64_t offset = 0;    // rows since the trial began
};

struct SessionPredictions {
  struct Predictor {
    std::string name;          // "model", "mean rate", "linear field"
    std::vector<float> rates;  // [n, units]
  };
  std::string session, subject;
  double rate = 0;  // bins a second
  std::vector<std::string> units, segments;
  std::vector<double> mean;           // [units] counts a row in training
  std::vector<PredictedRow> rows;     // [n]
  std::vector<float> counts;          // [n, units]
  std::vector<uint8_t> validity;      // [n, units]
  std::vector<Predictor> predictors;  // the model first

  uint64_t unit_count() const { return units.size(); }
};

// ---- what comes out

struct RecordingScore {
  std::string predictor = {};
  Estimate bits_per_spike = {}, correlation = {};
  Estimate lead = {};  // bits per spike of the model minus this; not defined for the model
};

struct UnitEvaluation {
  std::string unit = {};
  uint64_t spikes = 0;
  double mean = kNotDefined;                                  // counts a row in training
  double ceiling = kNotDefined;                               // of the correlation
  std::vector<double> bits_per_spike = {}, correlation = {};  // by predictor
};

// Of a session, or of one segment of it.
struct ScoredRows {
  std::string name = {};
  uint64_t rows = 0, trials = 0, spikes = 0;
  std::vector<RecordingScore> scores = {};
};

// Rates against counts: equally many predictions of the model in each bin, by their rate.
struct RateBin {
  double rate = 0, count = 0;  // means
  uint64_t rows = 0;
};

// A stretch of one unit's counts and rates to look at; counts are means over `repeats`.
struct RateTrace {
  std::string unit = {}, segment = {};
  uint64_t repeats = 1;
  std::vector<double> counts = {};
  std::vector<std::vector<double>> rates = {};  // by predictor
};

struct SessionEvaluation {
  ScoredRows all = {};  // its name is the session's
  std::string subject = {};
  double rate = 0;
  std::vector<ScoredRows> segments = {};
  std::vector<UnitEvaluation> units = {};
  uint64_t repeated = 0;         // stimuli that were shown at least twice
  double ceiling = kNotDefined;  // mean of the units'
  std::vector<RateBin> bins = {};
  std::optional<RateTrace> trace = {};
};

struct RecordingPartEvaluation {
  std::string part = {};
  std::vector<RecordingScore> scores = {};  // means over sessions
  std::vector<SessionEvaluation> sessions = {};
};

struct RecordingEvaluation {
  std::string split = {}, checkpoint = {};
  int bootstrap = 0;
  std::vector<std::string> predictors = {};
  std::vector<RecordingPartEvaluation> parts = {};
  std::vector<std::string> notes = {};
  // Where learned fields are: [units, Y, X] and [units, lags]
  std::vector<std::string> field_sessions = {};

  const RecordingPartEvaluation* main_part() const;  // test, else validation, else any, or null
};

// One session after another, so that the rows of one alone are in memory.
class PartEvaluator {
 public:
  PartEvaluator(std::string part, int rounds, uint64_t seed = 1);
  void add(const SessionPredictions& session);
  RecordingPartEvaluation finish() const;

 private:
  RecordingPartEvaluation result_;
  int rounds_;
  uint64_t seed_;
  std::vector<std::vector<std::vector<double>>> draws_;  // [sessions][2 * predictors][rounds]
};

// ---- its file
fs::path recording_evaluation_file(const fs::path& run);
void write_recording_evaluation(const fs::path& run, const RecordingEvaluation& evaluation);
// Throws Error naming the file where it is damaged.
RecordingEvaluation read_recording_evaluation(const fs::path& run);
// A table for the terminal: a line a session and predictor of the main part.
std::vector<std::vector<std::string>> evaluation_rows(const RecordingPartEvaluation& part);

}  // namespace lacuna
