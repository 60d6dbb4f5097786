#include "lacuna/screen/plan_cache.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"

namespace lacuna {
namespace {

constexpr char kMagic[8] = {'L', 'A', 'C', 'C', 'A', 'C', 'H', 'E'};
constexpr uint32_t kVersion = 1;

// Stands before the plan's bytes in the file; 64 bytes, so that they stay aligned.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  uint64_t key;
  uint64_t byte_count;  // of the plan
  uint64_t xxh3;        // of the plan
  char more[24];
};
static_assert(sizeof(Header) == 64);

uint64_t key_of(const GraphPlan& graph, uint32_t capacity) {
  const uint64_t words[] = {hash64(graph.bytes()), capacity, SlabPlan::kVersion};
  return hash64(std::as_bytes(std::span(words)));
}

// Throws Error unless the file is whole, of this key, and fits the graph.
SlabPlan read_plan(const fs::path& path, uint64_t key, const GraphPlan& graph) {
  const MappedFile file(path);
  Header head = {};
  if (file.bytes().size() < sizeof(head)) throw Error("{}: cut short", path.string());
  std::memcpy(&head, file.bytes().data(), sizeof(head));
  if (std::memcmp(head.magic, kMagic, sizeof(kMagic)) != 0 || head.version != kVersion)
    throw Error("{}: not a cached plan of this version", path.string());
  if (head.key != key) throw Error("{}: of another graph", path.string());
  const auto bytes = file.bytes().subspan(sizeof(head));
  if (bytes.size() != head.byte_count)
    throw Error("{}: {} bytes of a plan of {}", path.string(), bytes.size(), head.byte_count);
  if (hash64(bytes) != head.xxh3) throw Error("{}: its checksum is wrong", path.string());
  SlabPlan plan = SlabPlan::from_bytes(bytes, file.owner());
  plan.check_graph(graph);
  return plan;
}

void write_plan(const fs::path& path, uint64_t key, const SlabPlan& plan) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) throw Error("{}: cannot create: {}", path.parent_path().string(), error.message());
  Header head = {};
  std::memcpy(head.magic, kMagic, sizeof(kMagic));
  head.version = kVersion;
  head.key = key;
  head.byte_count = plan.bytes().size();
  head.xxh3 = hash64(plan.bytes());
  AtomicFile file(path);
  FileWriter writer(file.temporary());
  writer.write(std::as_bytes(std::span(&head, 1)));
  writer.write(plan.bytes());
  writer.close();
  file.commit();
}

bool same_gene_edges(const HeteroGraph& a, const HeteroGraph& b) {
  const auto same = [](const EdgeType* one, const EdgeType* other) {
    return one->name == other->name && std::ranges::equal(one->edges.bytes(), other->edges.bytes());
  };
  return a.genes().size() == b.genes().size() &&
         std::ranges::equal(a.gene_edges(), b.gene_edges(), same);
}

}  // namespace

GraphPlan plan_gene_edges(const HeteroGraph& graph) {
  std::vector<std::vector<uint32_t>> ends;  // sources and targets of type 0, of type 1, ...
  for (const EdgeType* type : graph.gene_edges()) {
    ends.push_back(type->sources());
    ends.push_back(type->targets());
  }
  std::vector<EdgeList> lists;
  for (size_t i = 0; i < ends.size(); i += 2) lists.push_back({ends[i], ends[i + 1]});
  return GraphPlan::make(graph.genes().size(), lists);
}

fs::path cache_folder(const Screen& screen) { return screen.path() / "cache"; }

CachedPlan cached_plan(const Screen& screen, uint32_t capacity, int threads) {
  return cached_plan(cache_folder(screen), plan_gene_edges(screen.graph()), capacity, threads);
}

CachedPlan cached_plan(const Screen& screen, const HeteroGraph& graph, uint32_t capacity,
                       int threads) {
  if (same_gene_edges(graph, screen.graph())) return cached_plan(screen, capacity, threads);
  CachedPlan plan;
  plan.graph = plan_gene_edges(graph);
  plan.slabs = SlabPlan::make(plan.graph, {capacity}, threads);
  plan.how = CachedPlan::made_not_saved;
  return plan;
}

CachedPlan cached_plan(const fs::path& folder, const GraphPlan& graph, uint32_t capacity,
                       int threads) {
  CachedPlan plan;
  plan.graph = graph;
  const uint64_t key = key_of(graph, capacity);
  const fs::path path = folder / ("slices-" + hex(key) + ".bin");
  std::error_code absent;
  if (fs::exists(path, absent)) {
    try {
      plan.slabs = read_plan(path, key, graph);
      return plan;
    } catch (const Error& error) {
      plan.note = fmt::format("the cached plan of the graph was made anew: {}", error.what());
    }
  }
  plan.slabs = SlabPlan::make(graph, {capacity}, threads);
  plan.how = CachedPlan::made;
  try {
    write_plan(path, key, plan.slabs);
  } catch (const Error& error) {
    plan.how = CachedPlan::made_not_saved;
    plan.note =
        fmt::format("the plan of the graph is not kept for the next time: {}", error.what());
  }
  return plan;
}

}  // namespace lacuna
