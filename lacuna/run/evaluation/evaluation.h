// How well a run's model and the simple baselines predict the parts of its split.
//
//   EvaluationInput input = {.split = "random", .checkpoint = "best_pearson"};
//   input.labels = {"fitness"};
//   const auto measured = measured_labels(samples, {{0}}, numbers);
//   input.parts.push_back({Part::test, numbers, predicted, measured});
//   add_baselines(input, {samples, gene_count, split}, samples, {{0}});
//   write_evaluation(run, input, evaluate(input));  // evaluation_file.h
//
// Metrics are those of metrics.h, intervals and differences those of bootstrap.h. All predictors of
// a part and label meet the same draws, of what the split held out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/graph/hetero_graph.h"
#include "lacuna/run/evaluation/apart/coverage.h"
#include "lacuna/run/evaluation/apart/groups.h"
#include "lacuna/run/evaluation/apart/tails.h"
#include "lacuna/run/evaluation/baselines.h"
#include "lacuna/run/evaluation/bootstrap.h"
#include "lacuna/run/evaluation/metrics.h"
#include "lacuna/screen/samples.h"
#include "lacuna/screen/screen.h"
#include "lacuna/screen/splits/held_out.h"
#include "lacuna/store/file_set.h"

namespace lacuna {

struct BaselinePredictions {
  std::string name;                     // mean, gene, pair, ridge, ridge_pairs, network, mlp
  std::vector<float> predicted;         // [S, L]
  std::vector<std::string> notes = {};  // [L] how it was fitted, or empty
  std::vector<bool> is_fitted = {};     // [L] false: left out of this label; empty: all true
  // The screen whose training part it was fitted on; empty: the samples that the model was trained
  // on.
  std::string fitted_on = {};
  bool is_member = false;  // of the ensemble that is evaluated (ensemble/), and so no baseline

  std::string label() const;  // "ridge", or "ridge (fitted on other)"
};

struct PartPredictions {
  Part part;
  std::vector<uint64_t> samples;  // [S]
  std::vector<float> predicted;   // [S, L]
  std::vector<float> measured;    // [S, L]
  std::vector<BaselinePredictions> baselines = {};
  std::optional<HeldOutUnits> units = {};  // what the bootstrap resamples; none: samples
  std::vector<double> ceilings = {};  // [L] of Pearson, see noise_ceilings(); empty: none known
  std::vector<SampleGrouping> groupings = {};  // scored on their own, too
  // [S, L] of an ensemble: the standard deviation over its members; empty: no ensemble
  std::vector<float> spread = {};

  uint64_t label_count() const { return samples.empty() ? 0 : predicted.size() / samples.size(); }
};

struct EvaluationInput {
  std::string split, checkpoint;
  std::vector<std::string> labels;  // [L] names
  int bootstrap = 1000;             // rounds; 0: no intervals
  std::vector<PartPredictions> parts = {};
  std::vector<std::string> notes = {};  // what was left out, what the model had seen in training
};

// The chosen labels (by index) of the chosen samples: [S, L].
std::vector<float> measured_labels(const Samples& samples, std::span<const uint64_t> labels,
                                   std::span<const uint64_t> chosen);

// The noise ceiling of each label over the chosen samples: [L], NaN where repeats do not tell.
std::vector<double> noise_ceilings(const Screen& screen, std::span<const uint64_t> labels,
                                   std::span<const uint64_t> chosen);

// What baselines are fitted on.
struct FittingSamples {
  const Samples& samples;
  uint32_t gene_count;
  const Split& split;
  std::span<const uint64_t> labels;  // by index, as many as input.labels
  const Column* weights = nullptr;   // of the samples, or none
  std::string fitted_on = {};        // as in BaselinePredictions
  // Where it has gene networks, `network` (network/network_baseline.h) is fitted, too; null: not.
  const HeteroGraph* graph = nullptr;
};
// Fits the baselines of baselines.h, and `network`, for each label and appends their predictions
// for the parts' samples (of `samples`, which may be another screen's with the same genes) to all
// parts, and to input.notes what was left out. Other predictors (the MLP) are appended by whoever
// made them.
void add_baselines(EvaluationInput& input, const FittingSamples& fitting, const Samples& samples,
                   const BaselineLimits& limits = {}, Progress& progress = Progress::none());

struct Scores {
  std::string predictor;  // "model", a baseline's name, or "member 1" of an ensemble
  std::string note = {};
  Metrics metrics = {};
  std::optional<MetricIntervals> intervals = {};  // middle 95%
  // The model minus this baseline; none for the model, without draws, and in an evaluation of an
  // older version.
  std::optional<Difference> difference = {};
  bool is_member = false;  // of the ensemble that was evaluated: judged like a baseline, but none

  Estimate estimate(const MetricField& field) const;
};

// The baseline with the highest Pearson correlation, or null where none has one. Members of an
// ensemble are passed over: they would hide the baseline that the ensemble is to be ahead of.
const Scores* best_of(std::span<const Scores> scores);

// Some of a part's samples, scored on their own.
struct GroupScores {
  std::string by, name;             // "unseen genes", "one" (apart/groups.h)
  std::vector<Scores> scores = {};  // the model first, then the baselines, then members
  uint64_t units = 0;               // of the part's units, those that have a measured sample here

  const Scores& model() const { return scores.at(0); }
  std::span<const Scores> baselines() const { return std::span(scores).subspan(1); }
  std::string words() const;  // "no gene unseen", "degree 10 to 29"
};

struct LabelEvaluation {
  std::string label;
  std::vector<Scores> scores = {};  // the model first, then the baselines, then members
  uint64_t units = 0;               // of the part's units, those in which it was measured
  // The Pearson correlation that noise leaves to any model (screen/noise.h); NaN: not known.
  double ceiling = kNotDefined;
  // Groups without a measured sample are left out. Both are empty in an evaluation of an older
  // version.
  std::vector<GroupScores> groups = {};
  std::vector<TailScores> tails = {};
  // Of an ensemble, on parts other than validation, where that is there to choose by.
  std::optional<Uncertainty> uncertainty = {};

  const Scores& model() const { return scores.at(0); }
  std::span<const Scores> baselines() const { return std::span(scores).subspan(1); }
  // The baseline with the highest Pearson correlation, or null where none has one.
  const Scores* best_baseline() const { return best_of(baselines()); }
};

// The metrics in every draw, so that evaluations can be compared draw by draw.
struct PartDraws {
  std::vector<std::string> predictors = {};  // [P] the model first
  std::vector<float> values = {};            // [P, rounds, L, 3] in the order of kMetrics
};

struct PartEvaluation {
  std::string part;
  uint64_t samples = 0;
  std::vector<LabelEvaluation> labels = {};
  // What was resampled: "pairs"; empty: samples, by an older version, which did not say.
  std::string unit = {};
  std::string why = {};     // why it is samples, where that is not what the split says
  uint64_t units = 0;       // how many
  uint64_t units_hash = 0;  // two evaluations with the same one, the same samples and the same
                            // rounds have met the same draws
  PartDraws draws = {};     // not read back with the rest (evaluation_file.h)

  const char* unit_words() const { return unit.empty() ? "samples" : unit.c_str(); }
};

struct Evaluation {
  std::string split, checkpoint;
  int bootstrap = 0;  // rounds
  std::vector<PartEvaluation> parts = {};
  std::vector<std::string> notes = {};
  // Of one that was read: whether checksums say that it is as it was written, and its predictions.
  bool is_checked = false;
  FileSet files = {};
  double level = kBootstrapLevel;  // of the intervals; NaN: not said

  const PartEvaluation* part(std::string_view name) const;  // null where it was not evaluated
  // The part that a reader looks at first: test, else validation, else whatever there is, or null.
  const PartEvaluation* main_part() const;
};

// Throws Error when a part is given twice.
Evaluation evaluate(const EvaluationInput& input, Progress& progress = Progress::none());

}  // namespace lacuna
