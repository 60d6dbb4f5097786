#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "lacuna/report/charts.h"
#include "lacuna/report/html.h"
#include "lacuna/report/sections.h"
#include "lacuna/report/svg.h"

namespace lacuna::report {
namespace {

constexpr double kLogFrom = 30;  // a range beyond this ratio is drawn on a logarithmic axis

Series step_series(const RunContents& run, const std::string& name, int colour,
                   const std::function<double(const StepLine&)>& value) {
  Series series = {.name = name, .x = {}, .y = {}, .colour = colour};
  for (const auto& line : run.steps) {
    series.x.push_back(double(line.step));
    series.y.push_back(value(line));
  }
  return thinned(series);
}

Series epoch_loss_series(const RunContents& run, const std::string& name, int colour) {
  Series series = {.name = name, .x = {}, .y = {}, .colour = colour};
  for (const auto& line : run.epochs) {
    series.x.push_back(double(line.step));
    series.y.push_back(line.train_loss);
  }
  return thinned(series);
}

// A score of an epoch's validation: one of all labels, or of all sessions.
struct CurveScore {
  std::string title;
  std::function<double(const LabelMetrics&)> of;
};

CurveScore score_named(const std::string& title, const std::string& name) {
  return {title, [name](const LabelMetrics& line) {
            const auto found = line.scores.find(name);
            return found == line.scores.end() ? kNotDefined : found->second;
          }};
}

// The first one decides what is best.
std::vector<CurveScore> scores_of(std::span<const RunContents> runs) {
  if (!runs.empty() && runs[0].is_recording())
    return {score_named("bits per spike", "bits_per_spike"),
            score_named("correlation", "correlation")};
  return {score_named("Pearson", "pearson"), score_named("MSE", "mse")};
}

Series validation_series(const RunContents& run, const std::string& label, const CurveScore& score,
                         const std::string& name, int colour) {
  Series series = {.name = name, .x = {}, .y = {}, .colour = colour};
  for (const auto& line : run.epochs)
    for (const auto& of_label : line.validation)
      if (of_label.label == label) {
        series.x.push_back(double(line.epoch) + 1);
        series.y.push_back(score.of(of_label));
      }
  return thinned(series);
}

// The labels of all runs, as they come.
std::vector<std::string> validation_labels(std::span<const RunContents> runs) {
  std::vector<std::string> labels;
  for (const auto& run : runs)
    if (!run.epochs.empty())
      for (const auto& label : run.epochs.back().validation)
        if (std::find(labels.begin(), labels.end(), label.label) == labels.end())
          labels.push_back(label.label);
  return labels;
}

bool has_values(const Series& series) {
  return std::any_of(series.y.begin(), series.y.end(), [](double y) { return std::isfinite(y); });
}

bool needs_log(const std::vector<Series>& all) {
  Range range;
  for (const auto& series : all)
    for (const double value : series.y) range.add(value);
  return range.low > 0 && range.high > kLogFrom * range.low;
}

// Over steps or epochs, which are whole numbers. has_legend: one of its own; the curves of several
// runs share one.
std::string curve(const std::string& title, const std::string& x_label, const std::string& y_label,
                  std::vector<Series> series, bool may_be_log, bool has_legend) {
  std::erase_if(series, [](const Series& one) { return !has_values(one); });
  if (series.empty()) return "";
  std::vector<LegendEntry> entries;
  for (const auto& one : series) entries.push_back({one.name, one.colour});
  const bool is_log = may_be_log && needs_log(series);
  return figure(title + (is_log ? " (logarithmic)" : ""),
                line_chart({.x_label = x_label,
                            .y_label = y_label,
                            .series = series,
                            .is_log_y = is_log,
                            .whole_x = true}) +
                    (has_legend && series.size() > 1 ? legend(entries) : ""));
}

std::string loss_curve(std::span<const RunContents> runs) {
  std::vector<Series> series;
  const auto loss = [](const StepLine& line) { return line.loss; };
  if (runs.size() == 1) {
    series.push_back(step_series(runs[0], "logged steps", 4, loss));
    series.push_back(epoch_loss_series(runs[0], "mean of the epoch", 0));
    return curve("Training loss", "step", "loss", series, true, true);
  }
  // The noise of steps would hide one run behind another: means of epochs where all have some.
  const bool by_epoch = std::all_of(runs.begin(), runs.end(),
                                    [](const RunContents& run) { return run.epochs.size() >= 3; });
  for (size_t r = 0; r < runs.size(); ++r)
    series.push_back(by_epoch ? epoch_loss_series(runs[r], runs[r].name, int(r))
                              : step_series(runs[r], runs[r].name, int(r), loss));
  return curve(by_epoch ? "Training loss, mean of each epoch" : "Training loss, logged steps",
               "step", "loss", series, true, false);
}

std::string lr_curve(std::span<const RunContents> runs) {
  std::vector<Series> series;
  for (size_t r = 0; r < runs.size(); ++r)
    series.push_back(step_series(runs[r], runs.size() == 1 ? "learning rate" : runs[r].name, int(r),
                                 [](const StepLine& line) { return line.lr; }));
  return curve("Learning rate", "step", "learning rate", series, false, false);
}

// One run: its labels in one plot. Several: a plot a label.
void add_validation_curves(std::span<const RunContents> runs, const CurveScore& score,
                           std::vector<std::string>& plots) {
  const std::string& name = score.title;
  const auto labels = validation_labels(runs);
  const auto add = [&](const std::string& title, const std::vector<Series>& series) {
    plots.push_back(curve(title, "epochs done", name, series, true, runs.size() == 1));
  };
  std::vector<Series> series;
  if (runs.size() == 1) {
    for (size_t l = 0; l < labels.size(); ++l)
      series.push_back(validation_series(runs[0], labels[l], score, labels[l], int(l)));
    add(fmt::format("Validation {}", name), series);
    return;
  }
  for (const auto& label : labels) {
    series.clear();
    for (size_t r = 0; r < runs.size(); ++r)
      series.push_back(validation_series(runs[r], label, score, runs[r].name, int(r)));
    add(labels.size() > 1 ? fmt::format("Validation {} of '{}'", name, label)
                          : fmt::format("Validation {}", name),
        series);
  }
}

// The epoch with the highest validation score, which a checkpoint keeps: a sentence, or a table of
// many labels.
std::string best_epochs(const RunContents& run) {
  constexpr size_t kLabelsInWords = 3;
  std::string text;
  std::vector<TableRow> rows;
  const CurveScore score = scores_of({&run, 1})[0];
  const auto labels = validation_labels({&run, 1});
  for (const auto& label : labels) {
    const Series series = validation_series(run, label, score, label, 0);
    size_t best = series.y.size();
    for (size_t i = 0; i < series.y.size(); ++i)
      if (std::isfinite(series.y[i]) && (best == series.y.size() || series.y[i] > series.y[best]))
        best = i;
    const bool is_defined = best < series.y.size();
    rows.push_back({.cells = {text_cell(label),
                              {is_defined ? correlation(series.y[best]) : "not defined", true},
                              {is_defined ? fmt::format("{}", series.x[best]) : "", true}}});
    if (!is_defined)
      text +=
          fmt::format("Validation {} of '{}' was not defined in any epoch. ", score.title, label);
    else
      text += fmt::format("Best validation {} of '{}': {} after epoch {} of {}. ", score.title,
                          label, correlation(series.y[best]), series.x[best], run.epochs.size());
  }
  if (labels.size() <= kLabelsInWords) return text.empty() ? "" : note(text);
  return fold(fmt::format("Best epoch of each of {} labels", labels.size()),
              sortable_table({"label", "best validation " + score.title, "after epoch"}, rows),
              false);
}

// Names and colours of several runs, once for all of their curves.
std::string runs_legend(std::span<const RunContents> runs) {
  std::vector<LegendEntry> entries;
  for (size_t r = 0; r < runs.size(); ++r) entries.push_back({runs[r].name, int(r)});
  return legend(entries);
}

}  // namespace

std::string training_section(std::span<const RunContents> runs) {
  std::vector<std::string> plots = {loss_curve(runs), lr_curve(runs)};
  for (const CurveScore& score : scores_of(runs)) add_validation_curves(runs, score, plots);
  std::erase_if(plots, [](const std::string& plot) { return plot.empty(); });
  std::string out;
  for (const auto& run : runs) {
    const std::string who = runs.size() > 1 ? fmt::format("Run '{}'", run.name) : "This run";
    if (run.is_ensemble())
      out +=
          note((runs.size() > 1 ? who : "This") +
               " is an average of runs: nothing was trained, so there are no curves. Those of its "
               "members are in their own reports.");
    else if (run.steps.empty() && run.epochs.empty())
      out += note(who + " has logged no step yet: there are no curves.");
    else if (run.epochs.empty())
      out += note(who + " has not completed an epoch: there are no validation metrics.");
    else if (validation_labels({&run, 1}).empty())
      out += note(who + " has no validation part: only the training loss is known.");
  }
  if (runs.size() == 1) out += best_epochs(runs[0]);
  if (runs.size() > 1 && !plots.empty()) out += runs_legend(runs);
  return out + (plots.empty() ? "" : figures(plots));
}

}  // namespace lacuna::report
