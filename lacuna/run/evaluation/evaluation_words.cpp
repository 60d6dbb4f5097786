#include "lacuna/run/evaluation/evaluation_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

// "test: of 'fitness' 51% lie in the intervals of 50%, ...; Spearman of spread and error 0.31"
std::string coverage_text(const PartEvaluation& part, const LabelEvaluation& label) {
  std::vector<std::string> levels;
  for (const Coverage& of : label.uncertainty->coverages)
    levels.push_back(fmt::format(
        "{} in those of {:.0f}%",
        std::isnan(of.covered) ? "-" : fmt::format("{:.1f}%", 100 * of.covered), 100 * of.level));
  return fmt::format(
      "{}: intervals from the spread over members, calibrated on validation: of '{}' lie {}; "
      "Spearman of spread and error {}",
      part.part, label.label, fmt::join(levels, ", "),
      metric_text(label.uncertainty->rank_correlation));
}

bool has_several_labels(const Evaluation& evaluation) {
  bool several = false;
  for (const auto& part : evaluation.parts) several = several || part.labels.size() > 1;
  return several;
}

// Six cells: the score's name, the model's, the best baseline, its own, the difference, what the
// model is.
std::vector<std::string> group_cells(const GroupScores& group) {
  std::vector<std::string> cells = {kPearson.title, metric_text(group.model().metrics.pearson)};
  const Scores* best = best_of(group.baselines());
  if (!best) return {cells[0], cells[1], "-", "-", "-", "-"};
  cells.insert(cells.end(), {best->predictor, metric_text(best->metrics.pearson)});
  if (best->difference)
    add_difference(*best, cells);
  else
    cells.insert(cells.end(), {"-", "-"});
  return cells;
}

// The same of average precision, by which the best baseline is chosen, and of precision at k.
std::vector<std::vector<std::string>> tail_cells(const TailScores& tail) {
  const std::string average = metric_text(tail.model().average_precision.value),
                    at_k = metric_text(tail.model().precision_at_k.value);
  const TailScore* best = tail.best_baseline();
  if (!best)
    return {{"average precision", average, "-", "-", "-", "-"},
            {"precision at k", at_k, "-", "-", "-", "-"}};
  const std::string lead = fmt::format("{:+.4g} ({})", best->lead.value,
                                       interval_text({best->lead.low, best->lead.high}));
  return {
      {"average precision", average, best->predictor, metric_text(best->average_precision.value),
       std::isnan(best->lead.value) ? "-" : lead, std::string(name(best->standing()))},
      {"precision at k", at_k, best->predictor, metric_text(best->precision_at_k.value), "-", "-"}};
}

}  // namespace

std::string ceiling_text(const LabelEvaluation& label) {
  const std::string ceiling =
      fmt::format("noise ceiling of '{}': Pearson {:.3f}", label.label, label.ceiling);
  if (label.model().metrics.pearson > label.ceiling)
    return ceiling +
           "; the model is above it, which no model is on average: by chance, on few samples; or "
           "because the samples that were measured several times are noisier than these, so that "
           "it "
           "is no limit here; or because the model knew what it was asked (the same measurements "
           "in "
           "training and here)";
  return ceiling + "; measured repeats differ so much that no model can be expected above it";
}

std::string network_text(const LabelEvaluation& label) {
  for (const Scores& scores : label.baselines())
    if (scores.predictor == "network" && scores.difference &&
        standing(*scores.difference) != Standing::ahead)
      return "not ahead of network, a ridge that reads the gene networks: simple arithmetic makes "
             "as much of them";
  return "";
}

std::vector<std::vector<std::string>> apart_rows(const Evaluation& evaluation) {
  const bool several_labels = has_several_labels(evaluation);
  std::vector<std::vector<std::string>> rows = {{"part"}};
  if (several_labels) rows[0].push_back("label");
  rows[0].insert(rows[0].end(), {"samples", "measured", "score", "model", "best baseline", "its",
                                 "model minus it", "model is"});
  for (const auto& part : evaluation.parts)
    for (const auto& label : part.labels) {
      const auto add = [&](const std::string& which, uint64_t count,
                           const std::vector<std::string>& cells) {
        std::vector<std::string> row = {part.part};
        if (several_labels) row.push_back(label.label);
        row.insert(row.end(), {which, std::to_string(count)});
        row.insert(row.end(), cells.begin(), cells.end());
        rows.push_back(std::move(row));
      };
      for (const GroupScores& group : label.groups)
        add(group.words(), group.model().metrics.count, group_cells(group));
      for (const TailScores& tail : label.tails)
        for (const auto& cells : tail_cells(tail))
          add(fmt::format("the {} {:.0f}%", tail.tail, 100 * kTailShare), tail.count, cells);
    }
  if (rows.size() == 1) return {};
  return rows;
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
  const bool several_labels = has_several_labels(evaluation);
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
      for (const std::string& words : {standing_text(label), network_text(label)})
        if (!words.empty())
          lines.push_back(
              fmt::format("{}: on '{}' the model is {}", part.part, label.label, words));
  for (const auto& part : evaluation.parts)
    for (const auto& label : part.labels)
      if (label.uncertainty) lines.push_back(coverage_text(part, label));
  return lines;
}

}  // namespace lacuna
