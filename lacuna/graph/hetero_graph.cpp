#include "lacuna/graph/hetero_graph.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// Names of types, features and values become parts of file names and of keys joined by dots.
void check_word(std::string_view what, std::string_view word) {
  const auto allowed = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (word.empty() || !std::all_of(word.begin(), word.end(), allowed))
    throw Error("{} '{}' cannot name a file; use letters, digits, '_' and '-'", what, word);
}

template <class T>
const T* find_by_name(const std::vector<T>& list, std::string_view name) {
  const auto place =
      std::find_if(list.begin(), list.end(), [&](auto& e) { return e.name == name; });
  return place == list.end() ? nullptr : &*place;
}

void check_indices(std::span<const uint32_t> indices, const NodeType& nodes, std::string_view end,
                   const std::string& key) {
  for (uint64_t e = 0; e < indices.size(); ++e)
    if (indices[e] >= nodes.size())
      throw Error(
          "edge {} of type '{}' has {} index {}, but there are {} nodes of type '{}'; "
          "were the edges made for another list of nodes?",
          e, key, end, indices[e], nodes.size(), nodes.name);
}

void check_values(const std::vector<EdgeValue>& values, uint64_t edge_count,
                  const std::string& key) {
  for (size_t i = 0; i < values.size(); ++i) {
    const EdgeValue& value = values[i];
    check_word("edge value", value.name);
    if (find_by_name(values, value.name) != &value)
      throw Error("edge type '{}' has two values named '{}'; rename one", key, value.name);
    if (value.values.dtype() != DType::f32 || value.values.shape() != Shape{edge_count})
      throw Error("value '{}' of edge type '{}' is {} [{}]; it must be f32 [{}], one an edge",
                  value.name, key, name(value.values.dtype()),
                  fmt::join(value.values.shape(), ", "), edge_count);
  }
}

template <class T>
std::vector<uint32_t> row_of_pair(const Array& pairs, uint64_t row) {
  const auto values = pairs.as<T>().subspan(row * pairs.shape()[1], pairs.shape()[1]);
  return std::vector<uint32_t>(values.begin(), values.end());
}

// Row 0 (sources) or 1 (targets) of a [2, E] index array.
std::vector<uint32_t> ends(const Array& edges, uint64_t row) {
  switch (edges.dtype()) {
    case DType::u8:
      return row_of_pair<uint8_t>(edges, row);
    case DType::u16:
      return row_of_pair<uint16_t>(edges, row);
    default:
      return row_of_pair<uint32_t>(edges, row);
  }
}

}  // namespace

std::vector<uint32_t> EdgeType::sources() const { return ends(edges, 0); }
std::vector<uint32_t> EdgeType::targets() const { return ends(edges, 1); }

void HeteroGraph::add_nodes(std::string type, Names names) {
  check_word("node type", type);
  if (find_nodes(type)) throw Error("node type '{}' is already in the graph", type);
  nodes_.push_back({std::move(type), std::move(names), {}});
}

void HeteroGraph::add_feature(std::string_view node_type, std::string name, Array values) {
  check_word("node feature", name);
  const NodeType& found = nodes(node_type);
  const Shape& shape = values.shape();
  if (values.dtype() != DType::f32 || shape.size() != 2 || shape[0] != found.size())
    throw Error(
        "feature '{}' of node type '{}' is {} [{}]; it must be f32 [{}, width], a row a "
        "node",
        name, node_type, lacuna::name(values.dtype()), fmt::join(shape, ", "), found.size());
  if (find_by_name(found.features, name))
    throw Error("node type '{}' already has a feature '{}'; rename one", node_type, name);
  nodes_[size_t(&found - nodes_.data())].features.push_back({std::move(name), std::move(values)});
}

void HeteroGraph::add_edges(std::string source, std::string name, std::string target, Array edges,
                            std::vector<EdgeValue> values) {
  check_word("edge type", name);
  EdgeType added = {std::move(source), std::move(name), std::move(target), std::move(edges),
                    std::move(values)};
  const std::string key = added.key();
  const NodeType &from = nodes(added.source), &to = nodes(added.target);
  const Shape& shape = added.edges.shape();
  const DType dtype = added.edges.dtype();
  if (shape.size() != 2 || shape[0] != 2)
    throw Error("edges of type '{}' have shape [{}]; they must be [2, E], sources then targets",
                key, fmt::join(shape, ", "));
  if (dtype != DType::u8 && dtype != DType::u16 && dtype != DType::u32)
    throw Error("edges of type '{}' are {}; they must be u8, u16 or u32", key, lacuna::name(dtype));
  if (added.size() > UINT32_MAX)
    throw Error("edge type '{}' has {} edges, which do not fit 32-bit positions; split it", key,
                added.size());
  for (const EdgeType& other : edges_)
    if (other.key() == key) throw Error("edge type '{}' is already in the graph", key);
  check_values(added.values, added.size(), key);
  check_indices(added.sources(), from, "source", key);
  check_indices(added.targets(), to, "target", key);
  const uint64_t larger = std::max(from.size(), to.size());
  if (dtype != smallest_index_type(larger))
    added.edges = narrow(widen(added.edges), larger, Shape(shape));
  edges_.push_back(std::move(added));
}

const NodeType* HeteroGraph::find_nodes(std::string_view type) const {
  return find_by_name(nodes_, type);
}

const NodeType& HeteroGraph::nodes(std::string_view type) const {
  if (const NodeType* found = find_nodes(type)) return *found;
  std::vector<std::string> there;
  for (const NodeType& nodes : nodes_) there.push_back(nodes.name);
  throw Error("the graph has no nodes of type '{}'; it has: {}", type,
              there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", ")));
}

const EdgeType& HeteroGraph::edges(std::string_view key) const {
  std::vector<std::string> there;
  for (const EdgeType& edges : edges_) {
    if (edges.key() == key) return edges;
    there.push_back(edges.key());
  }
  throw Error("the graph has no edges of type '{}'; it has: {}", key,
              there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", ")));
}

std::vector<const EdgeType*> HeteroGraph::gene_edges() const {
  std::vector<const EdgeType*> found;
  for (const EdgeType& edges : edges_)
    if (edges.source == "gene" && edges.target == "gene") found.push_back(&edges);
  std::sort(found.begin(), found.end(), [](auto* a, auto* b) { return a->name < b->name; });
  return found;
}

}  // namespace lacuna
