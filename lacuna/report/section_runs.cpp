#include <fmt/format.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "lacuna/report/html.h"
#include "lacuna/report/row_charts.h"
#include "lacuna/report/sections.h"
#include "lacuna/report/svg.h"

namespace lacuna::report {
namespace {

// The noise ceiling of these runs, where it is one; else NaN.
double common_ceiling(std::span<const RunContents> runs) {
  std::vector<double> ceilings;
  for (const RunContents& run : runs)
    if (const PartEvaluation* part = run.main_part())
      for (const auto& label : part->labels) ceilings.push_back(label.ceiling);
  for (const double ceiling : ceilings)
    if (ceiling != ceilings[0]) return kNotDefined;
  return ceilings.empty() ? kNotDefined : ceilings[0];
}

Cell baseline_cell(const LabelEvaluation& label) {
  const Scores* best = label.best_baseline();
  if (!best) return {"none", true};
  return {fmt::format("{} <span class=\"pale\">{}<br>{}</span>", correlation(best->metrics.pearson),
                      escape(best->predictor),
                      best->difference ? fmt::format("model {}", name(standing(*best->difference)))
                                       : "not compared"),
          true};
}

std::string swatch(int colour) {
  return fmt::format(
      "<svg class=\"swatch\" width=\"22\" height=\"8\" aria-hidden=\"true\"><path class=\"s{} "
      "d{}\" d=\"M1 4h20\"/></svg>",
      colour % kColours, colour / kColours % 3);
}

std::string split_text(const RunContents& run) {
  if (run.is_ensemble()) return run.split() + ", ensemble";
  return run.split() + (run.is_shuffled() ? ", shuffled graph" : "");
}

// has_labels: a column says which part and label a row is of.
void add_run_rows(const RunContents& run, int colour, bool has_labels,
                  std::vector<TableRow>& rows) {
  std::string name =
      fmt::format("<span class=\"whole\">{}<a href=\"#run{}\" title=\"{}\">{}</a></span>",
                  swatch(colour), colour, escape(run.name), escape(shortened(run.name, 36)));
  if (!run.is_finished())
    name += fmt::format("<br><b class=\"warn\">{}</b>", escape(run.info.status));
  const Cell epochs = count_cell(run.epochs.size()), parameters = count_cell(run.info.parameters);
  const PartEvaluation* part = run.main_part();
  const bool is_evaluated = part && !part->labels.empty();
  const auto begin_row = [&](const std::string& label) {
    TableRow row = {.cells = {{name, false}, text_cell(split_text(run))}};
    if (has_labels) row.cells.push_back(text_cell(label));
    return row;
  };
  if (!is_evaluated) {
    TableRow row = begin_row("");
    row.cells.push_back({"<span class=\"whole pale\">not evaluated yet</span>", true});
    for (int i = 0; i < 3; ++i) row.cells.push_back({"", true});
    row.cells.insert(row.cells.end(), {epochs, parameters});
    rows.push_back(std::move(row));
    return;
  }
  for (const auto& label : part->labels) {
    TableRow row = begin_row(fmt::format("{}: {}", part->part, label.label));
    row.cells.insert(row.cells.end(), {{pearson_html(label), true},
                                       {correlation(label.model().metrics.spearman), true},
                                       {number(label.model().metrics.mse), true},
                                       baseline_cell(label),
                                       epochs,
                                       parameters});
    rows.push_back(std::move(row));
  }
}

// "test: label" of all rows of these runs.
std::set<std::string> labels_of(std::span<const RunContents> runs) {
  std::set<std::string> seen;
  for (const RunContents& run : runs)
    if (const PartEvaluation* part = run.main_part())
      for (const auto& label : part->labels) seen.insert(part->part + ": " + label.label);
  return seen;
}

// A row a run, and below it the best baseline of that run: runs of different splits have others.
void add_forest_rows(const RunContents& run, int colour, std::vector<ForestRow>& rows) {
  const PartEvaluation* part = run.main_part();
  if (!part) return;
  for (const auto& label : part->labels) {
    const std::string of_label = part->labels.size() > 1 ? ", " + label.label : "";
    rows.push_back({run.name + of_label, estimates_of(label.model()), colour, true});
    if (const Scores* best = label.best_baseline())
      rows.push_back({"best baseline: " + best->predictor, estimates_of(*best), colour, false});
  }
}

}  // namespace

std::string several_runs(std::span<const RunContents> runs) {
  std::vector<TableRow> rows;
  std::vector<ForestRow> forest;
  const std::set<std::string> labels = labels_of(runs);
  const bool has_labels = labels.size() > 1;
  for (size_t r = 0; r < runs.size(); ++r) {
    add_run_rows(runs[r], int(r), has_labels, rows);
    add_forest_rows(runs[r], int(r), forest);
  }
  std::vector<std::string> head = {"run", "split"};
  if (has_labels) head.push_back("part: label");
  for (const char* name : {"Pearson", "Spearman", "MSE", "best baseline", "epochs", "parameters"})
    head.push_back(name);
  std::string out = labels.size() == 1 ? note("Part and label: " + *labels.begin() + ".") : "";
  out += sortable_table(head, rows);
  if (!forest.empty())
    out += figure(
        "Runs and their best baselines",
        forest_plot({.panels = metric_panels(), .rows = forest, .ceiling = common_ceiling(runs)}),
        "Filled: the model. Open: the best simple baseline of the same run, by Pearson. "
        "Lines are bootstrap intervals over what each run's split held out; whether a "
        "model is ahead is told by paired differences, which the table has.");
  return out;
}

}  // namespace lacuna::report
