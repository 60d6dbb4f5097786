#include "lacuna/report/run_screen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <regex>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/report/html.h"
#include "lacuna/report/measured_on.h"

namespace lacuna::report {
namespace {

std::optional<fs::path> find_folder(const RunContents& run) {
  const fs::path named = run.info.screen;
  if (named.empty()) return std::nullopt;
  std::vector<fs::path> places = {named};
  if (named.is_relative())
    for (fs::path above = fs::absolute(run.path).lexically_normal(); above.has_relative_path();
         above = above.parent_path())
      places.push_back(above / named);
  for (const auto& place : places) {
    std::error_code ignored;  // a place that cannot be looked at is not the one
    if (fs::exists(place / "manifest.json", ignored)) return fs::canonical(place);
  }
  return std::nullopt;
}

// Bins that double in width: 1, 2 to 3, 4 to 7, ... Genes without edges are counted in the note
// of the section, not here: zero has no place on a logarithmic axis.
Histogram degree_histogram(const HeteroGraph& graph) {
  std::vector<uint64_t> degrees(graph.genes().size());
  for (const auto& type : graph.edge_types()) {
    if (type.source == "gene")
      for (const uint32_t gene : type.sources()) ++degrees[gene];
    if (type.target == "gene")
      for (const uint32_t gene : type.targets()) ++degrees[gene];
  }
  Histogram result = {.x_label = "edges at a gene, all types",
                      .y_label = "genes",
                      .edges = {1},
                      .counts = {},
                      .unit = "genes",
                      .is_log_x = true};
  const uint64_t most = degrees.empty() ? 0 : *std::max_element(degrees.begin(), degrees.end());
  while (result.edges.back() <= double(most) || result.counts.empty()) {
    result.edges.push_back(result.edges.back() * 2);
    result.counts.push_back(0);
  }
  for (const uint64_t degree : degrees)
    if (degree > 0) ++result.counts[size_t(std::log2(double(degree)))];
  return result;
}

// Over the mean and five standard deviations to each side, as far as there are values; what lies
// beyond is counted in the note.
std::pair<Histogram, std::string> label_histogram(const Samples& samples, uint64_t label,
                                                  const NumberSummary& numbers) {
  const size_t bins = size_t(std::clamp(std::sqrt(double(numbers.count)), 10.0, 60.0));
  constexpr double kDeviations = 5;
  double low = std::max(numbers.min, numbers.mean - kDeviations * numbers.sd);
  double high = std::min(numbers.max, numbers.mean + kDeviations * numbers.sd);
  if (low == high) low -= 0.5, high += 0.5;
  if (!std::isfinite(high - low)) low = -1, high = 1;  // a label may be infinite
  Histogram result = {.x_label = samples.label_names[label],
                      .y_label = "samples",
                      .edges = {},
                      .counts = std::vector<uint64_t>(bins),
                      .unit = "samples",
                      .is_log_x = false};
  for (size_t i = 0; i <= bins; ++i)
    result.edges.push_back(low + (high - low) * double(i) / double(bins));
  const auto values = samples.labels.as<float>();
  uint64_t beyond = 0;
  for (uint64_t i = label; i < values.size(); i += samples.label_count()) {
    const double value = double(values[i]);
    if (std::isnan(value)) continue;
    const bool is_beyond = value < low || value > high;
    beyond += is_beyond;
    if (!is_beyond)
      ++result.counts[std::min(bins - 1, size_t((value - low) / (high - low) * double(bins)))];
  }
  std::string note;
  if (beyond > 0) note = fmt::format("{} samples lie beyond the ends", with_commas(beyond));
  if (beyond > 0 && std::isfinite(numbers.min) && std::isfinite(numbers.max))
    note += fmt::format(", to {:.4g} and {:.4g}", numbers.min, numbers.max);
  return {result, note.empty() ? note : note + "."};
}

std::shared_ptr<const ScreenFacts> read_facts(const fs::path& folder, Progress& progress) {
  auto facts = std::make_shared<ScreenFacts>(ScreenFacts{.screen = Screen::open(folder, progress),
                                                         .summary = {},
                                                         .degrees = {},
                                                         .labels = {},
                                                         .label_notes = {}});
  facts->summary = summarise(facts->screen, progress);
  facts->degrees = degree_histogram(facts->screen.graph());
  for (uint64_t l = 0; l < facts->summary.labels.size(); ++l) {
    auto [data, note] = label_histogram(facts->screen.samples(), l, facts->summary.labels[l]);
    facts->labels.push_back(std::move(data));
    facts->label_notes.push_back(std::move(note));
  }
  return facts;
}

// The column of a label in the screen, or nothing.
std::optional<uint64_t> column_of(const Samples& samples, const std::string& label) {
  const auto& names = samples.label_names;
  const auto at = std::find(names.begin(), names.end(), label);
  if (at == names.end()) return std::nullopt;
  return uint64_t(at - names.begin());
}

// Whether the screen has these measurements, to rounding, at these samples. Labels whose name it
// does not know cannot be compared.
bool has_measurements(const Samples& samples, const RunContents& run,
                      const PartPredictions& predictions) {
  const uint64_t labels = predictions.label_count();
  const auto names = run.label_names(labels);
  const auto stored = samples.labels.as<float>();
  for (uint64_t l = 0; l < labels; ++l) {
    const auto column = column_of(samples, names[l]);
    for (uint64_t row = 0; row < predictions.samples.size(); ++row) {
      const uint64_t sample = predictions.samples[row];
      if (sample >= samples.size()) return false;
      if (!column) continue;
      const double here = double(stored[sample * samples.label_count() + *column]);
      const double there = double(predictions.measured[row * labels + l]);
      if (std::isnan(here) != std::isnan(there)) return false;
      if (std::abs(here - there) > 1e-4 * (1e-3 + std::abs(there))) return false;
    }
  }
  return true;
}

// Says in what the screen differs from the one that the run was trained on.
void compare(const RunContents& run, RunScreen& found) {
  const Screen& screen = found.facts->screen;
  auto differing = differing_parts(run, screen.fingerprint());
  found.has_same_samples = std::none_of(
      differing.begin(), differing.end(),
      [](const std::string& part) { return part == "genes" || part.starts_with("samples "); });
  for (const auto& predictions : run.predictions) {
    if (!found.has_same_samples || has_measurements(screen.samples(), run, predictions)) continue;
    found.has_same_samples = false;
    differing.push_back(fmt::format("samples of the {} part", name(predictions.part)));
  }
  if (differing.empty()) return;
  constexpr size_t kNamed = 5;
  const size_t named = std::min(kNamed, differing.size());
  found.problem =
      fmt::format("The screen at {} has changed since this run (its {}{}).", screen.path().string(),
                  fmt::join(differing.begin(), differing.begin() + ptrdiff_t(named), ", "),
                  differing.size() > named ? ", ..." : "");
}

// YAL002W, YBR085C-A, Q0045 (of mitochondria): systematic names of yeast genes.
bool is_yeast_name(const std::string& name) {
  static const std::regex kPattern("Y[A-P][LR][0-9]{3}[WC](-[A-Z])?|Q0[0-9]{3}");
  return std::regex_match(name, kPattern);
}

}  // namespace

std::string gene_html(const Screen& screen, uint32_t gene) {
  const Names& names = screen.graph().genes().names;
  const std::string& name = names[gene];
  const std::string shown = escape(names.shown(gene));
  if (!is_yeast_name(name)) return shown;
  return fmt::format("<a href=\"https://www.yeastgenome.org/locus/{}\">{}</a>", name, shown);
}

std::vector<RunScreen> find_screens(const std::vector<RunContents>& runs, Progress& progress) {
  std::map<fs::path, RunScreen> known;
  std::vector<RunScreen> all;
  for (const auto& run : runs) {
    RunScreen found;
    if (const auto folder = find_folder(run)) {
      if (!known.contains(*folder)) {
        RunScreen& entry = known[*folder];
        try {
          entry.facts = read_facts(*folder, progress);
        } catch (const Error& error) {
          entry.problem = fmt::format("The screen cannot be read: {}.", error.what());
        }
      }
      found = known[*folder];
    } else {
      found.problem =
          run.info.screen.empty()
              ? "The run did not note which screen it was trained on."
              : fmt::format("The screen '{}' is not there any more, or not seen from here.",
                            run.info.screen);
    }
    if (found.facts) compare(run, found);
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace lacuna::report
