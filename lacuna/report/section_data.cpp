#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lacuna/core/text/text.h"
#include "lacuna/report/charts.h"
#include "lacuna/report/html.h"
#include "lacuna/report/sections.h"

namespace lacuna::report {
namespace {

std::string nodes_table(const ScreenFacts& facts) {
  std::vector<TableRow> rows;
  for (const auto& type : facts.screen.graph().node_types()) {
    std::string features;
    for (const auto& feature : type.features)
      features += fmt::format("{}{} [{}]", features.empty() ? "" : ", ", feature.name,
                              feature.values.shape()[1]);
    rows.push_back({.cells = {text_cell(type.name), count_cell(type.size()), text_cell(features)}});
  }
  return table({"node type", "count", "given features"}, rows);
}

std::string edges_table(const ScreenFacts& facts) {
  std::vector<TableRow> rows;
  for (const auto& edges : facts.summary.edges)
    rows.push_back(
        {.cells = {text_cell(edges.key), count_cell(edges.count), count_cell(edges.self_loops),
                   count_cell(edges.in.min), number_cell(edges.in.median), count_cell(edges.in.max),
                   count_cell(edges.out.min), number_cell(edges.out.median),
                   count_cell(edges.out.max)}});
  return table({"edge type", "edges", "self loops", "in-degree: min", "in: median", "in: max",
                "out-degree: min", "out: median", "out: max"},
               rows);
}

std::string labels_table(const ScreenFacts& facts) {
  std::vector<TableRow> rows;
  for (size_t l = 0; l < facts.summary.labels.size(); ++l) {
    const NumberSummary& numbers = facts.summary.labels[l];
    rows.push_back(
        {.cells = {text_cell(facts.screen.samples().label_names[l]), count_cell(numbers.count),
                   count_cell(numbers.missing), number_cell(numbers.mean), number_cell(numbers.sd),
                   number_cell(numbers.min), number_cell(numbers.max)}});
  }
  return table({"label", "measured", "missing", "mean", "sd", "min", "max"}, rows);
}

// Splits that a run used are set apart.
std::string splits_table(const ScreenFacts& facts, const std::vector<std::string>& used) {
  std::vector<TableRow> rows;
  for (const auto& split : facts.summary.splits) {
    const bool is_used = std::find(used.begin(), used.end(), split.name) != used.end();
    rows.push_back({.cells = {text_cell(split.name), count_cell(split.train),
                              count_cell(split.validation), count_cell(split.test),
                              count_cell(split.unused), text_cell(is_used ? "used here" : "")},
                    .is_strong = is_used});
  }
  if (rows.empty()) return note("The screen has no splits.");
  return table({"split", "training", "validation", "test", "unused", ""}, rows);
}

std::string removed_text(const ScreenFacts& facts) {
  std::string text;
  for (const auto& [genes, samples] : facts.summary.removed_counts)
    text += fmt::format("{}{} remove {} {}", text.empty() ? "" : ", ", with_commas(samples), genes,
                        genes == 1 ? "gene" : "genes");
  return text;
}

std::string screen_block(const ScreenFacts& facts, const std::vector<std::string>& used) {
  const ScreenSummary& summary = facts.summary;
  const std::string isolated = summary.isolated_genes == 0
                                   ? "every gene has an edge to another node"
                                   : fmt::format("{} genes have no edge to another node",
                                                 with_commas(summary.isolated_genes));
  std::string out = paragraph(
      fmt::format("{}: {} samples ({}); {} of the {} genes are removed by some sample, and {}.",
                  facts.screen.path().string(), with_commas(summary.samples), removed_text(facts),
                  with_commas(summary.genes_removed),
                  with_commas(facts.screen.graph().genes().size()), isolated));
  std::vector<std::string> plots;
  for (size_t l = 0; l < facts.labels.size(); ++l)
    if (summary.labels[l].count > 0)
      plots.push_back(figure(fmt::format("Label '{}'", facts.screen.samples().label_names[l]),
                             histogram(facts.labels[l]), facts.label_notes[l]));
  plots.push_back(figure("Degrees of genes", histogram(facts.degrees),
                         "Each bin is twice as wide as the one before."));
  return out + figures(plots) + labels_table(facts) + splits_table(facts, used) +
         nodes_table(facts) + edges_table(facts);
}

// Of a screen that cannot be read any more.
std::string noted_block(const RunContents& run) {
  if (run.info.samples == 0) return note("The run noted nothing about its screen.");
  return table({"screen", "samples", "genes", "edges", "fingerprint"},
               {{.cells = {text_cell(run.info.screen), count_cell(run.info.samples),
                           count_cell(run.info.genes), count_cell(run.info.edges),
                           text_cell(hex(run.info.fingerprint.value()))}}});
}

}  // namespace

std::string data_section(const std::vector<RunContents>& runs,
                         const std::vector<RunScreen>& screens) {
  std::vector<const ScreenFacts*> order;  // as the runs come
  std::map<const ScreenFacts*, std::vector<size_t>> runs_of;
  std::string out;
  for (size_t r = 0; r < runs.size(); ++r) {
    const ScreenFacts* facts = screens[r].facts.get();
    const std::string who =
        runs.size() > 1 ? fmt::format("Run '{}': ", runs[r].name) : "This run: ";
    if (!screens[r].problem.empty())
      out += note((runs.size() > 1 ? who : std::string()) + screens[r].problem +
                  (facts ? " The counts below are of the screen as it is now."
                         : " Below is what the run noted of it."));
    if (runs[r].is_shuffled())
      out += note(who +
                  "trained on a shuffled graph, a control: every node keeps its degrees but "
                  "has other partners. The counts below are of the screen's own graph.");
    if (!facts) out += noted_block(runs[r]);
    if (facts && runs_of[facts].empty()) order.push_back(facts);
    if (facts) runs_of[facts].push_back(r);
  }
  for (const ScreenFacts* facts : order) {
    std::vector<std::string> used, names;
    for (const size_t r : runs_of[facts]) {
      used.push_back(runs[r].split());
      names.push_back(runs[r].name);
    }
    std::string block = screen_block(*facts, used);
    if (order.size() == 1)
      out += block;
    else
      out += fold(fmt::format("{} ({} of {} runs)", facts->screen.path().string(), names.size(),
                              runs.size()),
                  block, facts == order[0]);
  }
  return out;
}

}  // namespace lacuna::report
