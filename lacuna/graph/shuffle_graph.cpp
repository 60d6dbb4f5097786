#include "lacuna/graph/shuffle_graph.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "lacuna/core/hash.h"
#include "lacuna/core/random.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

constexpr uint64_t kSwapsPerLink = 10;
constexpr uint64_t kMostBitsBytes = 64;  // per link; a table needs 11 to 22
constexpr uint32_t kSelfLoop = UINT32_MAX;

// All edges between two different genes. They move together, so that both directions stay.
struct Link {
  uint32_t from, to;
  uint32_t forward = 0, backward = 0;  // edges from -> to, edges to -> from
};

struct EdgeList {
  std::vector<uint32_t> sources, targets;  // [E]
};

// Which pairs of genes are linked, one bit per pair. The faster way, where there are enough links
// to justify so many bits.
class PairBits {
 public:
  explicit PairBits(uint64_t genes) : bits_(bytes(genes) / 8) {}
  static uint64_t bytes(uint64_t genes) { return (genes * genes / 128 + 1) * 8; }

  bool has(uint32_t a, uint32_t b) const { return bits_[place(a, b) / 64] & bit(a, b); }
  void add(uint32_t a, uint32_t b) { bits_[place(a, b) / 64] |= bit(a, b); }
  void remove(uint32_t a, uint32_t b) { bits_[place(a, b) / 64] &= ~bit(a, b); }

 private:
  static uint64_t place(uint64_t a, uint64_t b) {
    if (a < b) std::swap(a, b);
    return a * (a - 1) / 2 + b;
  }
  static uint64_t bit(uint64_t a, uint64_t b) { return uint64_t(1) << (place(a, b) % 64); }

  std::vector<uint64_t> bits_;
};

// The same as a table of the pairs with open addressing, at most 3/4 full: linear in the links,
// however many genes there are.
class PairTable {
 public:
  explicit PairTable(uint64_t most)
      : slots_(std::bit_ceil(most + most / 3 + 2), kFree), shift_(64 - std::bit_width(mask())) {}

  bool has(uint32_t a, uint32_t b) const { return slots_[find(pair(a, b))] != kFree; }
  void add(uint32_t a, uint32_t b) {
    const uint64_t added = pair(a, b);
    slots_[find(added)] = added;
  }
  // Pairs after a freed slot move up, so that no search ends at a gap before its pair.
  void remove(uint32_t a, uint32_t b) {
    uint64_t free = find(pair(a, b));
    for (uint64_t i = next(free); slots_[i] != kFree; i = next(i)) {
      if (((i - home(slots_[i])) & mask()) < ((i - free) & mask())) continue;  // would be too early
      slots_[free] = slots_[i];
      free = i;
    }
    slots_[free] = kFree;
  }

 private:
  static constexpr uint64_t kFree = 0;  // no pair: its genes would be one and the same

  static uint64_t pair(uint64_t a, uint64_t b) { return a < b ? a << 32 | b : b << 32 | a; }
  uint64_t mask() const { return slots_.size() - 1; }
  uint64_t home(uint64_t pair) const { return pair * 0x9e3779b97f4a7c15u >> shift_; }
  uint64_t next(uint64_t i) const { return (i + 1) & mask(); }
  // The slot that holds it, else the free one where it belongs.
  uint64_t find(uint64_t pair) const {
    uint64_t i = home(pair);
    while (slots_[i] != pair && slots_[i] != kFree) i = next(i);
    return i;
  }

  std::vector<uint64_t> slots_;
  int shift_;
};

// The positions of all edges but self loops, those between the same two genes next to each other.
std::vector<uint32_t> positions_by_pair(const EdgeList& edges) {
  std::vector<uint32_t> positions;
  for (uint32_t e = 0; e < edges.sources.size(); ++e)
    if (edges.sources[e] != edges.targets[e]) positions.push_back(e);
  const auto key = [&](uint32_t e) {
    const auto [low, high] = std::minmax(edges.sources[e], edges.targets[e]);
    return std::tuple(low, high, e);
  };
  std::sort(positions.begin(), positions.end(),
            [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  return positions;
}

struct Links {
  std::vector<Link> links;
  std::vector<uint32_t> link_of;  // [E] kSelfLoop for those
  std::vector<bool> is_backward;  // [E]
};

Links find_links(const EdgeList& edges) {
  const uint64_t edge_count = edges.sources.size();
  Links found = {{}, std::vector<uint32_t>(edge_count, kSelfLoop), std::vector<bool>(edge_count)};
  for (const uint32_t e : positions_by_pair(edges)) {
    const uint32_t source = edges.sources[e], target = edges.targets[e];
    const auto is_between = [&](const Link& link) {
      return std::minmax(link.from, link.to) == std::minmax(source, target);
    };
    if (found.links.empty() || !is_between(found.links.back()))
      found.links.push_back({source, target});
    Link& link = found.links.back();
    found.link_of[e] = uint32_t(found.links.size() - 1);
    found.is_backward[e] = link.from != source;
    ++(found.is_backward[e] ? link.backward : link.forward);
  }
  return found;
}

// Makes a - b and c - d into a - d and c - b, unless one of these already exists.
template <class Pairs>
bool try_swap(Link& first, Link& second, Pairs& linked) {
  if (first.from == second.to || second.from == first.to) return false;
  if (linked.has(first.from, second.to) || linked.has(second.from, first.to)) return false;
  linked.remove(first.from, first.to);
  linked.remove(second.from, second.to);
  std::swap(first.to, second.to);
  linked.add(first.from, first.to);
  linked.add(second.from, second.to);
  return true;
}

template <class Pairs>
void swap_links(std::vector<Link>& links, Pairs linked, Random random) {
  // Only links with the same numbers of edges may swap: else degrees would change.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> alike;
  for (uint32_t i = 0; i < links.size(); ++i) {
    linked.add(links[i].from, links[i].to);
    alike[{links[i].forward, links[i].backward}].push_back(i);
  }
  for (const auto& [counts, members] : alike) {
    const bool is_two_way = counts.first == counts.second;  // then either end may be exchanged
    for (uint64_t n = kSwapsPerLink * members.size(); n > 0; --n) {
      Link& first = links[members[random.below(members.size())]];
      Link& second = links[members[random.below(members.size())]];
      if (is_two_way && random.next() >> 63) std::swap(second.from, second.to);
      try_swap(first, second, linked);
    }
  }
}

EdgeList shuffle_edges(EdgeList edges, uint64_t genes, Random random) {
  Links found = find_links(edges);
  const uint64_t count = found.links.size();
  if (PairBits::bytes(genes) <= kMostBitsBytes * count)
    swap_links(found.links, PairBits(genes), random);
  else
    swap_links(found.links, PairTable(count), random);
  for (uint64_t e = 0; e < edges.sources.size(); ++e) {
    if (found.link_of[e] == kSelfLoop) continue;
    const Link& link = found.links[found.link_of[e]];
    edges.sources[e] = found.is_backward[e] ? link.to : link.from;
    edges.targets[e] = found.is_backward[e] ? link.from : link.to;
  }
  return edges;
}

Array to_array(const EdgeList& edges, uint64_t genes) {
  std::vector<uint32_t> both = edges.sources;
  both.insert(both.end(), edges.targets.begin(), edges.targets.end());
  return narrow(both, genes, {2, edges.sources.size()});
}

}  // namespace

HeteroGraph shuffle_graph(const HeteroGraph& graph, uint64_t seed, int threads) {
  const std::vector<EdgeType>& types = graph.edge_types();
  const uint64_t genes = graph.genes().size();
  std::vector<Array> edges(types.size());
  parallel_for(types.size(), threads, [&](uint64_t t) {
    const EdgeType& type = types[t];
    if (type.source != "gene" || type.target != "gene") {
      edges[t] = type.edges;
      return;
    }
    const Random random(seed, hash64(type.key()));
    edges[t] = to_array(shuffle_edges({type.sources(), type.targets()}, genes, random), genes);
  });
  HeteroGraph shuffled;
  for (const NodeType& nodes : graph.node_types()) {
    shuffled.add_nodes(nodes.name, nodes.names);
    for (const NodeFeature& feature : nodes.features)
      shuffled.add_feature(nodes.name, feature.name, feature.values);
  }
  for (size_t t = 0; t < types.size(); ++t)
    shuffled.add_edges(types[t].source, types[t].name, types[t].target, edges[t], types[t].values);
  return shuffled;
}

}  // namespace lacuna
