#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "lacuna/core/text/text.h"
#include "lacuna/report/charts.h"
#include "lacuna/report/errors_by_gene.h"
#include "lacuna/report/html.h"
#include "lacuna/report/row_charts.h"
#include "lacuna/report/sections.h"
#include "lacuna/run/evaluation/evaluation_words.h"

namespace lacuna::report {
namespace {

constexpr size_t kLabelsShown = 8;  // plots of more labels would make the file large

std::string not_evaluated(const RunContents& run) {
  return note(
      fmt::format("Not evaluated yet: `lacuna evaluate {}`.", shell_word(run.path.string())));
}

std::string not_predicted(const RunContents& run) {
  return note(
      fmt::format("There are no predictions beside evaluation.json; `lacuna evaluate {}` "
                  "writes them.",
                  shell_word(run.path.string())));
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

std::string label_block(const PartEvaluation& part, const LabelEvaluation& label) {
  const bool has_baselines = !label.baselines().empty();
  std::vector<TableRow> rows = {scores_row(label.model(), "", true)};
  if (has_baselines) rows[0].cells.push_back({"", true});
  std::vector<ForestRow> forest = {{"model", estimates_of(label.model()), 0, true}};
  for (const Scores& baseline : label.baselines()) {
    rows.push_back(scores_row(baseline, about_baseline(baseline), false));
    rows.back().cells.push_back(difference_cell(baseline.difference));
    forest.push_back({baseline.predictor, estimates_of(baseline), 1, false});
  }
  std::string out = figure(fmt::format("'{}' on the {} part ({} samples)", label.label, part.part,
                                       with_commas(part.samples)),
                           forest_plot({metric_panels(), forest, false}),
                           has_baselines ? "" : "No baselines were evaluated.");
  std::vector<std::string> head = {"", "Pearson", "Spearman", "mean squared error",
                                   "measured samples"};
  if (has_baselines) head.push_back("the model is");
  const std::string ceiling = std::isnan(label.ceiling) ? "" : note(escape(ceiling_text(label)));
  return out + table(head, rows) + ceiling;
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
  std::string out;
  for (const auto& label : part.labels) out += label_block(part, label);
  return out;
}

// ---- predicted against measured

struct Density {
  HeatMap map;
  uint64_t shown = 0, outside = 0, missing = 0;
};

double quantile(std::vector<float>& values, double part) {
  const auto at = values.begin() + ptrdiff_t(part * double(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return double(*at);
}

// The same range on both axes: all but the outermost thousandth of either side.
Density density_of(const PartPredictions& predictions, uint64_t label) {
  constexpr double kOutermost = 0.0005;
  std::vector<float> predicted, measured;
  Density result;
  for (uint64_t i = label; i < predictions.predicted.size(); i += predictions.label_count()) {
    const float x = predictions.measured[i], y = predictions.predicted[i];
    if (std::isfinite(x) && std::isfinite(y)) {
      measured.push_back(x);
      predicted.push_back(y);
    } else {
      ++result.missing;
    }
  }
  result.shown = measured.size();
  if (measured.empty()) return result;
  auto xs = measured, ys = predicted;
  double low = std::min(quantile(xs, kOutermost), quantile(ys, kOutermost));
  double high = std::max(quantile(xs, 1 - kOutermost), quantile(ys, 1 - kOutermost));
  if (!(high > low)) low -= 0.5, high += 0.5;
  const double room = 0.02 * (high - low);
  HeatMap& map = result.map;
  map = {.x_label = "measured",
         .y_label = "predicted",
         .low = low - room,
         .high = high + room,
         .bins = uint32_t(std::clamp(std::sqrt(double(measured.size())), 10.0, 44.0)),
         .counts = {},
         .unit = "samples"};
  map.counts.resize(uint64_t(map.bins) * map.bins);
  const double scale = map.bins / (map.high - map.low);
  for (size_t i = 0; i < measured.size(); ++i) {
    const double x = (double(measured[i]) - map.low) * scale;
    const double y = (double(predicted[i]) - map.low) * scale;
    const bool is_inside = x >= 0 && y >= 0 && x < map.bins && y < map.bins;
    result.outside += !is_inside;
    if (is_inside) ++map.counts[uint64_t(y) * map.bins + uint64_t(x)];
  }
  return result;
}

std::string density_figure(const PartPredictions& predictions, uint64_t label,
                           const std::string& label_name) {
  const Density density = density_of(predictions, label);
  const std::string title =
      fmt::format("'{}', {} part", label_name, lacuna::name(predictions.part));
  if (density.shown == 0)
    return figure(title, "", "No sample of this part has both a measurement and a prediction.");
  std::string text = fmt::format("{} samples.", with_commas(density.shown));
  if (density.outside > 0)
    text += fmt::format(" {} of them outside the axes.", with_commas(density.outside));
  if (density.missing > 0)
    text += fmt::format(" {} without a measurement are left out.", with_commas(density.missing));
  return figure(title, heat_map(density.map), text);
}

// ---- errors

std::string group_table(const std::string& what, const GroupErrors& errors) {
  std::vector<TableRow> rows;
  const double largest = errors.worst.empty() ? 1 : errors.worst[0].mean_absolute;
  for (const auto& group : errors.worst) {
    const std::string bar =
        fmt::format("<span class=\"cellbar\"><i style=\"width:{:.1f}%\"></i></span>{:#.4g}",
                    largest > 0 ? 100 * group.mean_absolute / largest : 0.0, group.mean_absolute);
    rows.push_back({.cells = {text_cell(group.name),
                              count_cell(group.count),
                              {bar, true},
                              number_cell(group.mean)}});
  }
  return table({what, "samples", "mean |error|", "mean error"}, rows);
}

Histogram error_histogram(const std::string& what, const std::vector<double>& values) {
  const size_t bins = size_t(std::clamp(std::sqrt(double(values.size())), 6.0, 40.0));
  const double high = std::max(1e-30, *std::max_element(values.begin(), values.end()));
  Histogram result = {.x_label = "mean |error| of a " + what,
                      .y_label = what + "s",
                      .edges = {},
                      .counts = std::vector<uint64_t>(bins),
                      .unit = what + "s",
                      .is_log_x = false};
  for (size_t i = 0; i <= bins; ++i) result.edges.push_back(high * double(i) / double(bins));
  for (const double value : values)
    ++result.counts[std::min(bins - 1, size_t(value / high * double(bins)))];
  return result;
}

std::string group_figure(const std::string& what, const GroupErrors& errors) {
  if (errors.groups == 0) return "";
  std::string text = fmt::format("{} {}s with at least {} {}.", with_commas(errors.groups), what,
                                 errors.least, errors.least == 1 ? "sample" : "samples");
  if (errors.smaller > 0)
    text += fmt::format(" {} with fewer are left out: their means are mostly noise.",
                        with_commas(errors.smaller));
  return figure(fmt::format("Largest errors by {}", what),
                histogram(error_histogram(what, errors.mean_absolute)) + group_table(what, errors),
                text);
}

}  // namespace

std::string baselines_section(const RunContents& run) {
  const PartEvaluation* main = run.main_part();
  if (!main) return not_evaluated(run);
  const Evaluation& evaluation = *run.evaluation;
  std::string words;
  if (!evaluation.checkpoint.empty())
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

std::string predictions_section(const RunContents& run) {
  if (run.predictions.empty()) return run.evaluation ? not_predicted(run) : "";
  std::vector<std::string> plots;
  const uint64_t labels = run.predictions[0].label_count();
  const auto names = run.label_names(labels);
  for (uint64_t l = 0; l < std::min<uint64_t>(labels, kLabelsShown); ++l)
    for (const auto& predictions : run.predictions)
      if (l < predictions.label_count()) plots.push_back(density_figure(predictions, l, names[l]));
  std::string out = figures(plots);
  if (labels > kLabelsShown)
    out += note(fmt::format("The first {} of {} labels.", kLabelsShown, labels));
  return out;
}

std::string errors_section(const RunContents& run, const RunScreen& screen) {
  if (run.predictions.empty()) return run.evaluation ? not_predicted(run) : "";
  if (!screen.facts || !screen.has_same_samples)
    return note(
        "Left out: which genes a sample removes is in the screen, and the one that this "
        "run was trained on is not at hand. " +
        screen.problem);
  const PartPredictions& predictions = run.predictions[0];
  const auto names = run.label_names(predictions.label_count());
  std::string out;
  for (uint64_t l = 0; l < std::min<uint64_t>(predictions.label_count(), kLabelsShown); ++l) {
    const ErrorsByGene errors = errors_by_gene(screen.facts->screen, predictions, l);
    std::string block = note(fmt::format(
        "'{}' on the {} part: predicted minus measured, over all samples {} on average regardless "
        "of sign. A sample counts for each gene and each pair that it removes.",
        names[l], name(predictions.part), number(errors.mean_absolute)));
    std::vector<std::string> plots = {group_figure("gene", errors.genes)};
    if (!errors.has_too_many_pairs) plots.push_back(group_figure("pair", errors.pairs));
    block += figures(plots);
    if (errors.has_too_many_pairs)
      block += note(fmt::format(
          "Errors by pair are left out: these samples have {} pairs of genes, and {} are the most "
          "that are looked at.",
          with_commas(errors.all_pairs), with_commas(kMostErrorPairs)));
    out += predictions.label_count() == 1 ? block : fold(names[l], block, l == 0);
  }
  if (predictions.label_count() > kLabelsShown)
    out += note(fmt::format("The first {} of {} labels.", kLabelsShown, predictions.label_count()));
  return out;
}

}  // namespace lacuna::report
