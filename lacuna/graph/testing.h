// Random graphs for tests and benchmarks; not a part of the library.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/graph/graph_plan.h"

namespace lacuna::testing {

using lacuna::test_seed;

// Edge lists that own their numbers. After adding or changing edges, call lists() and plan() again.
struct RandomGraph {
  uint32_t nodes = 0;
  std::vector<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> types;  // sources, targets

  std::vector<EdgeList> lists() const {
    std::vector<EdgeList> lists;
    for (const auto& [sources, targets] : types) lists.push_back({sources, targets});
    return lists;
  }
  GraphPlan plan() const { return GraphPlan::make(nodes, lists()); }
  uint64_t edge_count() const {
    uint64_t count = 0;
    for (const auto& type : types) count += type.first.size();
    return count;
  }
};

using Edge = std::pair<uint32_t, uint32_t>;  // source, target

inline std::vector<Edge> pairs_of(const EdgeType& edges) {
  const auto sources = edges.sources(), targets = edges.targets();
  std::vector<Edge> pairs;
  for (size_t e = 0; e < sources.size(); ++e) pairs.emplace_back(sources[e], targets[e]);
  return pairs;
}

inline bool same_edges(const HeteroGraph& a, const HeteroGraph& b) {
  for (size_t t = 0; t < a.edge_types().size(); ++t) {
    const auto x = a.edge_types()[t].edges.bytes(), y = b.edge_types()[t].edges.bytes();
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
  }
  return true;
}

// Draws nodes with a heavy tail: node i has weight (1 + i)^-skew, the weights dealt to nodes in a
// shuffled order.
class SkewedNodes {
 public:
  SkewedNodes(uint32_t nodes, double skew, Random& random) : order_(nodes), cumulative_(nodes) {
    for (uint32_t i = 0; i < nodes; ++i) order_[i] = i;
    for (uint32_t i = nodes; i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
    double total = 0;
    for (uint32_t i = 0; i < nodes; ++i) cumulative_[i] = total += std::pow(1.0 + double(i), -skew);
  }
  uint32_t draw(Random& random) const {
    const double at = random.uniform() * cumulative_.back();
    const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), at);
    return order_[std::min<size_t>(size_t(found - cumulative_.begin()), order_.size() - 1)];
  }

 private:
  std::vector<uint32_t> order_;
  std::vector<double> cumulative_;
};

struct GraphShape {
  uint32_t nodes = 100;
  std::vector<uint64_t> edges = {500};  // of each type, self loops included
  double skew = 0.5;
  bool self_loops = false;  // one a node, at the end of each type that has room
  uint32_t hub = 0;  // in the largest type: this many edges into one node, as many out of another
};

// Repeated edges and isolated nodes come about by chance.
inline RandomGraph random_graph(uint64_t seed, const GraphShape& shape) {
  RandomGraph graph;
  graph.nodes = shape.nodes;
  Random random(seed);
  const uint64_t largest =
      shape.edges.empty() ? 0 : *std::max_element(shape.edges.begin(), shape.edges.end());
  for (const uint64_t count : shape.edges) {
    const SkewedNodes nodes(shape.nodes, shape.skew, random);
    const uint64_t loops = shape.self_loops ? std::min<uint64_t>(count, shape.nodes) : 0;
    std::vector<uint32_t> sources, targets;
    const auto add = [&](uint32_t source, uint32_t target) {
      sources.push_back(source);
      targets.push_back(target);
    };
    if (count == largest) {
      const uint32_t in = nodes.draw(random), out = nodes.draw(random);
      for (uint32_t i = 0; i < shape.hub && sources.size() + 2 + loops <= count; ++i) {
        add(uint32_t(random.below(shape.nodes)), in);
        add(out, uint32_t(random.below(shape.nodes)));
      }
    }
    while (sources.size() + loops < count) {
      const uint32_t source = nodes.draw(random);
      add(source, nodes.draw(random));
    }
    for (uint32_t node = 0; node < loops; ++node) add(node, node);
    graph.types.emplace_back(std::move(sources), std::move(targets));
  }
  return graph;
}

// The gene-gene types of a generated graph, in the order of the models.
inline RandomGraph gene_graph(const HeteroGraph& graph) {
  RandomGraph genes;
  genes.nodes = graph.genes().size();
  for (const EdgeType* edges : graph.gene_edges())
    genes.types.emplace_back(edges->sources(), edges->targets());
  return genes;
}
inline RandomGraph yeast_size_graph(uint64_t seed = 1) {
  return gene_graph(generate_graph(GraphSize::yeast, seed));
}

}  // namespace lacuna::testing
