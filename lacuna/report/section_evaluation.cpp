#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <span>

#include "lacuna/core/text/text.h"
#include "lacuna/report/html.h"
#include "lacuna/report/row_charts.h"
#include "lacuna/report/sections.h"
#include "lacuna/run/evaluation/evaluation_words.h"

namespace lacuna::report {
namespace {

std::string not_evaluated(const RunContents& run) {
  return note(
      fmt::format("Not evaluated yet: `lacuna evaluate {}`.", shell_word(run.path.string())));
}

// ---- baselines

// What the model is, and below it by how much; three short lines, because the table is wide.
Cell difference_cell(const std::optional<Difference>& difference) {
  if (!difference) return {"<span class=\"pale\">not computed</span>", true};
  const MetricField& metric = judged_by(*difference);
  const Estimate judged = difference->estimate(metric);
  const auto text = [&](double value) { return metric_text(metric, value); };
  std::string out = fmt::format("<span class=\"whole\">{}</span>", name(standing(*difference)));
  if (std::isfinite(judged.value))
    out += fmt::format("<br><span class=\"whole\">{} {}</span>", metric.title, text(judged.value));
  if (std::isfinite(judged.low) && std::isfinite(judged.high))
    out += fmt::format("<br><span class=\"whole pale\">[{}, {}]</span>", text(judged.low),
                       text(judged.high));
  return {out, true};
}

TableRow scores_row(const Scores& scores, const std::string& about, bool is_strong) {
  const std::string more =
      about.empty() ? "" : fmt::format("<br><span class=\"pale\">{}</span>", escape(about));
  return {.cells = {{escape(scores.predictor) + more, false},
                    {score_html(scores, kPearson), true},
                    {score_html(scores, kSpearman), true},
                    {score_html(scores, kMse), true},
                    count_cell(scores.metrics.count)},
          .is_strong = is_strong};
}

// What a baseline does (docs/evaluation.md has more), and what the evaluation noted about it.
std::string about_baseline(const Scores& baseline) {
  static const std::map<std::string, std::string> kAbout = {
      {"mean", "the mean of the training labels"},
      {"gene", "an additive effect of each gene"},
      {"pair", "additive effects, and an offset for the recurring pair"},
      {"ridge", "ridge regression on genes"},
      {"ridge_pairs", "ridge regression on genes and pairs"},
      {"network", "ridge regression on genes and on what the networks say of their pairs"},
      {"mlp", "a small network on gene embeddings, without the graph"}};
  const std::string& name = baseline.predictor;
  const auto known = kAbout.find(name.substr(0, name.find(" (fitted on ")));
  const std::string about = known == kAbout.end() ? "" : known->second;
  return about + (about.empty() || baseline.note.empty() ? "" : "; ") + baseline.note;
}

// Baselines that predict the same, as the first of them.
struct EqualBaselines {
  const Scores* scores;
  std::vector<std::string> names;
};

bool has_equal_metrics(const Metrics& a, const Metrics& b) {
  if (a.count != b.count) return false;
  for (const MetricField& metric : kMetrics) {
    const double x = a.*metric.value, y = b.*metric.value;
    if (std::isnan(x) != std::isnan(y)) return false;
    if (!std::isnan(x) && std::abs(x - y) > 1e-6 * std::max(std::abs(x), std::abs(y))) return false;
  }
  return true;
}

std::vector<EqualBaselines> merged(std::span<const Scores> baselines) {
  std::vector<EqualBaselines> result;
  for (const Scores& baseline : baselines) {
    const auto same = std::find_if(result.begin(), result.end(), [&](const EqualBaselines& equal) {
      return has_equal_metrics(equal.scores->metrics, baseline.metrics);
    });
    if (same != result.end())
      same->names.push_back(baseline.predictor);
    else
      result.push_back({&baseline, {baseline.predictor}});
  }
  return result;
}

// Why they are equal, as far as that can be told.
std::string why_equal(const std::vector<std::string>& names) {
  const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
  if ((has("gene") && has("pair")) || (has("ridge") && has("ridge_pairs")))
    return "the same scores: no sample of this part removes a pair that recurs in training, so "
           "that pairs add nothing";
  if (has("mean"))
    return "the same scores: training never removes the genes of this part, so that they have no "
           "effect";
  return "the same scores on this part";
}

// Of an ensemble: whether its intervals hold what they say.
std::string coverage_block(const LabelEvaluation& label) {
  if (!label.uncertainty) return "";
  const auto cell = [](double value, const std::string& text) {
    return Cell{std::isfinite(value) ? text : "<span class=\"pale\">not defined</span>", true};
  };
  std::vector<TableRow> rows;
  for (const Coverage& of : label.uncertainty->coverages)
    rows.push_back({.cells = {{fmt::format("{:.0f}%", 100 * of.level), true},
                              cell(of.covered, fmt::format("{:.1f}%", 100 * of.covered)),
                              cell(of.width, number(of.width))}});
  return figure(
      fmt::format("Intervals of '{}' from the spread over members", label.label),
      table({"interval of", "samples inside", "mean width"}, rows),
      fmt::format("Calibrated on validation: an interval is wider where members disagree. Fewer "
                  "samples inside than it is an interval of: this part is unlike validation. "
                  "Spearman of spread and absolute error: {}.",
                  correlation(label.uncertainty->rank_correlation)));
}

std::string label_block(const PartEvaluation& part, const LabelEvaluation& label) {
  const bool has_baselines = !label.baselines().empty();
  std::vector<TableRow> rows = {scores_row(label.model(), "", true)};
  if (has_baselines) rows[0].cells.push_back({"", true});
  std::vector<ForestRow> forest = {{"model", estimates_of(label.model()), 0, true}};
  for (const auto& [scores, names] : merged(label.baselines())) {
    Scores row = *scores;
    row.predictor = fmt::format("{}", fmt::join(names, " = "));
    rows.push_back(
        scores_row(row, names.size() > 1 ? why_equal(names) : about_baseline(*scores), false));
    rows.back().cells.push_back(difference_cell(scores->difference));
    forest.push_back({row.predictor, estimates_of(*scores), scores->is_member ? 2 : 1, false});
  }
  std::string out = figure(
      fmt::format("'{}' on the {} part ({} samples)", label.label, part.part,
                  with_commas(part.samples)),
      forest_plot(
          {.panels = metric_panels(), .rows = forest, .ceiling = ceiling_of(&part, label.label)}),
      has_baselines ? "" : "No baselines were evaluated.");
  std::vector<std::string> head = {"", "Pearson", "Spearman", "mean squared error",
                                   "measured samples"};
  if (has_baselines) head.push_back("the model is");
  const std::string ceiling = std::isnan(label.ceiling) ? "" : note(ceiling_text(label));
  return out + sortable_table(head, rows) + ceiling + coverage_block(label);
}

// What the intervals of a part are over, and what is made of the differences.
std::string drawn_words(const Evaluation& evaluation, const PartEvaluation& part) {
  const std::string count = part.units > 0 ? with_commas(part.units) + " " : "";
  std::string words =
      fmt::format("{} part: lines and brackets are {}s over its {}{}{}{}.", part.part,
                  interval_words(evaluation), count, part.unit_words(),
                  part.why.empty() ? "" : fmt::format(" ({})", part.why),
                  evaluation.bootstrap > 0
                      ? fmt::format(", {} draws", with_commas(uint64_t(evaluation.bootstrap)))
                      : "");
  words[0] = char(std::toupper(words[0]));
  return words;
}

std::string part_block(const PartEvaluation& part) {
  if (part.labels.size() == 1) return label_block(part, part.labels[0]);
  std::string out;
  for (const auto& label : part.labels)
    out += fold(label.label, label_block(part, label), &label == &part.labels[0]);
  return out;
}

}  // namespace

std::string baselines_section(const RunContents& run) {
  const PartEvaluation* main = run.main_part();
  if (!main) return not_evaluated(run);
  const Evaluation& evaluation = *run.evaluation;
  std::string words;
  if (run.ensemble)
    words = fmt::format("The model is the mean over {} members, which stand below the baselines. ",
                        run.ensemble->members.size());
  else if (!evaluation.checkpoint.empty())
    words = fmt::format("Checkpoint '{}'. ", evaluation.checkpoint);
  words +=
      "The same samples and the same draws for the model and for the baselines. The model is ahead "
      "of a baseline, or behind it, where the interval of the difference does not hold 0. ";
  words += drawn_words(evaluation, *main);
  std::string out = note(words);
  for (const std::string& left_out : evaluation.notes) out += note(left_out);
  out += part_block(*main);
  for (const auto& part : run.evaluation->parts)
    if (&part != main)
      out += fold(fmt::format("The {} part", part.part),
                  note(drawn_words(evaluation, part)) + part_block(part), false);
  return out;
}

std::string not_predicted(const RunContents& run) {
  return note(
      fmt::format("There are no predictions beside evaluation.json; `lacuna evaluate {}` "
                  "writes them.",
                  shell_word(run.path.string())));
}

}  // namespace lacuna::report
