#include "lacuna/run/evaluation/network/gene_networks.h"

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

struct Link {
  uint32_t from, to;
  float strength;
};

// Both directions of every link, sorted, each once with its largest strength.
std::vector<Link> links_of(const EdgeType& edges) {
  const std::vector<uint32_t> sources = edges.sources(), targets = edges.targets();
  const auto value = std::find_if(edges.values.begin(), edges.values.end(),
                                  [](const EdgeValue& v) { return v.name == "weight"; });
  std::vector<Link> links;
  for (size_t e = 0; e < sources.size(); ++e) {
    const float strength = value == edges.values.end() ? 1.f : value->values.as<float>()[e];
    if (sources[e] == targets[e] || !(strength > 0) || !std::isfinite(strength)) continue;
    links.push_back({sources[e], targets[e], strength});
    links.push_back({targets[e], sources[e], strength});
  }
  std::sort(links.begin(), links.end(), [](const Link& a, const Link& b) {
    if (a.from != b.from) return a.from < b.from;
    return a.to != b.to ? a.to < b.to : a.strength > b.strength;
  });
  const auto end = std::unique(links.begin(), links.end(), [](const Link& a, const Link& b) {
    return a.from == b.from && a.to == b.to;
  });
  links.erase(end, links.end());
  return links;
}

GeneNetwork make_network(const EdgeType& edges, uint32_t genes) {
  const std::vector<Link> links = links_of(edges);
  GeneNetwork network = {.name = edges.name,
                         .ptr = std::vector<uint64_t>(genes + 1, 0),
                         .neighbour = {},
                         .strength = {},
                         .scaled = {},
                         .degree = std::vector<double>(genes, 0.0),
                         .log_links = std::vector<double>(genes, 0.0),
                         .length = std::vector<double>(genes, 0.0)};
  float largest = 0;
  for (const Link& link : links) largest = std::max(largest, link.strength);
  for (const Link& link : links) {
    ++network.ptr[link.from + 1];
    network.neighbour.push_back(link.to);
    network.strength.push_back(double(link.strength) / double(largest));
    network.degree[link.from] += network.strength.back();
  }
  for (uint32_t gene = 0; gene < genes; ++gene) {
    network.log_links[gene] = std::log1p(double(network.ptr[gene + 1]));
    network.ptr[gene + 1] += network.ptr[gene];
  }
  for (size_t i = 0; i < links.size(); ++i)
    network.scaled.push_back(network.strength[i] / std::sqrt(network.degree[links[i].from] *
                                                             network.degree[links[i].to]));
  for (uint32_t gene = 0; gene < genes; ++gene) {
    double squares = 0;
    for (uint64_t i = network.ptr[gene]; i < network.ptr[gene + 1]; ++i)
      squares += network.scaled[i] * network.scaled[i];
    network.length[gene] = std::sqrt(squares) + 1e-9;
  }
  return network;
}

}  // namespace

void GeneNetwork::read_row(uint32_t gene, std::span<double> strengths,
                           std::span<double> products) const {
  LACUNA_ASSERT(strengths.size() == size() && products.size() == size());
  std::fill(strengths.begin(), strengths.end(), 0.0);
  std::fill(products.begin(), products.end(), 0.0);
  for (uint64_t i = ptr[gene]; i < ptr[gene + 1]; ++i) {
    const uint32_t middle = neighbour[i];
    strengths[middle] = strength[i];
    for (uint64_t j = ptr[middle]; j < ptr[middle + 1]; ++j)
      products[neighbour[j]] += scaled[i] * scaled[j];
  }
}

std::vector<GeneNetwork> gene_networks(const HeteroGraph& graph) {
  std::vector<GeneNetwork> networks;
  for (const EdgeType* edges : graph.gene_edges())
    networks.push_back(make_network(*edges, graph.genes().size()));
  return networks;
}

}  // namespace lacuna
