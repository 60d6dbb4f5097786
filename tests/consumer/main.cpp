// Three genes in a row, and what is left of their edges when the middle one is removed.
#include <cstdio>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/graph/hetero_graph.h"
#include "lacuna/graph/removal.h"

int main() {
  lacuna::HeteroGraph graph;
  graph.add_nodes("gene", lacuna::Names({"a", "b", "c"}));
  const std::vector<uint8_t> edges = {0, 1, 2,   // sources
                                      1, 2, 0};  // targets
  graph.add_edges("gene", "physical", "gene", lacuna::Array::from(edges, {2, 3}));
  const lacuna::RemovalRules rules(graph);
  const auto& physical = rules.sections().at(1);
  std::printf("%zu of %zu edges go\n", physical.off.of(1).size(), size_t(physical.count));
  try {
    throw lacuna::Error("gene '{}' is unknown", "d");
  } catch (const lacuna::Error& error) {
    std::printf("%s\n", error.what());
  }
}
