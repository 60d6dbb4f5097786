#include "lacuna/run/evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/run/evaluation/network/network_baseline.h"

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

// Which of how many labels.
struct LabelPlace {
  size_t labels, label;
};

// What a baseline predicts of one label of a part.
void add_label(PartPredictions& part, const std::string& name, const std::string& fitted_on,
               const LabelPlace& place, const std::vector<float>& predicted,
               const std::string& note) {
  BaselinePredictions& baseline = find_or_add(part, name, fitted_on, place.labels);
  for (size_t s = 0; s < predicted.size(); ++s)
    baseline.predicted[s * place.labels + place.label] = predicted[s];
  baseline.notes[place.label] = note;
  baseline.is_fitted[place.label] = true;
}

// fits: of baselines.h, of label l
void add_network(EvaluationInput& input, const FittingSamples& fitting, const Samples& samples,
                 const std::vector<GeneNetwork>& networks, const std::vector<Baseline>& fits,
                 size_t l, const BaselineNote& note, Progress& progress) {
  const auto ridge = std::find_if(fits.begin(), fits.end(),
                                  [](const Baseline& fit) { return fit.name == "ridge"; });
  if (ridge == fits.end())
    return note(
        fmt::format("left out for label '{}': network, which needs ridge", input.labels[l]));
  NetworkRequest request = {.networks = networks,
                            .samples = fitting.samples,
                            .split = fitting.split,
                            .label = fitting.labels[l],
                            .weights = fitting.weights,
                            .ridge = *ridge,
                            .others = samples,
                            .chosen = {}};
  for (const auto& part : input.parts) request.chosen.emplace_back(part.samples);
  const auto found = network_baseline(request, note, progress);
  if (!found) return;
  for (size_t p = 0; p < input.parts.size(); ++p)
    add_label(input.parts[p], "network", fitting.fitted_on, {input.labels.size(), l},
              found->predicted[p], found->note);
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

// Of all predictors of label l, the model first. draws: of the same measured samples
std::vector<Scores> score_all(const LabelColumns& columns, std::span<const float> measured,
                              const std::vector<Draws>& draws, const HeldOutUnits& units,
                              size_t l) {
  std::vector<Scores> all;
  for (size_t p = 0; p < draws.size(); ++p) {
    const BaselinePredictions* source = columns.sources[p];
    Scores scores = {source ? source->label() : "model",
                     source && !source->notes.empty() ? source->notes[l] : "",
                     compute_metrics(columns.predicted[p], measured)};
    scores.is_member = source && source->is_member;
    const bool has_draws = !draws[p].empty();
    if (has_draws) scores.intervals = interval_of(draws[p]);
    if (has_draws && source)
      scores.difference =
          paired(all[0], scores, draws[0], draws[p], measured_units(measured, units));
    all.push_back(std::move(scores));
  }
  return all;
}

// Called for what step_count() counts.
using StepDone = std::function<void()>;

// Every label of a part is drawn once for all samples, once for the tails, once for each group.
uint64_t step_count(const EvaluationInput& input) {
  uint64_t steps = 0;
  for (const PartPredictions& part : input.parts) {
    uint64_t of_label = 2;
    for (const SampleGrouping& grouping : part.groupings) of_label += grouping.names.size();
    steps += of_label * input.labels.size();
  }
  return steps;
}

void score_groups(const SampleGrouping& grouping, const LabelColumns& columns,
                  std::span<const float> measured, const HeldOutUnits& units, size_t l, int rounds,
                  std::vector<GroupScores>& groups, const StepDone& done) {
  LACUNA_ASSERT(grouping.group.size() == measured.size());
  for (size_t g = 0; g < grouping.names.size(); ++g) {
    std::vector<float> here(measured.size(), std::numeric_limits<float>::quiet_NaN());
    for (size_t s = 0; s < here.size(); ++s)
      if (grouping.group[s] == g) here[s] = measured[s];
    done();
    const uint64_t units_here = measured_units(here, units);
    if (units_here == 0) continue;
    const auto draws = bootstrap(columns.predicted, here, units, kSeed, rounds);
    groups.push_back({.by = grouping.by,
                      .name = grouping.names[g],
                      .scores = score_all(columns, here, draws, units, l),
                      .units = units_here});
  }
}

// Both tails; names and members as the label's scores have them.
std::vector<TailScores> score_tails(const LabelColumns& columns, const LabelEvaluation& label,
                                    std::span<const float> measured, const HeldOutUnits& units,
                                    int rounds) {
  std::vector<std::string> names;
  for (const Scores& scores : label.scores) names.push_back(scores.predictor);
  std::vector<TailScores> tails =
      tail_scores(names, columns.predicted, measured, units, kSeed, rounds);
  for (TailScores& tail : tails)
    for (size_t p = 0; p < tail.scores.size(); ++p)
      tail.scores[p].is_member = label.scores[p].is_member;
  return tails;
}

PartEvaluation evaluate_part(const EvaluationInput& input, const PartPredictions& part,
                             const StepDone& done) {
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
    done();
    keep_draws(draws, columns.numbers, labels, l, result.draws.values);
    LabelEvaluation label = {input.labels[l], score_all(columns, measured, draws, units, l)};
    label.units = measured_units(measured, units);
    if (!part.ceilings.empty()) label.ceiling = part.ceilings[l];
    for (const SampleGrouping& grouping : part.groupings)
      score_groups(grouping, columns, measured, units, l, input.bootstrap, label.groups, done);
    label.tails = score_tails(columns, label, measured, units, input.bootstrap);
    done();
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

const Scores* best_of(std::span<const Scores> scores) {
  const Scores* best = nullptr;
  for (const Scores& one : scores)
    if (!one.is_member && std::isfinite(one.metrics.pearson) &&
        (!best || one.metrics.pearson > best->metrics.pearson))
      best = &one;
  return best;
}

std::string GroupScores::words() const {
  if (by != "unseen genes") return fmt::format("{} {}", by, name);
  if (name == "none") return "no gene unseen";
  return fmt::format("{} {} unseen", name, name == "one" ? "gene" : "genes");
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
                   const BaselineLimits& limits, Progress& progress) {
  const size_t labels = fitting.labels.size();
  LACUNA_ASSERT(labels == input.labels.size());
  const std::string where =
      fitting.fitted_on.empty() ? "" : fmt::format(" (fitted on {})", fitting.fitted_on);
  const auto note = [&](const std::string& words) { input.notes.push_back(words + where); };
  const std::vector<GeneNetwork> networks =
      fitting.graph ? gene_networks(*fitting.graph) : std::vector<GeneNetwork>();
  for (size_t l = 0; l < labels; ++l) {
    const std::vector<Baseline> fits =
        fit_baselines(fitting.samples, fitting.gene_count, fitting.split, fitting.labels[l], note,
                      limits, fitting.weights);
    for (const Baseline& fit : fits)
      for (auto& part : input.parts)
        add_label(part, fit.name, fitting.fitted_on, {labels, l},
                  fit.predict(samples, part.samples), fit.note);
    if (!networks.empty()) add_network(input, fitting, samples, networks, fits, l, note, progress);
  }
}

namespace {

// What the spread of an ensemble says of the errors, calibrated on its validation part.
void judge_spreads(const EvaluationInput& input, Evaluation& evaluation) {
  const size_t labels = input.labels.size();
  const PartPredictions* validation = nullptr;
  for (const auto& part : input.parts)
    if (part.part == Part::validation && !part.spread.empty()) validation = &part;
  for (size_t p = 0; p < input.parts.size() && validation; ++p) {
    const PartPredictions& part = input.parts[p];
    if (&part == validation || part.spread.empty()) continue;
    for (size_t l = 0; l < labels; ++l) {
      const auto columns = [&](const PartPredictions& of) {
        return std::array{label_column(of.predicted, labels, l), label_column(of.spread, labels, l),
                          label_column(of.measured, labels, l)};
      };
      const auto chosen = columns(*validation), here = columns(part);
      evaluation.parts[p].labels[l].uncertainty =
          judge_spread({chosen[0], chosen[1], chosen[2]}, {here[0], here[1], here[2]});
    }
  }
}

}  // namespace

Evaluation evaluate(const EvaluationInput& input, Progress& progress) {
  Evaluation evaluation = {input.split, input.checkpoint, input.bootstrap, {}, input.notes};
  uint64_t steps = 0;
  progress.begin("evaluating", step_count(input), "groups of samples");
  for (const auto& part : input.parts) {
    for (const auto& other : evaluation.parts)
      if (other.part == name(part.part))
        throw Error("part '{}' is to be evaluated twice; name it once in evaluate.parts",
                    other.part);
    evaluation.parts.push_back(evaluate_part(input, part, [&] { progress.advance(++steps); }));
  }
  progress.end();
  judge_spreads(input, evaluation);
  return evaluation;
}

}  // namespace lacuna
