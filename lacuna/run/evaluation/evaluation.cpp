#include "lacuna/run/evaluation/evaluation.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"

namespace lacuna {
namespace {

constexpr uint64_t kSeed = 0;  // of the bootstrap

// The baseline of that name; a new one is fitted to no label yet.
BaselinePredictions& find_or_add(PartPredictions& part, const std::string& name,
                                 const std::string& fitted_on, size_t labels) {
  for (BaselinePredictions& baseline : part.baselines)
    if (baseline.name == name && baseline.fitted_on == fitted_on) return baseline;
  part.baselines.push_back({name, std::vector<float>(part.samples.size() * labels),
                            std::vector<std::string>(labels), std::vector<bool>(labels),
                            fitted_on});
  return part.baselines.back();
}

// One label of a part: its predictors, as far as they were fitted to it.
struct LabelColumns {
  std::vector<std::vector<float>> predicted;        // [predictors][S], the model first
  std::vector<const BaselinePredictions*> sources;  // [predictors], null for the model
  std::vector<size_t> numbers;                      // [predictors] among all of the part
};

LabelColumns columns_of_label(const PartPredictions& part, size_t labels, size_t l) {
  LabelColumns columns = {{label_column(part.predicted, labels, l)}, {nullptr}, {0}};
  for (size_t b = 0; b < part.baselines.size(); ++b) {
    const BaselinePredictions& baseline = part.baselines[b];
    LACUNA_ASSERT(baseline.predicted.size() == part.predicted.size());
    if (!baseline.is_fitted.empty() && !baseline.is_fitted[l]) continue;
    columns.predicted.push_back(label_column(baseline.predicted, labels, l));
    columns.sources.push_back(&baseline);
    columns.numbers.push_back(b + 1);
  }
  return columns;
}

// Puts the draws of label l where they belong in [P, rounds, L, 3].
void keep_draws(const std::vector<Draws>& draws, const std::vector<size_t>& numbers, size_t labels,
                size_t l, std::vector<float>& values) {
  for (size_t p = 0; p < draws.size(); ++p)
    for (size_t r = 0; r < draws[p].size(); ++r)
      for (size_t m = 0; m < kMetrics.size(); ++m)
        values[((numbers[p] * draws[p].size() + r) * labels + l) * kMetrics.size() + m] =
            float(draws[p][r].*kMetrics[m].value);
}

Difference paired(const Scores& model, const Scores& baseline, const Draws& model_draws,
                  const Draws& baseline_draws, uint64_t units) {
  Difference difference =
      difference_of(model.metrics, baseline.metrics, model_draws, baseline_draws);
  difference.units = units;
  return difference;
}

uint64_t hash_of(const HeldOutUnits& units) {
  Hasher hasher;
  hasher.add(std::as_bytes(std::span(units.ptr)));
  hasher.add(std::as_bytes(std::span(units.units)));
  return hasher.value();
}

PartEvaluation evaluate_part(const EvaluationInput& input, const PartPredictions& part) {
  const size_t labels = input.labels.size(), elements = part.samples.size() * labels;
  LACUNA_ASSERT(part.predicted.size() == elements && part.measured.size() == elements);
  const HeldOutUnits units = part.units ? *part.units : each_sample(part.samples.size());
  LACUNA_ASSERT(units.size() == part.samples.size());
  PartEvaluation result = {std::string(name(part.part)), part.samples.size(), {}};
  result.unit = units.unit;
  result.why = units.why;
  result.units = units.count;
  result.units_hash = hash_of(units);
  result.draws.predictors = {"model"};
  for (const auto& baseline : part.baselines) result.draws.predictors.push_back(baseline.label());
  const size_t rounds = size_t(input.bootstrap);
  result.draws.values.assign(result.draws.predictors.size() * rounds * labels * kMetrics.size(),
                             std::numeric_limits<float>::quiet_NaN());
  for (size_t l = 0; l < labels; ++l) {
    const std::vector<float> measured = label_column(part.measured, labels, l);
    const LabelColumns columns = columns_of_label(part, labels, l);
    const std::vector<Draws> draws =
        bootstrap(columns.predicted, measured, units, kSeed, input.bootstrap);
    keep_draws(draws, columns.numbers, labels, l, result.draws.values);
    LabelEvaluation label = {input.labels[l], {}};
    label.units = measured_units(measured, units);
    if (!part.ceilings.empty()) label.ceiling = part.ceilings[l];
    for (size_t p = 0; p < draws.size(); ++p) {
      const BaselinePredictions* source = columns.sources[p];
      Scores scores = {source ? source->label() : "model",
                       source && !source->notes.empty() ? source->notes[l] : "",
                       compute_metrics(columns.predicted[p], measured)};
      if (rounds > 0) scores.intervals = interval_of(draws[p]);
      if (rounds > 0 && source)
        scores.difference = paired(label.scores[0], scores, draws[0], draws[p], label.units);
      label.scores.push_back(std::move(scores));
    }
    result.labels.push_back(std::move(label));
  }
  return result;
}

}  // namespace

std::vector<float> measured_labels(const Samples& samples, std::span<const uint64_t> labels,
                                   std::span<const uint64_t> chosen) {
  const std::span<const float> all = samples.labels.as<float>();  // [S, labels of the screen]
  std::vector<float> measured;
  measured.reserve(chosen.size() * labels.size());
  for (uint64_t sample : chosen)
    for (uint64_t label : labels) {
      LACUNA_ASSERT(sample < samples.size() && label < samples.label_count());
      measured.push_back(all[sample * samples.label_count() + label]);
    }
  return measured;
}

std::vector<double> noise_ceilings(const Screen& screen, std::span<const uint64_t> labels,
                                   std::span<const uint64_t> chosen) {
  std::vector<double> ceilings;
  for (const uint64_t label : labels)
    ceilings.push_back(
        noise_ceiling(screen.samples(), screen.noise(), label, chosen).value_or(kNotDefined));
  return ceilings;
}

Estimate Scores::estimate(const MetricField& field) const {
  const Interval interval =
      intervals ? *intervals.*field.interval : Interval{kNotDefined, kNotDefined};
  return {metrics.*field.value, interval.low, interval.high};
}

const Scores* LabelEvaluation::best_baseline() const {
  const Scores* best = nullptr;
  for (const Scores& baseline : baselines())
    if (std::isfinite(baseline.metrics.pearson) &&
        (!best || baseline.metrics.pearson > best->metrics.pearson))
      best = &baseline;
  return best;
}

const PartEvaluation* Evaluation::part(std::string_view name) const {
  for (const PartEvaluation& part : parts)
    if (part.part == name) return &part;
  return nullptr;
}

const PartEvaluation* Evaluation::main_part() const {
  for (const char* name : {"test", "validation"})
    if (const PartEvaluation* found = part(name)) return found;
  return parts.empty() ? nullptr : &parts[0];
}

std::string BaselinePredictions::label() const {
  return fitted_on.empty() ? name : fmt::format("{} (fitted on {})", name, fitted_on);
}

void add_baselines(EvaluationInput& input, const FittingSamples& fitting, const Samples& samples,
                   const BaselineLimits& limits) {
  const size_t labels = fitting.labels.size();
  LACUNA_ASSERT(labels == input.labels.size());
  const std::string where =
      fitting.fitted_on.empty() ? "" : fmt::format(" (fitted on {})", fitting.fitted_on);
  const auto note = [&](const std::string& words) { input.notes.push_back(words + where); };
  for (size_t l = 0; l < labels; ++l)
    for (const Baseline& fit : fit_baselines(fitting.samples, fitting.gene_count, fitting.split,
                                             fitting.labels[l], note, limits, fitting.weights))
      for (auto& part : input.parts) {
        BaselinePredictions& baseline = find_or_add(part, fit.name, fitting.fitted_on, labels);
        const std::vector<float> predicted = fit.predict(samples, part.samples);
        for (size_t s = 0; s < predicted.size(); ++s)
          baseline.predicted[s * labels + l] = predicted[s];
        baseline.notes[l] = fit.note;
        baseline.is_fitted[l] = true;
      }
}

Evaluation evaluate(const EvaluationInput& input) {
  Evaluation evaluation = {input.split, input.checkpoint, input.bootstrap, {}, input.notes};
  for (const auto& part : input.parts) {
    for (const auto& other : evaluation.parts)
      if (other.part == name(part.part))
        throw Error("part '{}' is to be evaluated twice; name it once in evaluate.parts",
                    other.part);
    evaluation.parts.push_back(evaluate_part(input, part));
  }
  return evaluation;
}

}  // namespace lacuna
