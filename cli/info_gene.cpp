// lacuna info SCREEN --gene NAME: one gene.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "cli/info.h"
#include "cli/terminal.h"
#include "lacuna/core/text/text.h"
#include "lacuna/screen/candidates.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna::cli {
namespace {

struct Edges {
  std::string key;
  uint64_t in = 0, out = 0;
};

std::vector<Edges> edges_of(const HeteroGraph& graph, uint32_t gene) {
  std::vector<Edges> all;
  for (const EdgeType& type : graph.edge_types()) {
    if (type.source != "gene" && type.target != "gene") continue;
    Edges edges = {type.key()};
    if (type.target == "gene")
      for (const uint32_t target : type.targets()) edges.in += target == gene;
    if (type.source == "gene")
      for (const uint32_t source : type.sources()) edges.out += source == gene;
    all.push_back(edges);
  }
  return all;
}

struct LabelMean {
  std::string label;
  uint64_t count = 0;
  double mean = 0;
};

std::vector<LabelMean> means_of(const Samples& samples, std::span<const uint32_t> chosen) {
  std::vector<LabelMean> means;
  const auto labels = samples.labels.as<float>();
  for (uint64_t l = 0; l < samples.label_count(); ++l) {
    LabelMean mean = {samples.label_names[l]};
    for (const uint32_t sample : chosen) {
      const double value = double(labels[sample * samples.label_count() + l]);
      if (std::isnan(value)) continue;
      mean.count += 1;
      mean.mean += (value - mean.mean) / double(mean.count);
    }
    means.push_back(mean);
  }
  return means;
}

}  // namespace

void print_gene_info(const Screen& screen, const std::string& name, bool json) {
  const Names& genes = screen.graph().genes().names;
  const uint32_t gene = find_gene(genes, name, screen.path().string());
  const std::vector<Edges> edges = edges_of(screen.graph(), gene);
  const SamplesOfGenes of_genes(screen);
  const auto samples = of_genes.of(gene);
  const std::vector<LabelMean> means = means_of(screen.samples(), samples);
  if (json) {
    Json out = {{"gene", genes[gene]},
                {"index", gene},
                {"aliases", genes.aliases(gene)},
                {"samples", samples.size()}};
    for (const Edges& one : edges) out["edges"][one.key] = {{"in", one.in}, {"out", one.out}};
    for (const LabelMean& one : means)
      out["labels"][one.label] = {{"measured", one.count},
                                  {"mean", one.count > 0 ? Json(one.mean) : Json()}};
    return fmt::print("{}\n", out.dump(2));
  }
  fmt::print("{}, gene {} of {}\n", printable(genes.shown(gene)), with_commas(gene),
             with_commas(genes.size()));
  if (genes.aliases(gene).size() > 1)
    fmt::print("also called {}\n",
               printable(fmt::format("{}", fmt::join(genes.aliases(gene), ", "))));
  std::vector<std::vector<std::string>> rows = {{"edge type", "in", "out"}};
  for (const Edges& one : edges)
    rows.push_back({one.key, with_commas(one.in), with_commas(one.out)});
  fmt::print("\n{}\nsamples that remove it: {}\n", format_table(rows, {1, 2}),
             with_commas(samples.size()));
  rows = {{"label", "measured", "mean"}};
  for (const LabelMean& one : means)
    rows.push_back(
        {one.label, with_commas(one.count), one.count > 0 ? fmt::format("{:.5g}", one.mean) : "-"});
  fmt::print("{}", format_table(rows, {1, 2}));
}

}  // namespace lacuna::cli
