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
  if (scores.is_member) json["is_member"] = true;
  json.update(to_json(scores.metrics));
  if (scores.intervals)
    for (const auto& metric : kMetrics)
      json["interval"][metric.name] = to_json(*scores.intervals.*metric.interval);
  if (scores.difference) json["difference"] = to_json(*scores.difference);
  return json;
}

Json tail_estimate(const Estimate& estimate) {
  return {{"value", estimate.value}, {"interval", {estimate.low, estimate.high}}};
}

Json to_json(const TailScore& score) {
  Json json = {{"average_precision", tail_estimate(score.average_precision)},
               {"precision_at_k", tail_estimate(score.precision_at_k)}};
  if (score.is_member) json["is_member"] = true;
  if (score.predictor == "model") return json;
  json["lead"] = tail_estimate(score.lead);
  json["model_is"] = name(score.standing());
  return json;
}

// {"model": {...}, "baselines": {name: {...}}}
template <class Score>
Json predictors_to_json(const std::vector<Score>& scores) {
  Json baselines = Json::object();
  for (size_t i = 1; i < scores.size(); ++i) baselines[scores[i].predictor] = to_json(scores[i]);
  return {{"model", to_json(scores.at(0))}, {"baselines", baselines}};
}

Json to_json(const TailScores& tail) {
  Json json = {{"tail", tail.tail},
               {"threshold", tail.threshold},
               {"count", tail.count},
               {"samples", tail.samples}};
  json.update(predictors_to_json(tail.scores));
  return json;
}

Json to_json(const GroupScores& group) {
  Json json = {{"by", group.by}, {"name", group.name}, {"units", group.units}};
  json.update(predictors_to_json(group.scores));
  return json;
}

Json to_json(const Uncertainty& uncertainty) {
  Json coverages = Json::array();
  for (const Coverage& of : uncertainty.coverages)
    coverages.push_back({{"level", of.level}, {"covered", of.covered}, {"width", of.width}});
  return {{"calibrated_on", "validation"},
          {"rank_correlation", uncertainty.rank_correlation},
          {"coverage", coverages}};
}

Json to_json(const LabelEvaluation& label) {
  Json json = predictors_to_json(label.scores);
  for (const GroupScores& group : label.groups) json["groups"].push_back(to_json(group));
  for (const TailScores& tail : label.tails) json["tails"].push_back(to_json(tail));
  if (label.uncertainty) json["uncertainty"] = to_json(*label.uncertainty);
  return json;
}

Json to_json(const PartEvaluation& part) {
  Json labels = Json::object();
  for (const auto& label : part.labels) {
    labels[label.label] = to_json(label);
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

// The first ensembles did not say it of their members.
bool is_member(const std::string& predictor, const Json& json) {
  return json.value("is_member", predictor.starts_with("member "));
}

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
  scores.is_member = is_member(predictor, json);
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

std::vector<Scores> predictors_from(const Json& json) {
  std::vector<Scores> scores = {scores_from("model", json.at("model"))};
  const Json baselines = json.value("baselines", Json::object());
  for (const auto& [baseline, metrics] : baselines.items())
    scores.push_back(scores_from(baseline, metrics));
  return scores;
}

Estimate tail_estimate_from(const Json& json) {
  const Interval interval = interval_from(json.at("interval"));
  return {number_from(json.at("value")), interval.low, interval.high};
}

TailScore tail_score_from(const std::string& predictor, const Json& json) {
  TailScore score = {.predictor = predictor,
                     .average_precision = tail_estimate_from(json.at("average_precision")),
                     .precision_at_k = tail_estimate_from(json.at("precision_at_k"))};
  score.is_member = is_member(predictor, json);
  if (json.contains("lead")) score.lead = tail_estimate_from(json.at("lead"));
  return score;
}

TailScores tail_from(const Json& json) {
  TailScores tail = {.tail = json.at("tail").get<std::string>(),
                     .threshold = number_from(json.at("threshold")),
                     .count = count_of(json, "count"),
                     .samples = count_of(json, "samples"),
                     .scores = {tail_score_from("model", json.at("model"))}};
  const Json baselines = json.value("baselines", Json::object());
  for (const auto& [baseline, score] : baselines.items())
    tail.scores.push_back(tail_score_from(baseline, score));
  return tail;
}

void take_units(std::vector<Scores>& scores, uint64_t units) {
  for (Scores& one : scores)
    if (one.difference && units > 0) one.difference->units = units;
}

GroupScores group_from(const Json& json) {
  GroupScores group = {.by = json.at("by").get<std::string>(),
                       .name = json.at("name").get<std::string>(),
                       .scores = predictors_from(json),
                       .units = count_of(json, "units")};
  take_units(group.scores, group.units);
  return group;
}

Uncertainty uncertainty_from(const Json& json) {
  Uncertainty uncertainty = {.rank_correlation = number_from(json.at("rank_correlation"))};
  for (const Json& of : json.at("coverage"))
    uncertainty.coverages.push_back(
        {number_from(of.at("level")), number_from(of.at("covered")), number_from(of.at("width"))});
  return uncertainty;
}

PartEvaluation part_from(const std::string& name, const Json& json) {
  PartEvaluation part = {name, count_of(json, "samples"), {}};
  for (const auto& [label_name, label] : json.at("labels").items()) {
    LabelEvaluation scores = {label_name, predictors_from(label)};
    scores.units = count_of(label, "units");
    scores.ceiling = number_of(label, "noise_ceiling");
    for (const Json& group : label.value("groups", Json::array()))
      scores.groups.push_back(group_from(group));
    for (const Json& tail : label.value("tails", Json::array()))
      scores.tails.push_back(tail_from(tail));
    if (label.contains("uncertainty"))
      scores.uncertainty = uncertainty_from(label.at("uncertainty"));
    part.labels.push_back(std::move(scores));
  }
  if (!json.contains("resampled")) return part;
  const Json& resampled = json.at("resampled");
  part.unit = resampled.at("unit").get<std::string>();
  part.why = text_of(resampled, "why");
  part.units = count_of(resampled, "count");
  part.units_hash = hash_from_hex(resampled.at("xxh3").get<std::string>());
  part.draws.predictors = json.at("predictors").get<std::vector<std::string>>();
  for (LabelEvaluation& label : part.labels) take_units(label.scores, label.units);
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
  if (!part.spread.empty()) writer.add(file("spread"), Array::from(part.spread, shape));
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
    for (const char* what : {"sample", "predicted", "measured", "spread", "draws"})
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

void read_baselines(const fs::path& run, const Evaluation& evaluation, PartPredictions& part) {
  const PartEvaluation* evaluated = evaluation.part(name(part.part));
  LACUNA_ASSERT(evaluated);
  const size_t labels = evaluated->labels.size();
  for (const std::string& predictor : evaluated->draws.predictors) {
    const std::string file = prediction_file(name(part.part), ("baseline." + predictor).c_str());
    if (!evaluation.files.listed(file)) continue;  // the model, or fitted on another screen
    const Array array = read_npy(evaluation.files.find(file));
    if (array.dtype() != DType::f32 || array.shape() != Shape{part.samples.size(), labels})
      throw Error("{} does not belong to its evaluation.json; {}", (run / file).string(),
                  again(run));
    const auto values = array.as<float>();
    BaselinePredictions baseline = {.name = predictor,
                                    .predicted = {values.begin(), values.end()},
                                    .notes = std::vector<std::string>(labels),
                                    .is_fitted = std::vector<bool>(labels, false)};
    for (size_t l = 0; l < labels; ++l)
      for (const Scores& scores : evaluated->labels[l].scores)
        if (scores.predictor == predictor) {
          baseline.is_fitted[l] = true;
          baseline.notes[l] = scores.note;
        }
    part.baselines.push_back(std::move(baseline));
  }
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
