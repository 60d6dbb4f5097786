#include "lacuna/graph/without_edges.h"

namespace lacuna {

HeteroGraph without_edges(const HeteroGraph& graph, std::string_view key) {
  graph.edges(key);  // throws where there is none
  HeteroGraph less;
  for (const NodeType& nodes : graph.node_types()) {
    less.add_nodes(nodes.name, nodes.names);
    for (const NodeFeature& feature : nodes.features)
      less.add_feature(nodes.name, feature.name, feature.values);
  }
  for (const EdgeType& type : graph.edge_types()) {
    if (type.key() != key)
      less.add_edges(type.source, type.name, type.target, type.edges, type.values);
    else
      less.add_edges(type.source, type.name, type.target,
                     narrow({}, graph.nodes(type.source).size(), {2, 0}));
  }
  return less;
}

}  // namespace lacuna
