#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/text/text.h"
#include "lacuna/report/html.h"
#include "lacuna/report/row_charts.h"
#include "lacuna/report/scores/group_scores.h"
#include "lacuna/report/scores/tail_scores.h"
#include "lacuna/report/sections.h"
#include "lacuna/run/evaluation/apart/ranking.h"

namespace lacuna::report {
namespace {

constexpr uint64_t kLeastOfGroup = 3;  // of two samples every correlation is 1 or -1

std::string grouping_figure(const Grouping& grouping, double ceiling) {
  std::vector<ForestRow> rows;
  uint64_t left_out = grouping.left_out;
  for (const auto& [name, metrics] : grouping.groups) {
    if (metrics.count < kLeastOfGroup) {
      ++left_out;
      continue;
    }
    ForestRow row = {.name = fmt::format("{} ({})", name, with_commas(metrics.count)),
                     .estimates = {}};
    for (const MetricField& metric : kMetrics)
      row.estimates.push_back({.value = metrics.*metric.value});
    rows.push_back(std::move(row));
  }
  std::string text = "In brackets: measured samples.";
  if (left_out > 0) text += fmt::format(" {} smaller groups are left out.", with_commas(left_out));
  if (rows.empty()) return "";
  return figure("The model " + grouping.title,
                forest_plot({.panels = metric_panels(), .rows = rows, .ceiling = ceiling}), text);
}

const LabelEvaluation* evaluation_of(const PartEvaluation* part, const std::string& label) {
  if (part)
    for (const LabelEvaluation& of : part->labels)
      if (of.label == label) return &of;
  return nullptr;
}

// What the evaluation scored on its own (run/evaluation/apart/): the model and, below it, the best
// baseline of each group, with intervals.
std::string apart_figures(const LabelEvaluation& label) {
  std::string out;
  for (size_t first = 0; first < label.groups.size();) {
    const std::string& by = label.groups[first].by;
    std::vector<ForestRow> rows;
    size_t end = first;
    for (; end < label.groups.size() && label.groups[end].by == by; ++end) {
      const GroupScores& group = label.groups[end];
      if (group.model().metrics.count < kLeastOfGroup) continue;
      rows.push_back(
          {fmt::format("{} ({})", group.words(), with_commas(group.model().metrics.count)),
           estimates_of(group.model()), 0, true});
      if (const Scores* best = best_of(group.baselines()))
        rows.push_back({"best baseline: " + best->predictor, estimates_of(*best), 1, false});
    }
    first = end;
    if (rows.empty()) continue;
    out += figure(fmt::format("The model by {}", by),
                  forest_plot({.panels = metric_panels(), .rows = rows, .ceiling = label.ceiling}),
                  "In brackets: measured samples; groups of one or two are left out. Unseen: no "
                  "training sample removes the gene.");
  }
  return out;
}

const char* preposition(Standing standing) {
  return standing == Standing::ahead ? "of" : standing == Standing::behind ? "" : "from";
}

// Both tails as the evaluation scored them: the model, `network`, and the best baseline where that
// is another one, with intervals.
std::string tails_figure(const LabelEvaluation& label) {
  std::vector<ForestRow> rows;
  const auto add = [&](const std::string& name, const TailScore& score, bool is_model) {
    rows.push_back(
        {name, {score.average_precision, score.precision_at_k}, is_model ? 0 : 1, is_model});
  };
  std::vector<std::string> leads;
  for (const auto& tail : label.tails) {
    const std::string which = fmt::format("{} {:.0f}%", tail.tail, 100 * kTailShare);
    add(fmt::format("{} ({})", which, with_commas(tail.count)), tail.model(), true);
    const TailScore* best = tail.best_baseline();
    const TailScore* network = tail.find("network");
    if (network) add("network", *network, false);
    if (best && best != network) add("best baseline: " + best->predictor, *best, false);
    if (const TailScore* other = network ? network : best; other && std::isfinite(other->lead.low))
      leads.push_back(fmt::format("{} {} {} in the {} ({} [{}, {}])", name(other->standing()),
                                  preposition(other->standing()), other->predictor, which,
                                  correlation(other->lead.value), correlation(other->lead.low),
                                  correlation(other->lead.high)));
  }
  if (rows.empty()) return "";
  std::string text = fmt::format(
      "In brackets: samples of the tail, by what was measured. By chance both scores are {:.2f}; k "
      "is the size of the tail.",
      label.tails[0].chance());
  if (!leads.empty())
    text += fmt::format(" Of average precision the model is {}.", fmt::join(leads, ", "));
  return figure("The strongest samples, beside baselines",
                forest_plot({.panels = {"average precision", "precision at k"}, .rows = rows}),
                text);
}

// The split that the run was trained on, as the screen has it now.
const Split* split_of(const RunContents& run, const Screen& screen) {
  for (const Split& split : screen.splits())
    if (split.name == run.split()) return &split;
  return nullptr;
}

TableRow tail_row(const std::string& what, const TailScores& scores) {
  const auto cell = [](double value) {
    return std::isfinite(value) ? Cell{correlation(value), true}
                                : Cell{"<span class=\"pale\">not defined</span>", true};
  };
  TableRow row = {.cells = {text_cell(fmt::format("{} {:.4g}", what, scores.threshold)),
                            count_cell(scores.strong), cell(scores.auroc),
                            cell(scores.average_precision),
                            cell(double(scores.strong) / double(scores.samples))}};
  for (const double precision : scores.precision) row.cells.push_back(cell(precision));
  return row;
}

std::string tails_block(const PartPredictions& predictions, uint64_t label, double threshold) {
  const size_t labels = predictions.label_count();
  const auto predicted = label_column(predictions.predicted, labels, label);
  const auto measured = label_column(predictions.measured, labels, label);
  const bool is_given = std::isfinite(threshold);
  const double low = is_given ? -threshold : lower_threshold(measured, kTailShare);
  const double high = is_given ? threshold : upper_threshold(measured, kTailShare);
  const TailScores negative = tail_scores(predicted, measured, low, true);
  const TailScores positive = tail_scores(predicted, measured, high, false);
  if (negative.samples == 0) return "";
  std::vector<std::string> head = {"strong: measured", "samples", "AUROC", "average precision",
                                   "by chance"};
  for (const uint64_t k : kFirst) head.push_back(fmt::format("precision at {}", k));
  const std::string which =
      is_given ? std::string("The threshold is the one that was given.")
               : fmt::format(
                     "The thresholds leave the lowest and the highest {:.3g}% of this part; "
                     "`lacuna report --threshold 0.08` sets them to -0.08 and 0.08.",
                     100 * kTailShare);
  return figure("Strong negative and strong positive samples",
                table(head, {tail_row("at most", negative), tail_row("at least", positive)}),
                which +
                    " AUROC: 0.5 by chance. By chance the average precision, and the precision at "
                    "any k, is the share of strong samples.");
}

}  // namespace

std::string groups_section(const RunContents& run, const RunScreen& screen, double threshold) {
  if (run.predictions.empty()) return "";
  const PartPredictions& predictions = run.predictions[0];
  const auto names = run.label_names(predictions.label_count());
  const PartEvaluation* part = run.main_part();
  const bool has_screen = screen.facts && screen.has_same_samples;
  std::string out;
  for (uint64_t l = 0; l < std::min<uint64_t>(predictions.label_count(), kLabelsShown); ++l) {
    const LabelEvaluation* evaluated = evaluation_of(part, names[l]);
    std::string block = evaluated ? tails_figure(*evaluated) : "";
    block += tails_block(predictions, l, threshold);
    // An evaluation of an older version does not tell unseen genes apart.
    const bool is_apart = evaluated && !evaluated->groups.empty();
    if (is_apart) block += apart_figures(*evaluated);
    if (has_screen)
      for (const Grouping& grouping :
           group_scores(screen.facts->screen, predictions, l,
                        is_apart ? nullptr : split_of(run, screen.facts->screen)))
        block += grouping_figure(grouping, ceiling_of(part, names[l]));
    if (block.empty()) continue;
    out += predictions.label_count() == 1 ? block : fold(names[l], block, l == 0);
  }
  if (out.empty()) return "";
  return note(fmt::format("On the {} part.", name(predictions.part))) + out;
}

}  // namespace lacuna::report
