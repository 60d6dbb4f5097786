// How well a run's model and the simple baselines predict the parts of its split, and the files of
// a run that say so:
//
//   evaluation.json                        metrics of the model and of each baseline, by part and
//                                          label, with bootstrap intervals (docs/evaluation.md)
//   predictions/<part>.sample.npy          [S] u32 (u64 beyond 2^32): numbers of the samples
//   predictions/<part>.predicted.npy       [S, L] f32: the model's, in the labels' own units
//   predictions/<part>.measured.npy        [S, L] f32: NaN = not measured
//
//   EvaluationInput input = {.split = "random", .checkpoint = "best_pearson"};
//   input.labels = {"fitness"};
//   const auto measured = measured_labels(samples, {{0}}, numbers);
//   input.parts.push_back({Part::test, numbers, predicted, measured});
//   add_baselines(input, samples, gene_count, split, {{0}});
//   write_evaluation(run, input, evaluate(input));
//
// Metrics are those of metrics.h. All predictors of a part and label are drawn with the same seed,
// so their intervals come from the same draws.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/file.h"
#include "lacuna/screen/samples.h"
#include "lacuna/train/baselines.h"
#include "lacuna/train/metrics.h"

namespace lacuna {

struct BaselinePredictions {
  std::string name;                     // mean, gene, pair, ridge, ridge_pairs, mlp
  std::vector<float> predicted;         // [S, L]
  std::vector<std::string> notes = {};  // [L] how it was fitted, or empty
  std::vector<bool> is_fitted = {};     // [L] false: left out of this label; empty: all true
};

struct PartPredictions {
  Part part;
  std::vector<uint64_t> samples;  // [S]
  std::vector<float> predicted;   // [S, L]
  std::vector<float> measured;    // [S, L]
  std::vector<BaselinePredictions> baselines = {};
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

// Fits the baselines of baselines.h for each label (by index, as many as input.labels) and appends
// their predictions to all parts, and to input.notes what was left out. Other predictors (the MLP)
// are appended by whoever made them.
void add_baselines(EvaluationInput& input, const Samples& samples, uint32_t gene_count,
                   const Split& split, std::span<const uint64_t> labels,
                   const BaselineLimits& limits = {});

struct Scores {
  std::string predictor;  // "model", or a baseline's name
  std::string note = {};
  Metrics metrics = {};
  std::optional<MetricIntervals> intervals = {};  // middle 95%
};

struct LabelEvaluation {
  std::string label;
  std::vector<Scores> scores = {};  // the model first, then the baselines
};

struct PartEvaluation {
  std::string part;
  uint64_t samples = 0;
  std::vector<LabelEvaluation> labels = {};
};

struct Evaluation {
  std::string split, checkpoint;
  int bootstrap = 0;  // rounds
  std::vector<PartEvaluation> parts = {};
  std::vector<std::string> notes = {};
};

// Throws Error when a part is given twice.
Evaluation evaluate(const EvaluationInput& input);

// Writes the files above. Those of an earlier evaluation go first, and no others that lie there;
// evaluation.json comes last and by rename, so a run without one has no evaluation, whatever lies
// in predictions/.
void write_evaluation(const fs::path& run, const EvaluationInput& input,
                      const Evaluation& evaluation);
// Throws Error when the run has none, or a damaged one.
Evaluation read_evaluation(const fs::path& run);

// A table for people: a head, then a row a predictor. Columns: part, label (where there are
// several), predictor, measured, Pearson, Spearman and MSE, each with its interval where there is
// one; a dash for what is not defined.
std::vector<std::vector<std::string>> evaluation_rows(const Evaluation& evaluation);

}  // namespace lacuna
