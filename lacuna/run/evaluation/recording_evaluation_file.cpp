#include <fmt/format.h>

#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/run/evaluation/recording_evaluation.h"
#include "lacuna/run/json_file.h"

namespace lacuna {
namespace {

constexpr const char* kRecordingEvaluationFormat = "lacuna.recording_evaluation";

Json to_json(const Estimate& estimate) { return {estimate.value, estimate.low, estimate.high}; }

double number_or_nan(const Json& json) { return json.is_null() ? kNotDefined : json.get<double>(); }

Estimate estimate_from(const Json& json) {
  return {number_or_nan(json.at(0)), number_or_nan(json.at(1)), number_or_nan(json.at(2))};
}

std::vector<double> numbers_from(const Json& json) {
  std::vector<double> numbers;
  for (const Json& one : json) numbers.push_back(number_or_nan(one));
  return numbers;
}

Json to_json(const std::vector<RecordingScore>& scores) {
  Json list = Json::array();
  for (const RecordingScore& score : scores)
    list.push_back({{"predictor", score.predictor},
                    {"bits_per_spike", to_json(score.bits_per_spike)},
                    {"correlation", to_json(score.correlation)},
                    {"lead", to_json(score.lead)}});
  return list;
}

std::vector<RecordingScore> scores_from(const Json& json) {
  std::vector<RecordingScore> scores;
  for (const Json& one : json)
    scores.push_back({one.at("predictor").get<std::string>(),
                      estimate_from(one.at("bits_per_spike")), estimate_from(one.at("correlation")),
                      estimate_from(one.at("lead"))});
  return scores;
}

Json to_json(const ScoredRows& rows) {
  return {{"name", rows.name},
          {"rows", rows.rows},
          {"trials", rows.trials},
          {"spikes", rows.spikes},
          {"scores", to_json(rows.scores)}};
}

ScoredRows scored_rows_from(const Json& json) {
  return {json.at("name").get<std::string>(), json.at("rows").get<uint64_t>(),
          json.at("trials").get<uint64_t>(), json.at("spikes").get<uint64_t>(),
          scores_from(json.at("scores"))};
}

Json to_json(const UnitEvaluation& unit) {
  return {{"unit", unit.unit},
          {"spikes", unit.spikes},
          {"mean", unit.mean},
          {"ceiling", unit.ceiling},
          {"bits_per_spike", unit.bits_per_spike},
          {"correlation", unit.correlation}};
}

UnitEvaluation unit_from(const Json& json) {
  return {json.at("unit").get<std::string>(),
          json.at("spikes").get<uint64_t>(),
          number_of(json, "mean"),
          number_of(json, "ceiling"),
          numbers_from(json.at("bits_per_spike")),
          numbers_from(json.at("correlation"))};
}

Json to_json(const RateTrace& trace) {
  return {{"unit", trace.unit},
          {"segment", trace.segment},
          {"repeats", trace.repeats},
          {"counts", trace.counts},
          {"rates", trace.rates}};
}

RateTrace trace_from(const Json& json) {
  RateTrace trace = {json.at("unit").get<std::string>(),
                     json.at("segment").get<std::string>(),
                     json.at("repeats").get<uint64_t>(),
                     numbers_from(json.at("counts")),
                     {}};
  for (const Json& one : json.at("rates")) trace.rates.push_back(numbers_from(one));
  return trace;
}

Json to_json(const SessionEvaluation& session) {
  Json segments = Json::array(), units = Json::array(), bins = Json::array();
  for (const ScoredRows& segment : session.segments) segments.push_back(to_json(segment));
  for (const UnitEvaluation& unit : session.units) units.push_back(to_json(unit));
  for (const RateBin& bin : session.bins) bins.push_back({bin.rate, bin.count, bin.rows});
  return {{"all", to_json(session.all)},
          {"subject", session.subject},
          {"rate", session.rate},
          {"segments", segments},
          {"units", units},
          {"repeated", session.repeated},
          {"ceiling", session.ceiling},
          {"bins", bins},
          {"trace", session.trace ? to_json(*session.trace) : Json()}};
}

SessionEvaluation session_from(const Json& json) {
  SessionEvaluation session = {.all = scored_rows_from(json.at("all")),
                               .subject = json.at("subject").get<std::string>(),
                               .rate = number_of(json, "rate")};
  for (const Json& one : json.at("segments")) session.segments.push_back(scored_rows_from(one));
  for (const Json& one : json.at("units")) session.units.push_back(unit_from(one));
  for (const Json& one : json.at("bins"))
    session.bins.push_back(
        {number_or_nan(one.at(0)), number_or_nan(one.at(1)), one.at(2).get<uint64_t>()});
  session.repeated = json.at("repeated").get<uint64_t>();
  session.ceiling = number_of(json, "ceiling");
  if (!json.at("trace").is_null()) session.trace = trace_from(json.at("trace"));
  return session;
}

std::string estimate_text(Estimate estimate) {
  for (double* value : {&estimate.value, &estimate.low, &estimate.high})
    if (std::abs(*value) < 5e-4) *value = 0;  // no sign that rounding gave it
  if (!std::isfinite(estimate.value)) return "-";
  // What rounds to 0 has no sign.
  const auto shown = [](double value) { return std::abs(value) < 0.0005 ? 0.0 : value; };
  const double value = shown(estimate.value);
  if (!std::isfinite(estimate.low)) return fmt::format("{:.3f}", value);
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", value, shown(estimate.low), shown(estimate.high));
}

}  // namespace

fs::path recording_evaluation_file(const fs::path& run) {
  return run / "recording_evaluation.json";
}

void write_recording_evaluation(const fs::path& run, const RecordingEvaluation& evaluation) {
  Json parts = Json::array();
  for (const RecordingPartEvaluation& part : evaluation.parts) {
    Json sessions = Json::array();
    for (const SessionEvaluation& session : part.sessions) sessions.push_back(to_json(session));
    parts.push_back(
        {{"part", part.part}, {"scores", to_json(part.scores)}, {"sessions", sessions}});
  }
  write_sealed_json(recording_evaluation_file(run), {{"format", kRecordingEvaluationFormat},
                                                     {"version", 1},
                                                     {"split", evaluation.split},
                                                     {"checkpoint", evaluation.checkpoint},
                                                     {"bootstrap", evaluation.bootstrap},
                                                     {"predictors", evaluation.predictors},
                                                     {"parts", parts},
                                                     {"notes", evaluation.notes},
                                                     {"fields", evaluation.field_sessions}});
}

RecordingEvaluation read_recording_evaluation(const fs::path& run) {
  return read_json_file(
      recording_evaluation_file(run), kRecordingEvaluationFormat,
      "`lacuna evaluate " + run.string() + "` writes it anew", [](const SealedJson& sealed) {
        const Json& json = sealed.json;
        RecordingEvaluation evaluation = {
            .split = text_of(json, "split"),
            .checkpoint = text_of(json, "checkpoint"),
            .bootstrap = json.at("bootstrap").get<int>(),
            .predictors = json.at("predictors").get<std::vector<std::string>>(),
            .notes = json.at("notes").get<std::vector<std::string>>(),
            .field_sessions = json.at("fields").get<std::vector<std::string>>()};
        for (const Json& one : json.at("parts")) {
          RecordingPartEvaluation part = {.part = one.at("part").get<std::string>(),
                                          .scores = scores_from(one.at("scores"))};
          for (const Json& session : one.at("sessions"))
            part.sessions.push_back(session_from(session));
          evaluation.parts.push_back(std::move(part));
        }
        return evaluation;
      });
}

std::vector<std::vector<std::string>> evaluation_rows(const RecordingPartEvaluation& part) {
  std::vector<std::vector<std::string>> rows = {
      {part.part, "predictor", "bits/spike", "correlation", "ceiling", "spikes"}};
  for (const SessionEvaluation& session : part.sessions)
    for (const RecordingScore& score : session.all.scores) {
      const bool is_first = &score == session.all.scores.data();
      rows.push_back(
          {is_first ? session.all.name : "", score.predictor, estimate_text(score.bits_per_spike),
           estimate_text(score.correlation),
           is_first && std::isfinite(session.ceiling) ? fmt::format("{:.3f}", session.ceiling) : "",
           is_first ? with_commas(session.all.spikes) : ""});
    }
  if (part.sessions.size() > 1)
    for (const RecordingScore& score : part.scores)
      rows.push_back({&score == part.scores.data() ? "mean of sessions" : "", score.predictor,
                      estimate_text(score.bits_per_spike), estimate_text(score.correlation), "",
                      ""});
  return rows;
}

}  // namespace lacuna
