#include "lacuna/run/compare/summary_file.h"

#include <algorithm>
#include <array>

#include "lacuna/run/json_file.h"

namespace lacuna {
namespace {

constexpr std::array<Spread SummaryRow::*, 3> kRowSpreads = {
    &SummaryRow::pearson, &SummaryRow::spearman, &SummaryRow::mse};
constexpr std::array<Spread DifferenceSpread::*, 3> kRowDifferences = {
    &DifferenceSpread::pearson, &DifferenceSpread::spearman, &DifferenceSpread::mse};

Spread spread_from(const Json& json) {
  return {.runs = count_of(json, "runs"),
          .mean = number_of(json, "mean"),
          .sd = number_of(json, "sd"),
          .min = number_of(json, "min"),
          .max = number_of(json, "max")};
}

Interval interval_from(const Json& json) {
  if (!json.contains("interval") || !json["interval"].is_array() || json["interval"].size() != 2)
    return {kNotDefined, kNotDefined};
  const auto end = [&](size_t i) {
    const Json& value = json["interval"][i];
    return value.is_null() ? kNotDefined : value.get<double>();
  };
  return {end(0), end(1)};
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
  return row;
}

}  // namespace

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
