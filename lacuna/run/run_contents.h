// All that a run directory holds, read at once (docs/report.md names the files): for the report and
// `lacuna info`.
//
// Only run.json must be there: what else a run lacks (it was stopped, it has no validation, it was
// not evaluated yet) is empty here. What is there must be right, and what its checksum says
// (core/seal.h; older files have none): a damaged file is an Error that names it and says what to
// do. The one exception is the last line of metrics.jsonl, which a crash may tear; it is left out,
// and `notes` says so.
//
// A metric that is not defined (null in the files) is NaN.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/run/ensemble/ensemble.h"
#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/run/evaluation/recording_evaluation.h"
#include "lacuna/run/explanation/explanation.h"
#include "lacuna/run/ladder_file.h"
#include "lacuna/run/metrics_log.h"
#include "lacuna/run/profile_file.h"
#include "lacuna/run/recording_ladder_file.h"
#include "lacuna/run/run.h"

namespace lacuna {

struct Damage {
  std::string file;     // "metrics.jsonl"
  std::string message;  // names the file with its path, and the remedy
};

struct RunContents {
  fs::path path;
  std::string name;  // the last part of the path; longer where several runs would share it

  RunInfo info;        // its screen from config.yaml where run.json does not say
  std::string config;  // config.yaml as it stands; empty where there is none
  std::map<std::string, std::string> settings;  // of config.yaml, "train.lr" -> "1e-3"
  std::vector<StepLine> steps;
  std::vector<EpochLine> epochs;
  std::optional<Evaluation> evaluation;
  std::optional<RecordingEvaluation> recording_evaluation;  // of a run on a recording
  std::vector<PartPredictions> predictions;                 // test first, then validation
  std::optional<StepProfile> profile;
  std::optional<Explanation> explanation;
  std::optional<EnsembleFile> ensemble;  // of an ensemble; its config is that of its first run
  std::optional<Ladder> ladder;          // of a screen
  std::optional<RecordingLadder> recording_ladder;
  std::vector<std::string> notes;      // what a reader of the report should know about the files
  std::vector<std::string> unchecked;  // names of files without a checksum: an older Lacuna's
  std::vector<Damage> damaged;         // inspect_run(): empty elsewhere

  bool is_recording() const { return !setting("recording").empty(); }  // trained on one
  bool is_ensemble() const { return ensemble || is_damaged(kEnsembleFile); }
  bool is_finished() const { return info.status == "finished"; }
  bool is_damaged(std::string_view file) const;
  // A setting of config.yaml by its full name, "split" or "train.epochs"; empty where there is
  // none.
  std::string setting(const std::string& key) const;
  // The split that was used: from the evaluation, else from config.yaml; empty: not known.
  std::string split() const;
  // Trained on the control graph: same degrees, other partners.
  bool is_shuffled() const { return setting("graph") == "shuffled"; }
  uint64_t last_step() const;  // that was logged
  // Names for the `count` labels of predictions: those of the evaluation where it has so many.
  std::vector<std::string> label_names(uint64_t count) const;
  const PartEvaluation* main_part() const;  // of the evaluation, or null
};

RunContents read_run(const fs::path& path);
// The same, but what is damaged is left out, as if it were not there, and listed in `damaged`;
// only a damaged run.json is an Error.
RunContents inspect_run(const fs::path& path);
// What an error says of `damaged`: the first one's message, and the names of the others.
std::string damage_words(const RunContents& run);
// All of them, with names that tell them apart. A folder that is no run but holds runs (what
// `lacuna compare` writes) stands for these, in the order of their names. Throws Error when two
// paths are the same run.
std::vector<RunContents> read_runs(const std::vector<fs::path>& paths);

}  // namespace lacuna
