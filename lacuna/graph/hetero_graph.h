// The one big thing that samples are perturbed copies of: named nodes of a few types and typed
// edges between them.
//
// Node types of a screen are "gene" (always there), "reaction" and "metabolite". An edge type is a
// triple such as (gene, physical, gene); its key "gene.physical.gene" names its file and its part
// of the fingerprint. The order of edges is part of the graph: masks and edge values refer to it.
// Self loops and repeated edges are edges like any other.
//
// A graph is built by add_*() calls, which check what they are given, and is not changed
// afterwards. Names of types, features and values are letters, digits, '_' and '-': they become
// file names. One edge type holds up to 2^32 - 1 edges.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/graph/names.h"

namespace lacuna {

struct NodeFeature {
  std::string name;
  Array values;  // [N, d] f32
};

struct NodeType {
  std::string name;
  Names names;
  std::vector<NodeFeature> features;
  uint32_t size() const { return names.size(); }
};

struct EdgeValue {
  std::string name;
  Array values;  // [E] f32
};

struct EdgeType {
  std::string source, name, target;  // node type, what the edge says, node type
  Array edges;  // [2, E] sources, then targets; the smallest type that holds the larger node count
  std::vector<EdgeValue> values;

  std::string key() const { return source + "." + name + "." + target; }
  uint64_t size() const { return edges.shape()[1]; }
  std::vector<uint32_t> sources() const;  // [E], a copy
  std::vector<uint32_t> targets() const;  // [E], a copy
};

class HeteroGraph {
 public:
  void add_nodes(std::string type, Names names);
  void add_feature(std::string_view node_type, std::string name, Array values);
  // edges [2, E] of u8, u16 or u32. Throws Error naming the edge when an index is outside its node
  // type.
  void add_edges(std::string source, std::string name, std::string target, Array edges,
                 std::vector<EdgeValue> values = {});

  const std::vector<NodeType>& node_types() const { return nodes_; }
  const std::vector<EdgeType>& edge_types() const { return edges_; }
  const NodeType& nodes(std::string_view type) const;  // throws Error, listing what there is
  const EdgeType& edges(std::string_view key) const;  // by key; throws Error, listing what there is
  const NodeType* find_nodes(std::string_view type) const;
  const NodeType& genes() const { return nodes("gene"); }
  // The gene-gene edge types, in alphabetical order of their names: the order of the models.
  std::vector<const EdgeType*> gene_edges() const;

 private:
  std::vector<NodeType> nodes_;
  std::vector<EdgeType> edges_;
};

}  // namespace lacuna
