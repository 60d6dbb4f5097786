// A run directory, read for the report (docs/report.md names the files).
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
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/system/file.h"
#include "lacuna/report/row_charts.h"
#include "lacuna/store/file_set.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna::report {

inline constexpr double kNotDefined = std::numeric_limits<double>::quiet_NaN();

struct Metrics {
  uint64_t count = 0;
  // Values with their bootstrap intervals, which may be missing.
  Estimate pearson = {kNotDefined, kNotDefined, kNotDefined};
  Estimate spearman = pearson;
  Estimate mse = pearson;
};
// The model minus a baseline, in the same draws of what was held out.
struct Lead {
  Estimate pearson, spearman, mse;
  std::string judged_by;  // "pearson" or "mse"
  std::string model_is;   // "ahead", "behind", "not told apart", "not defined"

  const Estimate& judged() const { return judged_by == "mse" ? mse : pearson; }
};
struct NamedMetrics {
  std::string name;  // of a label, or of a baseline
  Metrics metrics;
  std::string note = {};          // how a baseline was chosen, where it has something to say
  std::optional<Lead> lead = {};  // of baselines; none: without draws, or by an older version
};

// ---- metrics.jsonl

struct StepLine {
  uint64_t epoch = 0, step = 0;
  double loss = kNotDefined, lr = kNotDefined, samples_per_s = kNotDefined, seconds = kNotDefined;
};
struct EpochLine {
  uint64_t epoch = 0, step = 0;
  double train_loss = kNotDefined, seconds = kNotDefined;
  std::vector<NamedMetrics> validation;  // by label; empty without a validation part
};

// ---- evaluation.json

struct LabelEvaluation {
  std::string label;
  Metrics model;
  std::vector<NamedMetrics> baselines;
};
struct PartEvaluation {
  std::string part;
  uint64_t samples = 0;
  std::vector<LabelEvaluation> labels;
  std::string unit = "samples";  // what the bootstrap resampled
  uint64_t units = 0;            // how many; 0: not said
  std::string why = {};          // why it is samples, where the split does not say that it is
};
struct Evaluation {
  std::string split, checkpoint;
  uint64_t rounds = 0;         // of the bootstrap; 0: not said
  double level = kNotDefined;  // of its intervals, 0.95 for most
  std::vector<PartEvaluation> parts;
  std::vector<std::string> notes;  // of what was left out
  FileSet files;                   // the predictions, with checksums; empty: an older version

  std::string interval_words() const;  // "95% bootstrap interval"
};

// ---- predictions/<part>.*.npy

struct Predictions {
  std::string part;
  std::vector<uint64_t> sample;  // [S] numbers of samples of the screen
  Array predicted, measured;     // [S, L] f32, in the units of the labels; NaN = not measured
  uint64_t label_count = 0;

  double predicted_at(uint64_t row, uint64_t label) const;
  double measured_at(uint64_t row, uint64_t label) const;
};

// ---- profile.json, ladder.json

struct ProfileEntry {
  std::string category;
  double ms = kNotDefined, share = kNotDefined;
};
struct Profile {
  std::string device, largest;  // largest: a sentence
  // Where, when and on what it was measured (measured_on.h); empty: not said.
  std::string machine, date, config, screen_path;
  Fingerprint screen_fingerprint;
  uint64_t steps = 0, batch = 0;
  double wall_ms_per_step = kNotDefined;
  std::vector<ProfileEntry> cpu, gpu;
};

// A rung, or a peer that did the same work in another way.
struct LadderRow {
  std::string name;
  double samples_per_s = kNotDefined, ms_per_batch = kNotDefined, read_ms_per_batch = kNotDefined,
         planned_ms_per_batch = kNotDefined, train_steps_per_s = kNotDefined;
  double stored_bytes_per_sample = kNotDefined, moved_bytes_per_sample = kNotDefined,
         host_peak_bytes = kNotDefined, device_peak_bytes = kNotDefined;
  std::optional<bool> is_exact;
  std::string left_out;  // why a peer was not measured
};
struct Ladder {
  std::string machine, date;
  std::string screen_path;  // empty: not said, nor the fingerprint
  Fingerprint screen_fingerprint;
  std::string training;       // what was trained, where it was
  double load = kNotDefined;  // of the machine when it began
  uint64_t samples = 0, batch = 0;
  std::vector<LadderRow> rungs, peers;
};
// From what `lacuna bench ladder` writes; throws Json::exception where it is not right.
Ladder ladder_from_json(const Json& json);

// ---- all of a run

struct Damage {
  std::string file;     // "metrics.jsonl"
  std::string message;  // names the file with its path, and the remedy
};

struct Run {
  fs::path path;
  std::string name;  // the last part of the path; longer where several runs would share it

  // run.json
  std::string metrics_end;  // XXH3 of the last line of metrics.jsonl; empty: not said
  std::string status, message, command, lacuna_version, torch_version, device, started, ended;
  std::string screen_path;  // from config.yaml where run.json does not say
  Fingerprint screen_fingerprint;
  uint64_t samples = 0, genes = 0, edges = 0;  // 0: not said
  uint64_t parameters = 0;

  std::string config;  // config.yaml as it stands; empty where there is none
  std::vector<StepLine> steps;
  std::vector<EpochLine> epochs;
  std::optional<Evaluation> evaluation;
  std::vector<Predictions> predictions;
  std::optional<Profile> profile;
  std::optional<Ladder> ladder;
  std::vector<std::string> notes;      // what a reader of the report should know about the files
  std::vector<std::string> unchecked;  // names of files without a checksum: an older Lacuna's
  std::vector<Damage> damaged;         // inspect_run(): empty elsewhere

  bool is_finished() const { return status == "finished"; }
  bool is_damaged(std::string_view file) const;
  // A setting of config.yaml by its full name, "split" or "train.epochs"; empty where there is
  // none.
  std::string setting(const std::string& key) const;
  // The split that was used: from the evaluation, else from config.yaml; empty: not known.
  std::string split() const;
  // Trained on the control graph: same degrees, other partners.
  bool is_shuffled() const { return setting("graph") == "shuffled"; }
  // Names for the `count` labels of predictions: those of the evaluation where it has so many.
  std::vector<std::string> label_names(uint64_t count) const;
  const PartEvaluation* part(const std::string& name) const;  // null where it was not evaluated
  // The part that a reader looks at first: test, else validation, else whatever there is, or null.
  const PartEvaluation* main_part() const;
};

Run read_run(const fs::path& path);
// The same, but what is damaged is left out, as if it were not there, and listed in `damaged`;
// only a damaged run.json is an Error.
Run inspect_run(const fs::path& path);
// What an error says of `damaged`: the first one's message, and the names of the others.
std::string damage_words(const Run& run);
// All of them, with names that tell them apart. A folder that is no run but holds runs (what
// `lacuna compare` writes) stands for these, in the order of their names. Throws Error when two
// paths are the same run.
std::vector<Run> read_runs(const std::vector<fs::path>& paths);

}  // namespace lacuna::report
