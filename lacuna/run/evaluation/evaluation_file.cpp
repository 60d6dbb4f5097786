#include "lacuna/run/evaluation/evaluation_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/seal.h"
#include "lacuna/store/npy.h"

namespace lacuna {
namespace {

constexpr const char* kFormat = "lacuna.evaluation";
constexpr int kVersion = 1;
constexpr const char* kFile = "evaluation.json";
constexpr const char* kFolder = "predictions";

// ---- to JSON; what is not defined is null

Json to_json(const Interval& interval) { return {interval.low, interval.high}; }

Json to_json(const Difference& difference) {
  Json json;
  for (const auto& metric : kMetrics)
    json[metric.name] = {{"value", difference.value.*metric.value},
                         {"interval", to_json(difference.interval.*metric.interval)}};
  json["judged_by"] = judged_by(difference).name;
  json["model_is"] = name(standing(difference));
  return json;
}

Json to_json(const Scores& scores) {
  Json json;
  if (!scores.note.empty()) json["note"] = scores.note;
  json["count"] = scores.metrics.count;
  for (const auto& metric : kMetrics) json[metric.name] = scores.metrics.*metric.value;
  if (scores.intervals)
    for (const auto& metric : kMetrics)
      json["interval"][metric.name] = to_json(*scores.intervals.*metric.interval);
  if (scores.difference) json["difference"] = to_json(*scores.difference);
  return json;
}

Json to_json(const PartEvaluation& part) {
  Json labels = Json::object();
  for (const auto& label : part.labels) {
    Json baselines = Json::object();
    for (size_t i = 1; i < label.scores.size(); ++i)
      baselines[label.scores[i].predictor] = to_json(label.scores[i]);
    labels[label.label] = {{"model", to_json(label.scores[0])}, {"baselines", baselines}};
    if (!part.unit.empty()) labels[label.label]["units"] = label.units;
  }
  Json json = {{"samples", part.samples}};
  if (!part.unit.empty()) {
    json["resampled"] = {
        {"unit", part.unit}, {"count", part.units}, {"xxh3", hex(part.units_hash)}};
    if (!part.why.empty()) json["resampled"]["why"] = part.why;
    json["predictors"] = part.draws.predictors;
  }
  json["labels"] = labels;
  return json;
}

Json to_json(const Evaluation& evaluation) {
  Json parts = Json::object();
  for (const auto& part : evaluation.parts) parts[part.part] = to_json(part);
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"split", evaluation.split},
               {"checkpoint", evaluation.checkpoint},
               {"bootstrap", {{"rounds", evaluation.bootstrap}, {"level", kBootstrapLevel}}},
               {"parts", parts}};
  if (!evaluation.notes.empty()) json["notes"] = evaluation.notes;
  return json;
}

// ---- from JSON

double number_from(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Interval interval_from(const Json& json) {
  return {number_from(json.at(0)), number_from(json.at(1))};
}

Difference difference_from(const Json& json) {
  Difference difference;
  for (const auto& metric : kMetrics) {
    const Json& of = json.at(metric.name);
    difference.value.*metric.value = number_from(of.at("value"));
    difference.interval.*metric.interval = interval_from(of.at("interval"));
  }
  return difference;
}

Scores scores_from(const std::string& predictor, const Json& json) {
  Scores scores = {predictor, json.value("note", ""), {}, {}};
  scores.metrics.count = json.at("count").get<uint64_t>();
  for (const auto& metric : kMetrics)
    scores.metrics.*metric.value = number_from(json.at(metric.name));
  if (json.contains("interval")) {
    scores.intervals.emplace();
    for (const auto& metric : kMetrics)
      *scores.intervals.*metric.interval = interval_from(json.at("interval").at(metric.name));
  }
  if (json.contains("difference")) {
    scores.difference = difference_from(json.at("difference"));
    scores.difference->value.count = scores.metrics.count;
  }
  return scores;
}

PartEvaluation part_from(const std::string& name, const Json& json) {
  PartEvaluation part = {name, json.at("samples").get<uint64_t>(), {}};
  for (const auto& [label_name, label] : json.at("labels").items()) {
    LabelEvaluation scores = {label_name, {scores_from("model", label.at("model"))}};
    for (const auto& [baseline, metrics] : label.at("baselines").items())
      scores.scores.push_back(scores_from(baseline, metrics));
    scores.units = label.value("units", uint64_t(0));
    part.labels.push_back(std::move(scores));
  }
  if (!json.contains("resampled")) return part;
  const Json& resampled = json.at("resampled");
  part.unit = resampled.at("unit").get<std::string>();
  part.why = resampled.value("why", "");
  part.units = resampled.at("count").get<uint64_t>();
  part.units_hash = hash_from_hex(resampled.at("xxh3").get<std::string>());
  part.draws.predictors = json.at("predictors").get<std::vector<std::string>>();
  for (LabelEvaluation& label : part.labels)
    for (Scores& scores : label.scores)
      if (scores.difference) scores.difference->units = label.units;
  return part;
}

Evaluation evaluation_from(const Json& json) {
  Evaluation evaluation = {json.at("split").get<std::string>(),
                           json.at("checkpoint").get<std::string>(),
                           json.at("bootstrap").at("rounds").get<int>(),
                           {},
                           json.value("notes", std::vector<std::string>())};
  for (const auto& [name, part] : json.at("parts").items())
    evaluation.parts.push_back(part_from(name, part));
  return evaluation;
}

// ---- arrays

Array sample_numbers(const std::vector<uint64_t>& samples) {
  const bool small = std::all_of(samples.begin(), samples.end(), [](uint64_t sample) {
    return sample <= std::numeric_limits<uint32_t>::max();
  });
  if (!small) return Array::from(samples);
  return Array::from(std::vector<uint32_t>(samples.begin(), samples.end()));
}

// A baseline's predictions, NaN for a label that it was left out of.
std::vector<float> kept_predictions(const BaselinePredictions& baseline, size_t labels) {
  std::vector<float> kept = baseline.predicted;
  if (baseline.is_fitted.empty()) return kept;
  for (size_t i = 0; i < kept.size(); ++i)
    if (!baseline.is_fitted[i % labels]) kept[i] = std::numeric_limits<float>::quiet_NaN();
  return kept;
}

void add_part(FileSetWriter& writer, const EvaluationInput& input, const PartPredictions& part,
              const PartEvaluation& evaluated) {
  const uint64_t labels = input.labels.size();
  const auto file = [&](const std::string& what) {
    return fmt::format("{}.{}.npy", name(part.part), what);
  };
  const Shape shape = {part.samples.size(), labels};
  writer.add(file("sample"), sample_numbers(part.samples));
  writer.add(file("predicted"), Array::from(part.predicted, shape));
  writer.add(file("measured"), Array::from(part.measured, shape));
  for (const BaselinePredictions& baseline : part.baselines)
    writer.add(file("baseline." + baseline.name + (baseline.fitted_on.empty() ? "" : ".other")),
               Array::from(kept_predictions(baseline, labels), shape));
  if (evaluated.draws.values.empty()) return;
  writer.add(file("draws"),
             Array::from(evaluated.draws.values, {evaluated.draws.predictors.size(),
                                                  uint64_t(input.bootstrap), labels, 3}));
}

// Checked. remedy: what to do where one is damaged.
FileSet files_of(const fs::path& run, const Json& json, const std::string& remedy) {
  try {
    FileSet files = FileSet::from_index(run, json);
    files.check();
    return files;
  } catch (const Error& error) {
    throw Error("{}; {}", error.what(), remedy);
  }
}

// What an evaluation writes into predictions/, of this version or an older one.
bool is_ours(const std::string& file) {
  for (const Part part : {Part::train, Part::validation, Part::test, Part::unused}) {
    const std::string stem = std::string(name(part)) + ".";
    for (const char* what : {"sample", "predicted", "measured", "draws"})
      if (file == stem + what + ".npy") return true;
    if (file.starts_with(stem + "baseline.") && file.ends_with(".npy")) return true;
  }
  return false;
}

}  // namespace

void write_evaluation(const fs::path& run, const EvaluationInput& input,
                      const Evaluation& evaluation) {
  FileSetWriter writer(run, kFile, kFolder);
  for (size_t p = 0; p < input.parts.size(); ++p)
    add_part(writer, input, input.parts[p], evaluation.parts.at(p));
  writer.commit(to_json(evaluation), is_ours);
}

Evaluation read_evaluation(const fs::path& run) {
  const fs::path path = run / kFile;
  const std::string again = fmt::format("run `lacuna evaluate {}` again", run.string());
  if (!fs::exists(path))
    throw Error("{}: the run has not been evaluated; run `lacuna evaluate {}`", run.string(),
                run.string());
  const SealedJson sealed = read_sealed_json(path);
  try {
    const Json& json = sealed.json;
    if (json.at("format") != kFormat || json.at("version").get<int>() > kVersion)
      throw Error("{}: made by another version; {}", path.string(), again);
    Evaluation evaluation = evaluation_from(json);
    evaluation.files = files_of(run, json, again);
    evaluation.is_checked = sealed.is_checked && json.contains("files");
    return evaluation;
  } catch (const Json::exception&) {
    throw Error("{}: damaged; {}", path.string(), again);
  }
}

PartDraws read_draws(const Evaluation& evaluation, const PartEvaluation& part) {
  const std::string file = fmt::format("{}/{}.draws.npy", kFolder, part.part);
  if (!evaluation.files.listed(file)) return {};
  const fs::path path = evaluation.files.find(file);
  const Array array = read_npy(path);
  const uint64_t predictors = part.draws.predictors.size();
  const Shape shape = {predictors, uint64_t(evaluation.bootstrap), part.labels.size(), 3};
  if (array.dtype() != DType::f32 || array.shape() != shape)
    throw Error("{} does not belong to its evaluation.json; run `lacuna evaluate` again",
                path.string());
  const auto values = array.as<float>();
  return {part.draws.predictors, {values.begin(), values.end()}};
}

}  // namespace lacuna
