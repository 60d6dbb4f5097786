#include "lacuna/run/compare/summary_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "lacuna/core/seal.h"
#include "lacuna/core/text/csv.h"
#include "lacuna/core/text/printable.h"
#include "lacuna/run/json_file.h"

namespace lacuna {
namespace {

constexpr std::array<Spread SummaryRow::*, 3> kRowSpreads = {
    &SummaryRow::pearson, &SummaryRow::spearman, &SummaryRow::mse};
constexpr std::array<Spread DifferenceSpread::*, 3> kRowDifferences = {
    &DifferenceSpread::pearson, &DifferenceSpread::spearman, &DifferenceSpread::mse};

// ---- to JSON and CSV; what is not defined is null, or empty

Json to_json(const Spread& spread) {
  return {{"runs", spread.runs},
          {"mean", spread.mean},
          {"sd", spread.sd},
          {"min", spread.min},
          {"max", spread.max}};
}

// With the interval of the mean, where there is one.
Json score_to_json(const Spread& spread) {
  Json json = to_json(spread);
  if (!std::isnan(spread.interval.low))
    json["interval"] = {spread.interval.low, spread.interval.high};
  return json;
}

// Its intervals are those of the draws.
Json to_json(const DifferenceSpread& difference) {
  Json json;
  for (size_t m = 0; m < kMetrics.size(); ++m) {
    const Interval& interval = difference.mean.interval.*kMetrics[m].interval;
    json[kMetrics[m].name] = to_json(difference.*kRowDifferences[m]);
    json[kMetrics[m].name]["interval"] = {interval.low, interval.high};
  }
  json["judged_by"] = judged_by(difference.mean).name;
  json["model_is"] = name(standing(difference.mean));
  return json;
}

Json to_json(const Comparison& comparison) {
  Json failures = Json::array(), rows = Json::array();
  for (const auto& failure : comparison.failures)
    failures.push_back({{"run", failure.run}, {"message", printable(failure.message)}});
  for (const auto& row : comparison.rows) {
    Json settings = Json::object();
    for (size_t v = 0; v < row.values.size(); ++v) settings[comparison.keys[v]] = row.values[v];
    rows.push_back({{"split", row.split},
                    {"settings", settings},
                    {"part", row.part},
                    {"label", row.label},
                    {"predictor", row.predictor}});
    for (size_t m = 0; m < kMetrics.size(); ++m)
      rows.back()[kMetrics[m].name] = score_to_json(row.*kRowSpreads[m]);
    if (!std::isnan(row.ceiling)) rows.back()["noise_ceiling"] = row.ceiling;
    if (row.difference) rows.back()["difference"] = to_json(*row.difference);
    if (!row.problem.empty()) rows.back()["difference"] = {{"problem", row.problem}};
    for (const ApartSpread& apart : row.apart) {
      Json json = {{"samples", apart.samples}, {"score", apart.score}};
      json.update(score_to_json(apart.spread));
      rows.back()["apart"].push_back(std::move(json));
    }
  }
  Json json = {{"format", "lacuna.summary"},
               {"version", 1},
               {"runs", {{"total", comparison.total}, {"finished", comparison.finished}}},
               {"failures", failures}};
  if (!comparison.held_out.empty()) json["held_out"] = comparison.held_out;
  json["rows"] = rows;
  return json;
}

std::string csv_number(double value) {
  return std::isnan(value) ? "" : fmt::format("{:.9g}", value);
}

// Five cells of a line; empty where there is no difference. What the model is stands on
// the line of the metric that it is judged by.
std::string csv_difference(const SummaryRow& row, size_t metric) {
  if (!row.difference) return ",,,,,";
  const Spread& spread = *row.difference.*kRowDifferences[metric];
  const Interval& interval = row.difference->mean.interval.*kMetrics[metric].interval;
  std::string text;
  for (double value : {spread.mean, spread.sd, interval.low, interval.high})
    text += "," + csv_number(value);
  const bool is_judge = &judged_by(row.difference->mean) == &kMetrics[metric];
  return fmt::format("{},{}", text, is_judge ? name(standing(row.difference->mean)) : "");
}

// A line a metric. The interval of the mean comes last, and only where a row has one: what was
// written without it stays the same.
std::string to_csv(const Comparison& comparison) {
  const bool with_intervals = has_intervals(comparison);
  std::string text = "split";
  for (const auto& key : comparison.keys) text += "," + csv_cell(key);
  text +=
      ",part,label,predictor,metric,runs,mean,sd,min,max,difference,difference_sd,difference_low,"
      "difference_high,model_is";
  text += with_intervals ? ",mean_low,mean_high\n" : "\n";
  for (const auto& row : comparison.rows)
    for (size_t m = 0; m < kMetrics.size(); ++m) {
      const Spread& spread = row.*kRowSpreads[m];
      text += csv_cell(row.split);
      for (const auto& value : row.values) text += "," + csv_cell(value);
      for (const std::string& cell : {row.part, row.label, row.predictor})
        text += "," + csv_cell(cell);
      text += fmt::format(",{},{}", kMetrics[m].name, spread.runs);
      for (double value : {spread.mean, spread.sd, spread.min, spread.max})
        text += "," + csv_number(value);
      text += csv_difference(row, m);
      if (with_intervals)
        text += fmt::format(",{},{}", csv_number(spread.interval.low),
                            csv_number(spread.interval.high));
      text += "\n";
    }
  return text;
}

// ---- from JSON

Interval interval_from(const Json& json) {
  if (!json.contains("interval") || !json["interval"].is_array() || json["interval"].size() != 2)
    return {kNotDefined, kNotDefined};
  const auto end = [&](size_t i) {
    const Json& value = json["interval"][i];
    return value.is_null() ? kNotDefined : value.get<double>();
  };
  return {end(0), end(1)};
}

Spread spread_from(const Json& json) {
  return {.runs = count_of(json, "runs"),
          .mean = number_of(json, "mean"),
          .sd = number_of(json, "sd"),
          .min = number_of(json, "min"),
          .max = number_of(json, "max"),
          .interval = interval_from(json)};
}

void read_difference(const Json& json, GridSummaryRow& row) {
  if (json.contains("problem")) {
    row.row.problem = text_of(json, "problem");
    return;
  }
  DifferenceSpread difference;
  for (size_t m = 0; m < kMetrics.size(); ++m) {
    const Json& metric = json.at(kMetrics[m].name);
    difference.*kRowDifferences[m] = spread_from(metric);
    (difference.*kRowDifferences[m]).interval = {kNotDefined, kNotDefined};  // which is the draws'
    difference.mean.value.*kMetrics[m].value = (difference.*kRowDifferences[m]).mean;
    difference.mean.interval.*kMetrics[m].interval = interval_from(metric);
  }
  row.row.difference = difference;
  row.judged_by = text_of(json, "judged_by");
  row.model_is = text_of(json, "model_is");
}

GridSummaryRow row_from(const Json& json, std::vector<std::string>& keys) {
  GridSummaryRow row;
  row.row.split = text_of(json, "split");
  row.row.part = text_of(json, "part");
  row.row.label = text_of(json, "label");
  row.row.predictor = text_of(json, "predictor");
  const Json settings = json.value("settings", Json::object());
  for (const auto& [key, value] : settings.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    row.row.values.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
  for (size_t m = 0; m < kMetrics.size(); ++m)
    row.row.*kRowSpreads[m] = spread_from(json.at(kMetrics[m].name));
  row.row.ceiling = number_of(json, "noise_ceiling");
  if (json.contains("difference")) read_difference(json["difference"], row);
  for (const Json& apart : json.value("apart", Json::array()))
    row.row.apart.push_back(
        {text_of(apart, "samples"), text_of(apart, "score"), spread_from(apart)});
  return row;
}

}  // namespace

void write_summary(const fs::path& out, const Comparison& comparison) {
  write_sealed_json(out / "summary.json", to_json(comparison));
  write_text_atomically(out / "summary.csv", to_csv(comparison));
}

bool has_summary(const fs::path& grid) { return fs::exists(grid / "summary.json"); }

GridSummary read_summary(const fs::path& grid) {
  return read_json_file(
      grid / "summary.json", "lacuna.summary", "`lacuna compare` writes it again",
      [](const SealedJson& sealed) {
        const Json& json = sealed.json;
        GridSummary summary;
        summary.total = count_of(json.at("runs"), "total");
        summary.finished = count_of(json.at("runs"), "finished");
        for (const Json& failure : json.value("failures", Json::array()))
          summary.failures.push_back({text_of(failure, "run"), text_of(failure, "message")});
        for (const Json& words : json.value("held_out", Json::array()))
          if (words.is_string()) summary.held_out.push_back(words.get<std::string>());
        for (const Json& row : json.at("rows")) summary.rows.push_back(row_from(row, summary.keys));
        return summary;
      });
}

}  // namespace lacuna
