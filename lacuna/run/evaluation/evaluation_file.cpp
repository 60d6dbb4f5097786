#include "lacuna/run/evaluation/evaluation_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/text/text.h"
#include "lacuna/run/json_file.h"
#include "lacuna/store/npy.h"

namespace lacuna {
namespace {

constexpr const char* kFormat = "lacuna.evaluation";
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
  Json json = Json::object();
  if (!scores.note.empty()) json["note"] = scores.note;
  json.update(to_json(scores.metrics));
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
    if (!std::isnan(label.ceiling)) labels[label.label]["noise_ceiling"] = label.ceiling;
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
               {"version", 1},
               {"split", evaluation.split},
               {"checkpoint", evaluation.checkpoint},
               {"bootstrap", {{"rounds", evaluation.bootstrap}, {"level", evaluation.level}}},
               {"parts", parts}};
  if (!evaluation.notes.empty()) json["notes"] = evaluation.notes;
  return json;
}

// ---- from JSON

double number_from(const Json& json) { return json.is_null() ? kNotDefined : json.get<double>(); }

// Two numbers; null, of an older version: not defined.
Interval interval_from(const Json& json) {
  if (json.is_null()) return {kNotDefined, kNotDefined};
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
  Scores scores = {predictor, text_of(json, "note"), metrics_from_json(json), {}};
  if (json.contains("interval")) {
    scores.intervals.emplace();
    for (const auto& metric : kMetrics)
      *scores.intervals.*metric.interval =
          interval_from(json.at("interval").value(metric.name, Json()));
  }
  if (json.contains("difference")) {
    scores.difference = difference_from(json.at("difference"));
    scores.difference->value.count = scores.metrics.count;
  }
  return scores;
}

PartEvaluation part_from(const std::string& name, const Json& json) {
  PartEvaluation part = {name, count_of(json, "samples"), {}};
  for (const auto& [label_name, label] : json.at("labels").items()) {
    LabelEvaluation scores = {label_name, {scores_from("model", label.at("model"))}};
    const Json baselines = label.value("baselines", Json::object());
    for (const auto& [baseline, metrics] : baselines.items())
      scores.scores.push_back(scores_from(baseline, metrics));
    scores.units = count_of(label, "units");
    scores.ceiling = number_of(label, "noise_ceiling");
    part.labels.push_back(std::move(scores));
  }
  if (!json.contains("resampled")) return part;
  const Json& resampled = json.at("resampled");
  part.unit = resampled.at("unit").get<std::string>();
  part.why = text_of(resampled, "why");
  part.units = count_of(resampled, "count");
  part.units_hash = hash_from_hex(resampled.at("xxh3").get<std::string>());
  part.draws.predictors = json.at("predictors").get<std::vector<std::string>>();
  for (LabelEvaluation& label : part.labels)
    for (Scores& scores : label.scores)
      if (scores.difference && label.units > 0) scores.difference->units = label.units;
  return part;
}

Evaluation evaluation_from(const Json& json) {
  Evaluation evaluation = {.split = text_of(json, "split"),
                           .checkpoint = text_of(json, "checkpoint"),
                           .notes = json.value("notes", std::vector<std::string>())};
  const Json bootstrap = json.value("bootstrap", Json::object());
  evaluation.bootstrap = int(std::min<uint64_t>(count_of(bootstrap, "rounds"), 1'000'000'000));
  evaluation.level = number_of(bootstrap, "level");
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

std::string again(const fs::path& run) {
  return fmt::format("run `lacuna evaluate {}` again", shell_word(run.string()));
}

// Checked.
FileSet files_of(const fs::path& run, const Json& json) {
  try {
    FileSet files = FileSet::from_index(run, json);
    files.check();
    return files;
  } catch (const Error& error) {
    throw Error("{}; {}", error.what(), again(run));
  }
}

std::string prediction_file(std::string_view part, const char* what) {
  return fmt::format("{}/{}.{}.npy", kFolder, part, what);
}

std::vector<uint64_t> read_sample_numbers(const fs::path& file) {
  const Array array = read_npy(file);
  if (array.dtype() == DType::u64) {
    const auto values = array.as<uint64_t>();
    return {values.begin(), values.end()};
  }
  if (array.dtype() != DType::u32)
    throw Error("{} has dtype {}, where numbers of samples are u32 or u64", file.string(),
                name(array.dtype()));
  const auto values = array.as<uint32_t>();
  return {values.begin(), values.end()};
}

PartPredictions read_part(const fs::path& run, const FileSet& files, Part part) {
  // With checksums the file that has them; an older version's as it stands.
  const auto path = [&](const char* what) {
    const std::string file = prediction_file(name(part), what);
    return files.files().empty() ? run / file : files.find(file);
  };
  PartPredictions result = {part, read_sample_numbers(path("sample")), {}, {}};
  const Array predicted = read_npy(path("predicted")), measured = read_npy(path("measured"));
  const Shape& shape = predicted.shape();
  if ((shape.size() != 1 && shape.size() != 2) || shape[0] != result.samples.size() ||
      measured.shape() != shape || predicted.dtype() != DType::f32 ||
      measured.dtype() != DType::f32)
    throw Error(
        "{}.*.npy do not belong together: predicted and measured must be f32 [samples, "
        "labels] for the {} samples; {}",
        (run / kFolder / name(part)).string(), result.samples.size(), again(run));
  const auto copy = [](const Array& array) {
    const auto values = array.as<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  result.predicted = copy(predicted);
  result.measured = copy(measured);
  return result;
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
  if (!fs::exists(path))
    throw Error("{}: the run has not been evaluated; run `lacuna evaluate {}`", run.string(),
                shell_word(run.string()));
  return read_json_file(path, kFormat, again(run), [&](const SealedJson& sealed) {
    Evaluation evaluation = evaluation_from(sealed.json);
    evaluation.files = files_of(run, sealed.json);
    evaluation.is_checked = sealed.is_checked && sealed.json.contains("files");
    return evaluation;
  });
}

std::vector<PartPredictions> read_predictions(const fs::path& run, const Evaluation& evaluation) {
  std::vector<PartPredictions> all;
  const FileSet& files = evaluation.files;
  for (const Part part : {Part::test, Part::validation, Part::train, Part::unused}) {
    const std::string file = prediction_file(name(part), "predicted");
    const bool is_there =
        files.files().empty() ? fs::exists(run / file) : files.listed(file) != nullptr;
    if (is_there && evaluation.part(name(part))) all.push_back(read_part(run, files, part));
  }
  return all;
}

PartDraws read_draws(const Evaluation& evaluation, const PartEvaluation& part) {
  const std::string file = prediction_file(part.part, "draws");
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
