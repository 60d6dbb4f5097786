#include "lacuna/report/explain/explanation_section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lacuna/core/text/csv.h"
#include "lacuna/core/text/text.h"
#include "lacuna/report/html.h"
#include "lacuna/report/row_charts.h"

namespace lacuna::report {
namespace {

constexpr size_t kLabelsInBars = 4;

// ---- networks

std::string networks_block(const Explanation& explanation) {
  const size_t labels = std::min(kLabelsInBars, explanation.labels.size());
  BarChart chart = {
      .x_label = "Pearson lost without it",
      .groups = {explanation.labels.begin(), explanation.labels.begin() + long(labels)},
      .rows = {}};
  std::vector<TableRow> rows;
  for (size_t t = 0; t < explanation.networks.size(); ++t) {
    BarRow bars = {.name = explanation.networks[t], .values = {}, .note = {}};
    TableRow row = {.cells = {text_cell(explanation.networks[t])}};
    for (size_t l = 0; l < labels; ++l) {
      const Metrics &all = explanation.with_all[l], &without = explanation.without[t][l];
      const double lost = all.pearson - without.pearson;
      bars.values.push_back(lost);
      row.cells.push_back({correlation(without.pearson), true});
      row.cells.push_back(
          {std::isfinite(lost) ? fmt::format("{:+.4f}", lost) : "not defined", true});
      row.cells.push_back(number_cell(without.mse));
    }
    chart.rows.push_back(std::move(bars));
    rows.push_back(std::move(row));
  }
  if (chart.rows.empty()) return "";
  std::vector<std::string> head = {"without"};
  for (size_t l = 0; l < labels; ++l) {
    const std::string of = labels > 1 ? fmt::format(" of '{}'", explanation.labels[l]) : "";
    head.insert(head.end(), {"Pearson" + of, "lost" + of, "mean squared error" + of});
  }
  std::string all;
  for (size_t l = 0; l < labels; ++l)
    all += fmt::format("{}{}{}", l == 0 ? "" : ", ",
                       labels > 1 ? fmt::format("'{}' ", explanation.labels[l]) : "",
                       correlation(explanation.with_all[l].pearson));
  std::vector<LegendEntry> entries;
  for (size_t l = 0; l < labels; ++l) entries.push_back({explanation.labels[l], int(l)});
  std::string words = fmt::format(
      "{} samples of the {} part; with all networks Pearson is {}. The trained model is asked "
      "again over a graph in which a network has no edges: what it loses is what it uses that "
      "network for. Networks that say the same can stand in for each other, so that each alone "
      "seems to matter little.",
      with_commas(explanation.samples), explanation.part, all);
  if (labels < explanation.labels.size())
    words += fmt::format(" The first {} of {} labels.", labels, explanation.labels.size());
  return figure("Which network helps: the model without each of them",
                bar_chart(chart) + (labels > 1 ? legend(entries) : "") + sortable_table(head, rows),
                words);
}

// ---- strongest predictions

std::string gene_link(const RunScreen& screen, const std::string& name) {
  if (!screen.facts) return escape(name);
  const auto found = screen.facts->screen.graph().genes().names.find(name);
  return found ? gene_html(screen.facts->screen, *found) : escape(name);
}

// "physical -0.12, coexpression +0.03": the three that change it most.
std::string carried_words(const Explanation& explanation, const ExplainedSample& sample) {
  std::vector<size_t> order(sample.change.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::erase_if(order, [&](size_t t) { return !std::isfinite(sample.change[t]); });
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::abs(sample.change[a]) > std::abs(sample.change[b]);
  });
  std::vector<std::string> words;
  for (size_t i = 0; i < std::min<size_t>(3, order.size()); ++i)
    words.push_back(
        fmt::format("{} {:+.2g}", explanation.networks[order[i]], sample.change[order[i]]));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string shown_gene(const RunScreen& screen, const std::string& name) {
  if (!screen.facts) return name;
  const Names& names = screen.facts->screen.graph().genes().names;
  const auto found = names.find(name);
  return found ? names.shown(*found) : name;
}

// "VPS21 (YOR089C) for VPS8 (YAL002W): -0.31 (physical)"
std::string neighbour_words(const RunScreen& screen, const ExplainedSample& sample) {
  std::vector<std::string> words;
  for (const MeasuredNeighbour& neighbour : sample.neighbours)
    words.push_back(fmt::format("{} for {}: {:.3g} ({})", shown_gene(screen, neighbour.neighbour),
                                shown_gene(screen, neighbour.gene), neighbour.measured,
                                fmt::join(neighbour.networks, ", ")));
  return fmt::format("{}", fmt::join(words, "; "));
}

std::string strongest_csv(const RunScreen& screen, const Explanation& explanation,
                          const StrongestPredictions& found) {
  size_t widest = 0;
  for (const auto* list : {&found.lowest, &found.highest})
    for (const ExplainedSample& sample : *list) widest = std::max(widest, sample.genes.size());
  std::string text;
  for (size_t g = 0; g < widest; ++g) text += fmt::format("gene_{},", g + 1);
  text += csv_cell(explanation.label) + ",networks,measured_neighbours\n";
  for (const auto* list : {&found.lowest, &found.highest})
    for (const ExplainedSample& sample : *list) {
      for (size_t g = 0; g < widest; ++g)
        text += (g < sample.genes.size() ? csv_cell(sample.genes[g]) : "") + ",";
      text += fmt::format("{:.9g},{},{}\n", sample.predicted,
                          csv_cell(carried_words(explanation, sample)),
                          csv_cell(neighbour_words(screen, sample)));
    }
  return text;
}

}  // namespace

std::string save_link(const std::string& file, const std::string& text, const std::string& words) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.' || c == ',';
    encoded += is_plain ? std::string(1, c) : fmt::format("%{:02X}", uint8_t(c));
  }
  return fmt::format("<p><a download=\"{}\" href=\"data:text/csv;charset=utf-8,{}\">{}</a></p>\n",
                     escape(file), encoded, escape(words));
}

std::string strongest_block(const RunContents& run, const RunScreen& screen,
                            const StrongestPredictions& found) {
  const Explanation& explanation = *run.explanation;
  std::vector<TableRow> rows;
  for (const auto* list : {&found.lowest, &found.highest})
    for (const ExplainedSample& sample : *list) {
      std::string genes;
      for (const std::string& gene : sample.genes)
        genes += (genes.empty() ? "" : " + ") + gene_link(screen, gene);
      rows.push_back(
          {.cells = {{genes, false},
                     number_cell(sample.predicted),
                     text_cell(carried_words(explanation, sample)),
                     sample.neighbours.empty() ? Cell{"<span class=\"pale\">none</span>", false}
                                               : text_cell(neighbour_words(screen, sample))}});
    }
  if (rows.empty()) return note("There is no unmeasured sample to predict.");
  const std::string with = found.with.empty() ? "" : " with " + shown_gene(screen, found.with);
  std::string words = fmt::format(
      "The lowest and the highest of {} predicted samples that the screen does not have",
      with_commas(found.candidates));
  if (double(found.candidates) < 0.5 * found.possible)
    words += fmt::format(
        ", drawn at random: {:.3g} sets of as many genes are possible, and `lacuna explain "
        "--candidates` says how many are tried",
        found.possible);
  words +=
      ". Networks: the prediction minus what it is without that network's edges. Measured "
      "neighbours: training samples with one gene replaced by a neighbour of it.";
  return figure(
      fmt::format("Strongest unmeasured predictions of '{}'{}", explanation.label, with),
      sortable_table({"genes", "predicted", "networks", "measured neighbours"}, rows, "a gene") +
          save_link(
              found.with.empty() ? "unmeasured.csv" : fmt::format("unmeasured-{}.csv", found.with),
              strongest_csv(screen, explanation, found), "Save this table (CSV)"),
      words);
}

std::string explain_command(const RunContents& run, const std::string& options) {
  const auto command = [&](const fs::path& path) {
    return fmt::format("`lacuna explain {}{}`", shell_word(path.string()), options);
  };
  if (!run.ensemble) return command(run.path);
  // The members are explained one by one: their models can be asked again, the mean cannot.
  constexpr size_t kNamed = 3;
  const std::vector<fs::path> runs = run.ensemble->runs();
  std::vector<std::string> commands;
  for (size_t r = 0; r < std::min(kNamed, runs.size()); ++r) commands.push_back(command(runs[r]));
  return fmt::format("{}{} (an ensemble is explained by its members)", fmt::join(commands, " or "),
                     runs.size() > kNamed ? " or another" : "");
}

std::string explanation_section(const RunContents& run, const RunScreen& screen) {
  if (!run.explanation)
    return run.evaluation
               ? note(fmt::format("Not computed: {} asks the model again without each network, and "
                                  "predicts unmeasured samples.",
                                  explain_command(run)))
               : "";
  std::string out;
  if (run.evaluation && run.evaluation->checkpoint != run.explanation->checkpoint)
    out += note(fmt::format("Of checkpoint '{}'; the evaluation above is of '{}'.",
                            run.explanation->checkpoint, run.evaluation->checkpoint));
  out += networks_block(*run.explanation);
  for (const StrongestPredictions& found : run.explanation->strongest)
    out += strongest_block(run, screen, found);
  return out;
}

}  // namespace lacuna::report
