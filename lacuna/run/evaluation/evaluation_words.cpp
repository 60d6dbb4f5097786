#include "lacuna/run/evaluation/evaluation_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <utility>

#include "lacuna/core/text/text.h"

namespace lacuna {
namespace {

constexpr const char* kNotComputed = "not computed";

std::string metric_text(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.4g}", value);
}

std::string interval_text(const Interval& interval) {
  if (std::isnan(interval.low)) return "-";
  return fmt::format("{:.4g} to {:.4g}", interval.low, interval.high);
}

// Its last two cells: the model minus this predictor, and what the model is.
void add_difference(const Scores& scores, std::vector<std::string>& row) {
  if (scores.predictor == "model") {
    row.insert(row.end(), {"", ""});
  } else if (!scores.difference) {
    row.insert(row.end(), {kNotComputed, kNotComputed});
  } else {
    row.push_back(difference_text(*scores.difference));
    row.emplace_back(name(standing(*scores.difference)));
  }
}

// "ahead of mean, gene; not told apart from ridge"
std::string standing_text(const LabelEvaluation& label) {
  static constexpr std::pair<Standing, const char*> kWords[] = {
      {Standing::ahead, "ahead of"},
      {Standing::not_told_apart, "not told apart from"},
      {Standing::behind, "behind"},
      {Standing::not_defined, "not to be compared with"}};
  std::map<Standing, std::vector<std::string>> names;
  for (size_t i = 1; i < label.scores.size(); ++i)
    if (const auto& difference = label.scores[i].difference)
      names[standing(*difference)].push_back(label.scores[i].predictor);
  std::vector<std::string> words;
  for (const auto& [standing, word] : kWords)
    if (names.contains(standing))
      words.push_back(fmt::format("{} {}", word, fmt::join(names[standing], ", ")));
  return fmt::format("{}", fmt::join(words, "; "));
}

// Where repeats tell how noisy the measurements are.
std::vector<std::string> ceiling_lines(const Evaluation& evaluation) {
  std::vector<std::string> lines;
  for (const auto& part : evaluation.parts)
    for (const auto& label : part.labels)
      if (!std::isnan(label.ceiling))
        lines.push_back(fmt::format("{}: {}", part.part, ceiling_text(label)));
  return lines;
}

}  // namespace

std::string ceiling_text(const LabelEvaluation& label) {
  return fmt::format(
      "noise ceiling of '{}': Pearson {:.3f}; measured repeats differ so much that no model can "
      "be expected above it",
      label.label, label.ceiling);
}

std::string difference_text(const Difference& difference) {
  const MetricField& field = judged_by(difference);
  const double value = difference.value.*field.value;
  if (std::isnan(value)) return "-";
  return fmt::format("{} {:+.4g} ({})", field.title, value,
                     interval_text(difference.interval.*field.interval));
}

std::vector<std::vector<std::string>> evaluation_rows(const Evaluation& evaluation) {
  const bool has_intervals = evaluation.bootstrap > 0;
  bool several_labels = false;
  for (const auto& part : evaluation.parts)
    several_labels = several_labels || part.labels.size() > 1;
  std::vector<std::vector<std::string>> rows = {{"part"}};
  if (several_labels) rows[0].push_back("label");
  rows[0].insert(rows[0].end(), {"predictor", "measured"});
  for (const auto& metric : kMetrics) {
    rows[0].push_back(metric.title);
    if (has_intervals) rows[0].push_back(fmt::format("{:.0f}%", 100 * kBootstrapLevel));
  }
  if (has_intervals) rows[0].insert(rows[0].end(), {"model minus it", "model is"});
  for (const auto& part : evaluation.parts)
    for (const auto& label : part.labels)
      for (const auto& scores : label.scores) {
        std::vector<std::string> row = {part.part};
        if (several_labels) row.push_back(label.label);
        row.insert(row.end(), {scores.predictor, std::to_string(scores.metrics.count)});
        for (const auto& metric : kMetrics) {
          row.push_back(metric_text(scores.metrics.*metric.value));
          if (has_intervals)
            row.push_back(scores.intervals ? interval_text(*scores.intervals.*metric.interval)
                                           : kNotComputed);
        }
        if (has_intervals) add_difference(scores, row);
        rows.push_back(std::move(row));
      }
  return rows;
}

std::vector<std::string> evaluation_lines(const Evaluation& evaluation) {
  std::vector<std::string> lines = ceiling_lines(evaluation);
  if (evaluation.bootstrap == 0) return lines;
  for (const auto& part : evaluation.parts)
    lines.push_back(fmt::format("{}: intervals are the middle {:.0f}% of {} draws of its {} {}{}",
                                part.part, 100 * kBootstrapLevel,
                                with_commas(uint64_t(evaluation.bootstrap)),
                                with_commas(part.unit.empty() ? part.samples : part.units),
                                part.unit_words(), part.why.empty() ? "" : " (" + part.why + ")"));
  for (const auto& part : evaluation.parts)
    for (const auto& label : part.labels)
      if (const std::string words = standing_text(label); !words.empty())
        lines.push_back(fmt::format("{}: on '{}' the model is {}", part.part, label.label, words));
  return lines;
}

}  // namespace lacuna
