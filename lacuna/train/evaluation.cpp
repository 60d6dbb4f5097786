#include "lacuna/train/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/store/npy.h"

namespace lacuna {
namespace {

constexpr const char* kFormat = "lacuna.evaluation";
constexpr int kVersion = 1;
constexpr uint64_t kSeed = 0;  // of the bootstrap
constexpr double kLevel = 0.95;

struct MetricField {
  const char* name;
  const char* title;
  double Metrics::*value;
  Interval MetricIntervals::*interval;
};
constexpr std::array<MetricField, 3> kMetrics = {
    {{"pearson", "Pearson", &Metrics::pearson, &MetricIntervals::pearson},
     {"spearman", "Spearman", &Metrics::spearman, &MetricIntervals::spearman},
     {"mse", "MSE", &Metrics::mse, &MetricIntervals::mse}}};

// Column l of [S, L].
std::vector<float> column_of(const std::vector<float>& values, size_t labels, size_t l) {
  std::vector<float> column;
  column.reserve(values.size() / labels);
  for (size_t i = l; i < values.size(); i += labels) column.push_back(values[i]);
  return column;
}

Scores score(std::string predictor, std::string note, std::span<const float> predicted,
             std::span<const float> measured, int rounds) {
  Scores scores = {std::move(predictor), std::move(note), compute_metrics(predicted, measured), {}};
  if (rounds > 0) scores.intervals = bootstrap(predicted, measured, kSeed, rounds, kLevel);
  return scores;
}

// The baseline of that name; a new one is fitted to no label yet.
BaselinePredictions& find_or_add(PartPredictions& part, const std::string& name, size_t labels) {
  for (BaselinePredictions& baseline : part.baselines)
    if (baseline.name == name) return baseline;
  part.baselines.push_back({name, std::vector<float>(part.samples.size() * labels),
                            std::vector<std::string>(labels), std::vector<bool>(labels)});
  return part.baselines.back();
}

PartEvaluation evaluate_part(const EvaluationInput& input, const PartPredictions& part) {
  const size_t labels = input.labels.size(), elements = part.samples.size() * labels;
  LACUNA_ASSERT(part.predicted.size() == elements && part.measured.size() == elements);
  PartEvaluation result = {std::string(name(part.part)), part.samples.size(), {}};
  for (size_t l = 0; l < labels; ++l) {
    const std::vector<float> measured = column_of(part.measured, labels, l);
    LabelEvaluation label = {input.labels[l], {}};
    label.scores.push_back(
        score("model", "", column_of(part.predicted, labels, l), measured, input.bootstrap));
    for (const auto& baseline : part.baselines) {
      LACUNA_ASSERT(baseline.predicted.size() == elements);
      if (!baseline.is_fitted.empty() && !baseline.is_fitted[l]) continue;
      label.scores.push_back(score(baseline.name, baseline.notes.empty() ? "" : baseline.notes[l],
                                   column_of(baseline.predicted, labels, l), measured,
                                   input.bootstrap));
    }
    result.labels.push_back(std::move(label));
  }
  return result;
}

// ---- JSON; what is not defined is null

double number_from(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Json to_json(const Scores& scores) {
  Json json;
  if (!scores.note.empty()) json["note"] = scores.note;
  json["count"] = scores.metrics.count;
  for (const auto& metric : kMetrics) json[metric.name] = scores.metrics.*metric.value;
  if (!scores.intervals) return json;
  for (const auto& metric : kMetrics) {
    const Interval& interval = *scores.intervals.*metric.interval;
    json["interval"][metric.name] = {interval.low, interval.high};
  }
  return json;
}

Scores scores_from(const std::string& predictor, const Json& json) {
  Scores scores = {predictor, json.value("note", ""), {}, {}};
  scores.metrics.count = json.at("count").get<uint64_t>();
  for (const auto& metric : kMetrics)
    scores.metrics.*metric.value = number_from(json.at(metric.name));
  if (!json.contains("interval")) return scores;
  scores.intervals.emplace();
  for (const auto& metric : kMetrics) {
    const Json& ends = json.at("interval").at(metric.name);
    *scores.intervals.*metric.interval = {number_from(ends.at(0)), number_from(ends.at(1))};
  }
  return scores;
}

Json to_json(const Evaluation& evaluation) {
  Json parts = Json::object();
  for (const auto& part : evaluation.parts) {
    Json labels = Json::object();
    for (const auto& label : part.labels) {
      Json baselines = Json::object();
      for (size_t i = 1; i < label.scores.size(); ++i)
        baselines[label.scores[i].predictor] = to_json(label.scores[i]);
      labels[label.label] = {{"model", to_json(label.scores[0])}, {"baselines", baselines}};
    }
    parts[part.part] = {{"samples", part.samples}, {"labels", labels}};
  }
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"split", evaluation.split},
               {"checkpoint", evaluation.checkpoint},
               {"bootstrap", {{"rounds", evaluation.bootstrap}, {"level", kLevel}}},
               {"parts", parts}};
  if (!evaluation.notes.empty()) json["notes"] = evaluation.notes;
  return json;
}

Evaluation evaluation_from(const Json& json) {
  Evaluation evaluation = {json.at("split").get<std::string>(),
                           json.at("checkpoint").get<std::string>(),
                           json.at("bootstrap").at("rounds").get<int>(),
                           {},
                           json.value("notes", std::vector<std::string>())};
  for (const auto& [part_name, part] : json.at("parts").items()) {
    PartEvaluation result = {part_name, part.at("samples").get<uint64_t>(), {}};
    for (const auto& [label_name, label] : part.at("labels").items()) {
      LabelEvaluation scores = {label_name, {scores_from("model", label.at("model"))}};
      for (const auto& [baseline, metrics] : label.at("baselines").items())
        scores.scores.push_back(scores_from(baseline, metrics));
      result.labels.push_back(std::move(scores));
    }
    evaluation.parts.push_back(std::move(result));
  }
  return evaluation;
}

// ---- files

Array sample_numbers(const std::vector<uint64_t>& samples) {
  const bool small = std::all_of(samples.begin(), samples.end(), [](uint64_t sample) {
    return sample <= std::numeric_limits<uint32_t>::max();
  });
  if (!small) return Array::from(samples);
  return Array::from(std::vector<uint32_t>(samples.begin(), samples.end()));
}

fs::path prediction_file(const fs::path& directory, Part part, const char* what) {
  return directory / fmt::format("{}.{}.npy", name(part), what);
}

void write_predictions(const fs::path& directory, const PartPredictions& part, uint64_t labels) {
  const auto path = [&](const char* what) { return prediction_file(directory, part.part, what); };
  const Shape shape = {part.samples.size(), labels};
  write_npy(path("sample"), sample_numbers(part.samples));
  write_npy(path("predicted"), Array::from(part.predicted, shape));
  write_npy(path("measured"), Array::from(part.measured, shape));
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw Error("{}: cannot remove it: {}", path.string(), error.message());
}

// What an earlier evaluation wrote, and nothing else that may lie there.
void remove_evaluation(const fs::path& run) {
  remove_file(run / "evaluation.json");
  for (const Part part : {Part::train, Part::validation, Part::test, Part::unused})
    for (const char* what : {"sample", "predicted", "measured"})
      remove_file(prediction_file(run / "predictions", part, what));
}

// ---- table

std::string metric_text(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.4g}", value);
}

std::string interval_text(const Interval& interval) {
  if (std::isnan(interval.low)) return "-";
  return fmt::format("{:.4g} to {:.4g}", interval.low, interval.high);
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

void add_baselines(EvaluationInput& input, const Samples& samples, uint32_t gene_count,
                   const Split& split, std::span<const uint64_t> labels,
                   const BaselineLimits& limits) {
  LACUNA_ASSERT(labels.size() == input.labels.size());
  const auto note = [&](const std::string& words) { input.notes.push_back(words); };
  for (size_t l = 0; l < labels.size(); ++l)
    for (const Baseline& fit : fit_baselines(samples, gene_count, split, labels[l], note, limits))
      for (auto& part : input.parts) {
        BaselinePredictions& baseline = find_or_add(part, fit.name, labels.size());
        const std::vector<float> predicted = fit.predict(samples, part.samples);
        for (size_t s = 0; s < predicted.size(); ++s)
          baseline.predicted[s * labels.size() + l] = predicted[s];
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

void write_evaluation(const fs::path& run, const EvaluationInput& input,
                      const Evaluation& evaluation) {
  remove_evaluation(run);
  std::error_code error;
  fs::create_directories(run / "predictions", error);
  if (error) throw Error("cannot create {}: {}", (run / "predictions").string(), error.message());
  for (const auto& part : input.parts)
    write_predictions(run / "predictions", part, input.labels.size());
  sync_directory(run / "predictions");
  write_text_atomically(run / "evaluation.json", to_json(evaluation).dump(2) + "\n");
}

Evaluation read_evaluation(const fs::path& run) {
  const fs::path path = run / "evaluation.json";
  if (!fs::exists(path))
    throw Error("{}: the run has not been evaluated; run `lacuna evaluate {}`", run.string(),
                run.string());
  const std::string text = read_text(path);
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat || json.at("version").get<int>() > kVersion)
      throw Error("{}: made by another version; run `lacuna evaluate {}` again", path.string(),
                  run.string());
    return evaluation_from(json);
  } catch (const Json::exception&) {
    throw Error("{}: damaged; run `lacuna evaluate {}` again", path.string(), run.string());
  }
}

std::vector<std::vector<std::string>> evaluation_rows(const Evaluation& evaluation) {
  bool several_labels = false;
  for (const auto& part : evaluation.parts)
    several_labels = several_labels || part.labels.size() > 1;
  std::vector<std::vector<std::string>> rows = {{"part"}};
  if (several_labels) rows[0].push_back("label");
  rows[0].insert(rows[0].end(), {"predictor", "measured"});
  for (const auto& metric : kMetrics) {
    rows[0].push_back(metric.title);
    if (evaluation.bootstrap > 0) rows[0].push_back(fmt::format("{:.0f}%", 100 * kLevel));
  }
  for (const auto& part : evaluation.parts)
    for (const auto& label : part.labels)
      for (const auto& scores : label.scores) {
        std::vector<std::string> row = {part.part};
        if (several_labels) row.push_back(label.label);
        row.insert(row.end(), {scores.predictor, std::to_string(scores.metrics.count)});
        for (const auto& metric : kMetrics) {
          row.push_back(metric_text(scores.metrics.*metric.value));
          if (evaluation.bootstrap > 0)
            row.push_back(interval_text(*scores.intervals.*metric.interval));
        }
        rows.push_back(std::move(row));
      }
  return rows;
}

}  // namespace lacuna
