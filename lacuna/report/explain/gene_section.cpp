#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/report/explain/explanation_section.h"
#include "lacuna/report/html.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna::report {
namespace {

constexpr size_t kSamplesListed = 400;  // of a gene, the strongest

// One measured sample that removes the gene.
struct GeneSample {
  std::string others;  // its other genes, as HTML
  double measured = 0;
  std::optional<double> predicted = {};
  const char* part = "";
};

// The neighbours of the gene, by network.
std::string neighbours_table(const Screen& screen, uint32_t gene) {
  constexpr size_t kNamed = 12;
  std::vector<TableRow> rows;
  for (const EdgeType* type : screen.graph().gene_edges()) {
    std::vector<uint32_t> neighbours;
    const auto sources = type->sources(), targets = type->targets();
    for (size_t e = 0; e < sources.size(); ++e) {
      if (sources[e] == targets[e]) continue;
      if (sources[e] == gene) neighbours.push_back(targets[e]);
      if (targets[e] == gene) neighbours.push_back(sources[e]);
    }
    std::sort(neighbours.begin(), neighbours.end());
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
    std::string named;
    for (size_t i = 0; i < std::min(kNamed, neighbours.size()); ++i)
      named += (i == 0 ? "" : ", ") + gene_html(screen, neighbours[i]);
    if (neighbours.size() > kNamed) named += ", ...";
    rows.push_back(
        {.cells = {text_cell(type->name), count_cell(neighbours.size()), {named, false}}});
  }
  return sortable_table({"network", "neighbours", "the first of them"}, rows);
}

const char* part_name(const Split* split, uint64_t sample) {
  if (!split) return "";
  switch (Part(split->parts.as<uint8_t>()[sample])) {
    case Part::train:
      return "training";
    case Part::validation:
      return "validation";
    case Part::test:
      return "test";
    default:
      return "unused";
  }
}

// By sample: what the model said in the evaluation.
std::map<uint64_t, double> predictions_of(const RunContents& run, uint64_t label) {
  std::map<uint64_t, double> predicted;
  for (const PartPredictions& part : run.predictions)
    for (size_t row = 0; row < part.samples.size(); ++row)
      predicted[part.samples[row]] = double(part.predicted[row * part.label_count() + label]);
  return predicted;
}

std::vector<GeneSample> samples_of_gene(const RunContents& run, const Screen& screen, uint32_t gene,
                                        uint64_t column, uint64_t label) {
  const Split* used = nullptr;
  for (const Split& split : screen.splits())
    if (split.name == run.split()) used = &split;
  const auto predicted = predictions_of(run, label);
  const auto labels = screen.samples().labels.as<float>();
  std::vector<GeneSample> found;
  GeneSets sets(screen);
  for (uint64_t sample = 0; sample < sets.size(); ++sample) {
    const auto& genes = sets.read(sample);
    if (!std::binary_search(genes.begin(), genes.end(), gene)) continue;
    const double measured = double(labels[sample * screen.samples().label_count() + column]);
    if (!std::isfinite(measured)) continue;
    GeneSample of = {.others = {}, .measured = measured, .part = part_name(used, sample)};
    for (const uint32_t other : genes)
      if (other != gene) of.others += (of.others.empty() ? "" : " + ") + gene_html(screen, other);
    if (of.others.empty()) of.others = "<span class=\"pale\">alone</span>";
    if (const auto at = predicted.find(sample); at != predicted.end()) of.predicted = at->second;
    found.push_back(std::move(of));
  }
  return found;
}

std::string samples_block(std::vector<GeneSample> samples, const std::string& label) {
  double sum = 0, squares = 0, errors = 0;
  uint64_t predicted = 0;
  for (const GeneSample& sample : samples) {
    sum += sample.measured;
    squares += sample.measured * sample.measured;
    if (!sample.predicted) continue;
    ++predicted;
    errors += std::abs(*sample.predicted - sample.measured);
  }
  const double n = double(samples.size()), mean = sum / n;
  std::string words = fmt::format(
      "{} measured samples remove it; '{}' is {} on average with a standard deviation of {}.",
      with_commas(samples.size()), label, number(mean),
      number(std::sqrt(std::max(0.0, squares / n - mean * mean))));
  if (predicted > 0)
    words += fmt::format(
        " {} of them were predicted without having been trained on, with a mean |error| of {}.",
        with_commas(predicted), number(errors / double(predicted)));
  std::stable_sort(samples.begin(), samples.end(), [](const GeneSample& a, const GeneSample& b) {
    return std::abs(a.measured) > std::abs(b.measured);
  });
  if (samples.size() > kSamplesListed) {
    samples.resize(kSamplesListed);
    words += fmt::format(" The {} strongest are listed.", kSamplesListed);
  }
  std::vector<TableRow> rows;
  for (const GeneSample& sample : samples)
    rows.push_back({.cells = {{sample.others, false},
                              number_cell(sample.measured),
                              sample.predicted ? number_cell(*sample.predicted) : Cell{"", true},
                              sample.predicted ? number_cell(*sample.predicted - sample.measured)
                                               : Cell{"", true},
                              text_cell(sample.part)}});
  return paragraph(words) +
         sortable_table({"together with", "measured", "predicted", "error", "part"}, rows,
                        "a gene");
}

}  // namespace

std::string gene_section(const RunContents& run, const RunScreen& screen, uint32_t gene) {
  if (!screen.facts || !screen.has_same_samples)
    throw Error("a page about a gene needs the screen of {}: {}", run.path.string(),
                screen.problem);
  const Screen& of = screen.facts->screen;
  const std::string name = of.graph().genes().names[gene];
  const auto& label_names = of.samples().label_names;
  const uint64_t labels = run.predictions.empty() ? 0 : run.predictions[0].label_count();
  const auto run_names = run.label_names(labels);
  std::string out = fmt::format("<p>{}</p>\n", gene_html(of, gene));
  for (uint64_t column = 0; column < label_names.size(); ++column) {
    const auto at = std::find(run_names.begin(), run_names.end(), label_names[column]);
    if (labels > 0 && at == run_names.end()) continue;
    const auto samples =
        samples_of_gene(run, of, gene, column, labels > 0 ? uint64_t(at - run_names.begin()) : 0);
    const std::string block = samples.empty() ? note("No measured sample removes it.")
                                              : samples_block(samples, label_names[column]);
    out += label_names.size() == 1 ? block : fold(label_names[column], block, column == 0);
  }
  bool is_explained = false;
  if (run.explanation)
    for (const StrongestPredictions& found : run.explanation->strongest)
      if (found.with == name) {
        out += strongest_block(run, screen, found);
        is_explained = true;
      }
  if (!is_explained)
    out += note(fmt::format("{} predicts what was not measured with it.",
                            explain_command(run, " --gene " + shell_word(name))));
  return out + neighbours_table(of, gene);
}

}  // namespace lacuna::report
