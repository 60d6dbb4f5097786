#include "lacuna/graph/similar_genes.h"

#include <algorithm>
#include <cmath>

#include "lacuna/core/system/threads.h"
#include "lacuna/graph/csr.h"

namespace lacuna {
namespace {

struct Alike {
  uint32_t gene;
  float likeness;
};

struct Network {
  Csr by_target, by_source;
  std::span<const float> weights;  // [E], or empty: 1
  std::vector<double> sizes;       // [N]: |r_v|

  explicit Network(const WeightedEdges& edges)
      : by_target(make_csr(edges.nodes, edges.targets, edges.sources)),
        by_source(make_csr(edges.nodes, edges.sources, edges.targets)),
        weights(edges.weights),
        sizes(edges.nodes, 0) {}
  double weight(uint32_t edge) const { return weights.empty() ? 1 : double(weights[edge]); }
};

// r_v . r_x for all x, where it may differ from 0: into products [N], and who they are. Summed over
// the edges of v in their order.
void multiply(const Network& network, uint32_t v, std::vector<double>& products,
              std::vector<uint32_t>& touched) {
  const Csr &in = network.by_target, &out = network.by_source;
  for (uint32_t i = in.ptr[v]; i < in.ptr[v + 1]; ++i) {
    const uint32_t u = in.neighbour[i];
    const double w = network.weight(in.edge[i]);
    for (uint32_t k = out.ptr[u]; k < out.ptr[u + 1]; ++k) {
      double& product = products[out.neighbour[k]];
      if (product == 0) touched.push_back(out.neighbour[k]);
      product += w * network.weight(out.edge[k]);
    }
  }
}

// The most alike of v, the likest first.
std::vector<Alike> likest(const Network& network, uint32_t v, uint32_t count,
                          const std::vector<bool>& silent, std::vector<double>& products,
                          std::vector<uint32_t>& touched) {
  touched.clear();
  multiply(network, v, products, touched);
  std::vector<Alike> found;
  for (const uint32_t x : touched) {
    const double cosine = products[x] / (network.sizes[v] * network.sizes[x]);
    products[x] = 0;  // which also passes over one that was touched twice
    const float likeness = float(cosine * cosine);  // 0 where it is too small for a float
    if (x != v && cosine > 0 && likeness > 0 && (silent.empty() || !silent[x]))
      found.push_back({x, likeness});
  }
  const auto before = [](const Alike& a, const Alike& b) {
    return a.likeness != b.likeness ? a.likeness > b.likeness : a.gene < b.gene;
  };
  const auto end = found.begin() + std::min<int64_t>(count, int64_t(found.size()));
  std::partial_sort(found.begin(), end, found.end(), before);
  found.erase(end, found.end());
  return found;
}

}  // namespace

SimilarGenes similar_genes(const WeightedEdges& edges, uint32_t count,
                           const std::vector<bool>& silent, int threads) {
  Network network(edges);
  std::vector<std::vector<Alike>> of_gene(edges.nodes);
  constexpr uint32_t kRows = 64;  // of a task, which share one row of products
  const auto for_rows = [&](const auto& body) {
    parallel_for((edges.nodes + kRows - 1) / kRows, threads, [&](uint64_t task) {
      std::vector<double> products(edges.nodes, 0);
      std::vector<uint32_t> touched;
      const uint32_t end = std::min(edges.nodes, uint32_t(task + 1) * kRows);
      for (uint32_t v = uint32_t(task) * kRows; v < end; ++v) body(v, products, touched);
    });
  };
  for_rows([&](uint32_t v, std::vector<double>& row, std::vector<uint32_t>& sources) {
    sources.clear();
    const Csr& in = network.by_target;
    for (uint32_t i = in.ptr[v]; i < in.ptr[v + 1]; ++i) {
      row[in.neighbour[i]] += network.weight(in.edge[i]);
      sources.push_back(in.neighbour[i]);
    }
    for (const uint32_t u : sources) {
      network.sizes[v] += row[u] * row[u];
      row[u] = 0;
    }
    network.sizes[v] = std::sqrt(network.sizes[v]);
  });
  for_rows([&](uint32_t v, std::vector<double>& products, std::vector<uint32_t>& touched) {
    of_gene[v] = likest(network, v, count, silent, products, touched);
  });

  // Both directions. A pair that each finds has the same likeness but for rounding: the larger one.
  std::vector<std::vector<Alike>> linked = of_gene;
  for (uint32_t v = 0; v < edges.nodes; ++v)
    if (silent.empty() || !silent[v])
      for (const Alike& other : of_gene[v]) linked[other.gene].push_back({v, other.likeness});
  std::vector<double> degrees(edges.nodes, 0);
  for (uint32_t v = 0; v < edges.nodes; ++v) {
    auto& row = linked[v];
    std::ranges::sort(row, [](const Alike& a, const Alike& b) {
      return a.gene != b.gene ? a.gene < b.gene : a.likeness > b.likeness;
    });
    const auto [rest, end] = std::ranges::unique(row, {}, &Alike::gene);
    row.erase(rest, end);
    for (const Alike& other : row) degrees[v] += double(other.likeness);
  }
  SimilarGenes similar;
  for (uint32_t v = 0; v < edges.nodes; ++v)
    for (const Alike& other : linked[v]) {
      similar.sources.push_back(other.gene);
      similar.targets.push_back(v);
      const double likeness = double(other.likeness);
      // Less arrives at a source only where those that are like it are silent.
      const double of_source = std::max(degrees[other.gene], likeness);
      similar.weights.push_back(float(likeness / std::sqrt(degrees[v] * of_source)));
    }
  return similar;
}

}  // namespace lacuna
