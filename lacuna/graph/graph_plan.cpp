#include "lacuna/graph/graph_plan.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr char kMagic[8] = {'L', 'A', 'C', 'P', 'L', 'A', 'N', '\0'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kAlignment = 64;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t node_count;
  uint32_t type_count;
  uint32_t index_bytes;
  uint64_t edge_count;
  uint64_t byte_count;
  char reserved[24];
};
static_assert(sizeof(Header) == 64);

// Where the arrays of one CSR start, in bytes from the start of the plan.
struct CsrPlace {
  uint64_t ptr, neighbour, edge;
};
struct TypeEntry {
  uint64_t edge_count, first_edge;
  CsrPlace by_target, by_source;
};
static_assert(sizeof(TypeEntry) == 64);

const Header& header(std::span<const std::byte> bytes) {
  return *reinterpret_cast<const Header*>(bytes.data());
}
const TypeEntry& entry(std::span<const std::byte> bytes, uint32_t type) {
  LACUNA_ASSERT(type < header(bytes).type_count);
  return reinterpret_cast<const TypeEntry*>(bytes.data() + sizeof(Header))[type];
}

uint64_t align(uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

// Lays out arrays one after another; each starts at a multiple of 64 bytes.
class Layout {
 public:
  explicit Layout(uint64_t start) : end_(align(start)) {}
  uint64_t place(uint64_t bytes) {
    const uint64_t start = end_;
    end_ = align(end_ + bytes);
    return start;
  }
  uint64_t end() const { return end_; }

 private:
  uint64_t end_;
};

CsrPlace place_csr(Layout& layout, uint32_t node_count, uint64_t edges, uint32_t index_bytes) {
  CsrPlace place;
  place.ptr = layout.place((uint64_t(node_count) + 1) * sizeof(uint32_t));
  place.neighbour = layout.place(edges * index_bytes);
  place.edge = layout.place(edges * sizeof(uint32_t));
  return place;
}

// A counting sort, stable, so that the edges of a row stay in the order of the list.
template <class Index>
void fill_csr(std::byte* plan, const CsrPlace& place, uint32_t node_count,
              std::span<const uint32_t> rows, std::span<const uint32_t> others) {
  auto* ptr = reinterpret_cast<uint32_t*>(plan + place.ptr);  // [N + 1], zero
  auto* neighbour = reinterpret_cast<Index*>(plan + place.neighbour);
  auto* edge = reinterpret_cast<uint32_t*>(plan + place.edge);
  for (const uint32_t row : rows) ++ptr[row + 1];
  for (uint32_t row = 0; row < node_count; ++row) ptr[row + 1] += ptr[row];
  std::vector<uint32_t> next(ptr, ptr + node_count);
  for (size_t e = 0; e < rows.size(); ++e) {
    const uint32_t at = next[rows[e]]++;
    neighbour[at] = Index(others[e]);
    edge[at] = uint32_t(e);
  }
}

void check_edges(uint32_t node_count, size_t type, const EdgeList& edges) {
  if (edges.sources.size() != edges.targets.size())
    throw Error("edge type {} has {} sources and {} targets; give one of each an edge", type,
                edges.sources.size(), edges.targets.size());
  if (edges.sources.size() > UINT32_MAX)
    throw Error("edge type {} has {} edges; a type holds at most {}", type, edges.sources.size(),
                UINT32_MAX);
  for (size_t e = 0; e < edges.sources.size(); ++e) {
    for (const uint32_t node : {edges.sources[e], edges.targets[e]})
      if (node >= node_count)
        throw Error("edge {} of type {} refers to node {}, but there are {} nodes", e, type, node,
                    node_count);
  }
}

struct Range {
  uint64_t start, size;
};

void check_inside(Range range, uint64_t total) {
  if (range.start % kAlignment != 0 || range.start > total || range.size > total - range.start)
    throw Error("the graph plan is damaged (an array lies outside of it); make it again");
}

CsrView view(const std::byte* plan, const CsrPlace& place) {
  return {reinterpret_cast<const uint32_t*>(plan + place.ptr), plan + place.neighbour,
          reinterpret_cast<const uint32_t*>(plan + place.edge)};
}

}  // namespace

GraphPlan GraphPlan::make(uint32_t node_count, std::span<const EdgeList> types) {
  for (size_t t = 0; t < types.size(); ++t) check_edges(node_count, t, types[t]);

  Header head = {};
  std::memcpy(head.magic, kMagic, sizeof(kMagic));
  head.version = kVersion;
  head.node_count = node_count;
  head.type_count = uint32_t(types.size());
  head.index_bytes = node_count <= 65536 ? 2 : 4;
  std::vector<TypeEntry> entries;
  Layout layout(sizeof(Header) + types.size() * sizeof(TypeEntry));
  for (const EdgeList& edges : types) {
    const uint64_t count = edges.sources.size();
    const CsrPlace by_target = place_csr(layout, node_count, count, head.index_bytes);
    const CsrPlace by_source = place_csr(layout, node_count, count, head.index_bytes);
    entries.push_back({count, head.edge_count, by_target, by_source});
    head.edge_count += count;
  }
  head.byte_count = layout.end();

  std::shared_ptr<std::byte> plan(
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, head.byte_count)), std::free);
  if (!plan) throw std::bad_alloc();
  std::memset(plan.get(), 0, head.byte_count);  // padding too: equal graphs give equal bytes
  std::memcpy(plan.get(), &head, sizeof(head));
  if (!entries.empty())
    std::memcpy(plan.get() + sizeof(head), entries.data(), entries.size() * sizeof(TypeEntry));
  const auto fill = head.index_bytes == 2 ? fill_csr<uint16_t> : fill_csr<uint32_t>;
  for (size_t t = 0; t < types.size(); ++t) {
    fill(plan.get(), entries[t].by_target, node_count, types[t].targets, types[t].sources);
    fill(plan.get(), entries[t].by_source, node_count, types[t].sources, types[t].targets);
  }
  return from_bytes({plan.get(), head.byte_count}, plan);
}

GraphPlan GraphPlan::from_bytes(std::span<const std::byte> bytes,
                                std::shared_ptr<const void> owner) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0)
    throw Error("the graph plan is not aligned to {} bytes", kAlignment);
  if (bytes.size() < sizeof(Header) ||
      std::memcmp(header(bytes).magic, kMagic, sizeof(kMagic)) != 0)
    throw Error("these {} bytes are not a graph plan", bytes.size());
  const Header& head = header(bytes);
  if (head.version != kVersion)
    throw Error("the graph plan is of version {}, this program reads version {}; make it again",
                head.version, kVersion);
  if (head.byte_count > bytes.size())
    throw Error("the graph plan is cut short: {} bytes of {}; make it again", bytes.size(),
                head.byte_count);
  check_inside({sizeof(Header), head.type_count * sizeof(TypeEntry)}, head.byte_count);
  if (head.index_bytes != (head.node_count <= 65536 ? 2 : 4))
    throw Error("the graph plan is damaged (indices of {} bytes for {} nodes); make it again",
                head.index_bytes, head.node_count);
  uint64_t first_edge = 0;
  for (uint32_t t = 0; t < head.type_count; ++t) {
    const TypeEntry& type = entry(bytes, t);
    for (const CsrPlace& place : {type.by_target, type.by_source}) {
      check_inside({place.ptr, (uint64_t(head.node_count) + 1) * 4}, head.byte_count);
      check_inside({place.neighbour, type.edge_count * head.index_bytes}, head.byte_count);
      check_inside({place.edge, type.edge_count * 4}, head.byte_count);
      if (type.edge_count > UINT32_MAX || type.first_edge != first_edge ||
          view(bytes.data(), place).ptr[head.node_count] != type.edge_count)
        throw Error("the graph plan is damaged (edge counts of type {} disagree); make it again",
                    t);
    }
    first_edge += type.edge_count;
  }
  if (first_edge != head.edge_count)
    throw Error("the graph plan is damaged (edge counts disagree); make it again");
  GraphPlan plan;
  plan.bytes_ = bytes.first(head.byte_count);
  plan.owner_ = std::move(owner);
  return plan;
}

uint32_t GraphPlan::node_count() const { return header(bytes_).node_count; }
uint32_t GraphPlan::type_count() const { return header(bytes_).type_count; }
uint32_t GraphPlan::index_bytes() const { return header(bytes_).index_bytes; }
uint64_t GraphPlan::edge_count() const { return header(bytes_).edge_count; }
uint64_t GraphPlan::edge_count(uint32_t type) const { return entry(bytes_, type).edge_count; }
uint64_t GraphPlan::first_edge(uint32_t type) const { return entry(bytes_, type).first_edge; }
CsrView GraphPlan::by_target(uint32_t type) const {
  return view(bytes_.data(), entry(bytes_, type).by_target);
}
CsrView GraphPlan::by_source(uint32_t type) const {
  return view(bytes_.data(), entry(bytes_, type).by_source);
}

}  // namespace lacuna
