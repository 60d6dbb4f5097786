#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/text/text.h"
#include "lacuna/report/charts.h"
#include "lacuna/report/errors_by_gene.h"
#include "lacuna/report/html.h"
#include "lacuna/report/sections.h"

namespace lacuna::report {
namespace {

constexpr size_t kErrorsShown = 15;     // rows of the tables
constexpr size_t kErrorsListed = 1000;  // genes in the list to search

Cell bar_cell(double value, double largest) {
  if (!std::isfinite(value)) return {"<span class=\"pale\">no spread</span>", true};
  return {fmt::format("<span class=\"cellbar\"><i style=\"width:{:.1f}%\"></i></span>{:#.3g}",
                      largest > 0 ? 100 * value / largest : 0.0, value),
          true};
}

double largest_of(const GroupErrors& errors) {
  return errors.all.empty() || !std::isfinite(errors.all[0]) ? 1 : errors.all[0];
}

std::string genes_table(const Screen& screen, const GroupErrors& errors, size_t shown,
                        const char* find) {
  std::vector<TableRow> rows;
  for (size_t i = 0; i < std::min(shown, errors.worst.size()); ++i) {
    const GroupError& group = errors.worst[i];
    rows.push_back({.cells = {{gene_html(screen, group.genes[0]), false},
                              bar_cell(group.relative, largest_of(errors)),
                              number_cell(group.spread),
                              number_cell(group.mean_absolute),
                              number_cell(group.mean),
                              count_cell(group.count)}});
  }
  return sortable_table(
      {"gene", "error / spread", "spread", "mean |error|", "mean error", "samples"}, rows, find);
}

std::string pairs_table(const Screen& screen, const GroupErrors& errors) {
  std::vector<TableRow> rows;
  for (size_t i = 0; i < std::min(kErrorsShown, errors.worst.size()); ++i) {
    const GroupError& group = errors.worst[i];
    rows.push_back(
        {.cells = {
             {gene_html(screen, group.genes[0]) + " + " + gene_html(screen, group.genes[1]), false},
             bar_cell(group.mean_absolute, largest_of(errors)),
             number_cell(group.measured),
             number_cell(group.predicted),
             count_cell(group.count)}});
  }
  return sortable_table({"pair", "mean |error|", "measured, mean", "predicted, mean", "samples"},
                        rows);
}

// What is not defined is left out.
Histogram error_histogram(const std::string& what, const std::string& x_label,
                          std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  const size_t bins = size_t(std::clamp(std::sqrt(double(values.size())), 6.0, 40.0));
  const double high =
      values.empty() ? 1 : std::max(1e-30, *std::max_element(values.begin(), values.end()));
  Histogram result = {.x_label = x_label,
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

std::string counted_words(const std::string& what, const GroupErrors& errors) {
  std::string text = fmt::format("{} {}s with at least {} {}.", with_commas(errors.groups), what,
                                 errors.least, errors.least == 1 ? "sample" : "samples");
  if (errors.smaller > 0)
    text += fmt::format(" {} with fewer are left out: their means are mostly noise.",
                        with_commas(errors.smaller));
  return text;
}

std::string genes_figure(const Screen& screen, const GroupErrors& errors) {
  if (errors.groups == 0) return "";
  const std::string plot =
      histogram(error_histogram("gene", "error of a gene / its spread", errors.all));
  return figure("Largest errors by gene, relative to its spread",
                plot + genes_table(screen, errors, kErrorsShown, ""),
                counted_words("gene", errors) +
                    " Error: root of the mean square. Spread: standard deviation of what was "
                    "measured. From 1 on, the gene's own mean would have done as well.");
}

std::string pairs_figure(const Screen& screen, const GroupErrors& errors) {
  if (errors.groups == 0) return "";
  const std::string plot = histogram(error_histogram("pair", "mean |error| of a pair", errors.all));
  return figure("Largest errors by pair", plot + pairs_table(screen, errors),
                counted_words("pair", errors));
}

// Every gene, to be found by its name.
std::string genes_list(const Screen& screen, const GroupErrors& errors) {
  if (errors.groups <= kErrorsShown) return "";
  const std::string title =
      errors.groups <= kErrorsListed
          ? fmt::format("All {} genes: find one, sort by any column", with_commas(errors.groups))
          : fmt::format("The {} genes with the largest errors of {}: find one, sort by any column",
                        with_commas(kErrorsListed), with_commas(errors.groups));
  return fold(title, genes_table(screen, errors, kErrorsListed, "a gene"), false);
}

}  // namespace

std::string errors_section(const RunContents& run, const RunScreen& screen) {
  if (run.predictions.empty()) return run.evaluation ? not_predicted(run) : "";
  if (!screen.facts || !screen.has_same_samples)
    return note(
        "Left out: which genes a sample removes is in the screen, and the one that this "
        "run was trained on is not at hand. " +
        screen.problem);
  const PartPredictions& predictions = run.predictions[0];
  const Screen& of = screen.facts->screen;
  const auto names = run.label_names(predictions.label_count());
  std::string out;
  for (uint64_t l = 0; l < std::min<uint64_t>(predictions.label_count(), kLabelsShown); ++l) {
    const ErrorsByGene errors = errors_by_gene(of, predictions, l, kErrorsListed);
    std::string block = note(fmt::format(
        "'{}' on the {} part: predicted minus measured, over all samples {} on average regardless "
        "of sign. A sample counts for each gene and each pair that it removes.",
        names[l], name(predictions.part), number(errors.mean_absolute)));
    block += genes_figure(of, errors.genes);
    if (!errors.has_too_many_pairs) block += pairs_figure(of, errors.pairs);
    if (errors.has_too_many_pairs)
      block += note(fmt::format(
          "Errors by pair are left out: these samples have {} pairs of genes, and {} are the most "
          "that are looked at.",
          with_commas(errors.all_pairs), with_commas(kMostErrorPairs)));
    block += genes_list(of, errors.genes);
    out += predictions.label_count() == 1 ? block : fold(names[l], block, l == 0);
  }
  if (predictions.label_count() > kLabelsShown)
    out += note(fmt::format("The first {} of {} labels.", kLabelsShown, predictions.label_count()));
  return out;
}

}  // namespace lacuna::report
