#include "lacuna/screen/summary.h"

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/median.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna {
namespace {

// Mean and sd as the values come (Welford): no copy, no cancellation.
class NumberCounter {
 public:
  void add(double value) {
    if (std::isnan(value)) {
      ++summary_.missing;
      return;
    }
    if (summary_.count++ == 0) summary_.min = summary_.max = value;
    summary_.min = std::min(summary_.min, value);
    summary_.max = std::max(summary_.max, value);
    const double before = value - summary_.mean;
    summary_.mean += before / double(summary_.count);
    squares_ += before * (value - summary_.mean);
  }
  NumberSummary summary() const {
    NumberSummary result = summary_;
    if (result.count > 0) result.sd = std::sqrt(squares_ / double(result.count));
    return result;
  }

 private:
  NumberSummary summary_;
  double squares_ = 0;
};

DegreeSummary summarise_degrees(const std::vector<uint64_t>& degrees) {
  if (degrees.empty()) return {};
  const auto [least, most] = std::ranges::minmax(degrees);
  return {.min = least, .max = most, .median = median({degrees.begin(), degrees.end()})};
}

// `connected` is marked where a gene has an edge to another node.
EdgeSummary summarise_edges(const HeteroGraph& graph, const EdgeType& type,
                            std::vector<bool>& connected) {
  const auto sources = type.sources(), targets = type.targets();
  std::vector<uint64_t> out(graph.nodes(type.source).size()), in(graph.nodes(type.target).size());
  EdgeSummary summary;
  summary.key = type.key();
  summary.count = type.size();
  const bool from_gene = type.source == "gene", to_gene = type.target == "gene";
  const bool one_type = type.source == type.target;
  for (uint64_t e = 0; e < type.size(); ++e) {
    ++out[sources[e]];
    ++in[targets[e]];
    const bool self_loop = one_type && sources[e] == targets[e];
    summary.self_loops += self_loop;
    if (self_loop) continue;
    if (from_gene) connected[sources[e]] = true;
    if (to_gene) connected[targets[e]] = true;
  }
  summary.in = summarise_degrees(in);
  summary.out = summarise_degrees(out);
  for (const auto& value : type.values) summary.values.push_back(value.name);
  return summary;
}

void summarise_removed(const Screen& screen, ScreenSummary& summary, Progress& progress) {
  GeneSets sets(screen);
  std::vector<bool> removed_somewhere(screen.graph().genes().size());
  std::vector<uint64_t> counts;
  progress.begin("reading samples", sets.size(), "samples");
  for (uint64_t s = 0; s < sets.size(); ++s) {
    const auto& genes = sets.read(s);
    if (counts.size() <= genes.size()) counts.resize(genes.size() + 1);
    ++counts[genes.size()];
    for (const uint32_t gene : genes) removed_somewhere[gene] = true;
    if (s % kReportEvery == 0) progress.advance(s);
  }
  progress.end();
  for (uint64_t n = 0; n < counts.size(); ++n)
    if (counts[n] > 0) summary.removed_counts[n] = counts[n];
  summary.genes_removed =
      uint64_t(std::count(removed_somewhere.begin(), removed_somewhere.end(), true));
}

std::vector<NumberSummary> summarise_labels(const Samples& samples) {
  std::vector<NumberCounter> counters(samples.label_count());
  const auto values = samples.labels.as<float>();
  for (uint64_t i = 0; i < values.size(); ++i) counters[i % counters.size()].add(double(values[i]));
  std::vector<NumberSummary> summaries;
  for (const auto& counter : counters) summaries.push_back(counter.summary());
  return summaries;
}

ColumnSummary summarise_column(const Column& column) {
  ColumnSummary summary;
  summary.name = column.name;
  summary.dtype = column.values.dtype();
  const uint64_t count = column.values.size();
  if (!column.is_category()) {
    NumberCounter counter;
    for (uint64_t s = 0; s < count; ++s) counter.add(column.number(s));
    summary.numbers = counter.summary();
    return summary;
  }
  for (const auto& category : column.categories) summary.categories.emplace_back(category, 0);
  for (uint64_t s = 0; s < count; ++s) {
    const auto code = column.code(s);
    if (!code)
      ++summary.unknown;
    else if (*code < summary.categories.size())
      ++summary.categories[*code].second;
    else
      throw Error("sample {} has code {} in column '{}', which has {} categories", s, *code,
                  column.name, column.categories.size());
  }
  return summary;
}

SplitSummary summarise_split(const Split& split) {
  SplitSummary summary;
  summary.name = split.name;
  summary.how = split.how;
  check_values(split);
  for (const uint8_t part : split.parts.as<uint8_t>()) {
    summary.train += Part(part) == Part::train;
    summary.validation += Part(part) == Part::validation;
    summary.test += Part(part) == Part::test;
    summary.unused += Part(part) == Part::unused;
  }
  return summary;
}

}  // namespace

ScreenSummary summarise(const Screen& screen, Progress& progress) {
  ScreenSummary summary;
  const HeteroGraph& graph = screen.graph();
  std::vector<bool> connected(graph.genes().size());
  for (const auto& type : graph.edge_types())
    summary.edges.push_back(summarise_edges(graph, type, connected));
  summary.isolated_genes = uint64_t(std::count(connected.begin(), connected.end(), false));
  summary.samples = screen.samples().size();
  summarise_removed(screen, summary, progress);
  summary.labels = summarise_labels(screen.samples());
  for (const auto& column : screen.samples().columns)
    summary.columns.push_back(summarise_column(column));
  for (const auto& split : screen.splits()) summary.splits.push_back(summarise_split(split));
  return summary;
}

}  // namespace lacuna
