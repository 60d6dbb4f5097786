#include "lacuna/ops/slab/slab_plan.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/ops/slab/slab_making.h"

namespace lacuna {
namespace {

using namespace slab;

// More would not fit a position into 16 bits beside the zero rows.
constexpr uint32_t kMostSlabNodes = 0x8000;

const SlabPlanHeader& header(std::span<const std::byte> bytes) {
  return *reinterpret_cast<const SlabPlanHeader*>(bytes.data());
}
uint64_t align(uint64_t size) {
  return (size + kSlabPlanAlignment - 1) / kSlabPlanAlignment * kSlabPlanAlignment;
}

// The panels of a pass, made one by one, before they are joined.
struct Draft {
  std::vector<SlabSource> sources;
  std::vector<SlabLines> lists;
  std::vector<SlabPanel> chunks, rows;
  Pass pass = {};

  void make(const GraphPlan& graph, uint32_t output_types, uint32_t slab_rows, int threads) {
    lists.resize(sources.size());
    parallel_for(sources.size(), threads,
                 [&](uint64_t p) { lists[p] = list_slab_lines(graph, sources[p], slab_rows); });
    chunks = make_slab_chunks(lists, slab_rows, threads);
    rows = make_slab_rows(lists, slab_rows, threads);
    pass.panel_count = uint32_t(sources.size());
    pass.output_types = output_types;
    pass.slab_rows = slab_rows;
    const auto edges = [&](uint32_t p) { return lists[p].neighbours.size(); };
    for (uint32_t p = 0; p < pass.panel_count; ++p) {
      pass.edges += edges(p);
      if (p == 0 || p + 1 == pass.panel_count) continue;
      if (pass.heaviest == 0 || edges(p) > edges(pass.heaviest)) pass.heaviest = p;
    }
    count(chunks, kUnitBytes, pass.chunks);
    count(rows, kRowUnitBytes, pass.rows);
  }

  static void count(const std::vector<SlabPanel>& panels, uint32_t unit_bytes, Layout& layout) {
    for (const SlabPanel& panel : panels) {
      layout.task_count += uint32_t(panel.tasks.size());
      layout.chunk_count += uint32_t(panel.lines.size() / kLines);
      layout.unit_count += uint32_t(panel.units.size() / unit_bytes);
      layout.gathers += panel.gathers;
    }
  }

  void write(std::byte* plan, uint32_t node_count) const {
    for (size_t p = 0; p < sources.size(); ++p) {
      reinterpret_cast<uint32_t*>(plan + pass.panel_type)[p] = sources[p].type;
      std::memcpy(plan + pass.node_at + p * pass.slab_rows * 2, lists[p].node_at.data(),
                  lists[p].node_at.size() * 2);
      std::memcpy(plan + pass.place + p * node_count * 2, lists[p].place.data(),
                  lists[p].place.size() * 2);
    }
    write(plan, node_count, chunks, kUnitBytes, pass.chunks);
    write(plan, node_count, rows, kRowUnitBytes, pass.rows);
  }

  void write(std::byte* plan, uint32_t node_count, const std::vector<SlabPanel>& panels,
             uint32_t unit_bytes, const Layout& layout) const {
    uint32_t task = 0, chunk = 0, unit = 0;
    const auto array = [&](uint64_t offset) { return reinterpret_cast<uint32_t*>(plan + offset); };
    auto* tasks = reinterpret_cast<Task*>(plan + layout.tasks);
    auto* own = reinterpret_cast<uint16_t*>(plan + layout.own);
    uint32_t* const lines = array(layout.lines);
    for (size_t p = 0; p < panels.size(); ++p) {
      const SlabPanel& panel = panels[p];
      const uint32_t count = uint32_t(panel.tasks.size());
      array(layout.first_task)[p] = task;
      for (uint32_t k = 0; k < count; ++k) {
        tasks[task + k] = {panel.tasks[k].unit + unit, panel.tasks[k].chunk + chunk};
        array(layout.cost)[task + k] = panel.cost[k];
        const size_t end = k + 1 < count ? panel.tasks[k + 1].chunk * kLines : panel.lines.size();
        for (size_t i = panel.tasks[k].chunk * kLines; i < end; ++i) {
          const uint32_t line = panel.lines[i];
          if (line == kNoLine || p != pass.heaviest) continue;
          array(layout.task_of)[size_t(line >> 16) * node_count + (line & 0xffff)] = task + k;
        }
      }
      std::copy(panel.lines.begin(), panel.lines.end(), lines + size_t(chunk) * kLines);
      std::copy(panel.own.begin(), panel.own.end(), own + size_t(chunk) * kLines);
      std::copy(panel.heads.begin(), panel.heads.end(), array(layout.heads) + chunk);
      std::copy(panel.edges.begin(), panel.edges.end(),
                array(layout.edges) + size_t(unit) * kRowUnitSlots);
      std::ranges::copy(panel.units, plan + layout.units + uint64_t(unit) * unit_bytes);
      task += count;
      chunk += uint32_t(panel.lines.size() / kLines);
      unit += uint32_t(panel.units.size() / unit_bytes);
    }
    array(layout.first_task)[panels.size()] = task;
    tasks[task] = {unit, chunk};
    std::fill_n(lines + size_t(chunk) * kLines, 2 * kLines, kNoLine);
    std::fill_n(own + size_t(chunk) * kLines, 2 * kLines, uint16_t(pass.slab_rows - 1));
  }
};

}  // namespace

uint32_t slab_capacity(uint64_t bytes, uint32_t node_count, uint32_t type_count) {
  // 32 bytes a row and 2 of its number, two bits a node of the graph, four bytes a type, a zero
  // group, and a few words.
  const uint64_t fixed =
      (uint64_t(node_count) + 63) / 64 * 16 + (uint64_t(type_count) + 3) / 4 * 16 + 8 * 34 + 112;
  if (bytes <= fixed) return 0;
  return uint32_t(std::min<uint64_t>((bytes - fixed) / 34 / 8 * 8, kMostSlabNodes));
}

SlabPlan SlabPlan::make(const GraphPlan& graph, const SlabGeometry& geometry, int threads) {
  const uint32_t nodes = graph.node_count(), types = graph.type_count();
  if (nodes >= kNoNode || types >= kNoNode) {
    throw Error("a slab plan holds fewer than {} nodes and types, this graph has {} and {}",
                kNoNode, nodes, types);
  }
  if (geometry.capacity < 8) {
    throw Error("a slab of {} nodes is too small, the least is 8", geometry.capacity);
  }
  const uint32_t capacity = std::min(geometry.capacity, kMostSlabNodes);
  const uint32_t tiles = std::max(1u, (nodes + capacity - 1) / capacity);
  const uint32_t tile = ((nodes + tiles - 1) / tiles + 7) / 8 * 8;
  const uint32_t slab_rows = std::max(tile, 8u) + kClasses;
  Draft forward, backward;
  for (uint32_t k = 0; k < tiles; ++k) {
    const uint32_t begin = std::min(nodes, k * tile), end = std::min(nodes, begin + tile);
    forward.sources.push_back({true, 0, begin, end, k == 0 || k + 1 == tiles});
    for (uint32_t t = 0; t < types; ++t) backward.sources.push_back({false, t, begin, end, false});
  }
  order_backward_panels(graph, backward.sources);
  forward.make(graph, std::max(types, 1u), slab_rows, threads);
  backward.make(graph, 1, slab_rows, threads);

  SlabPlanHeader head = {};
  std::memcpy(head.magic, kSlabPlanMagic, sizeof(kSlabPlanMagic));
  head.version = kVersion;
  head.node_count = nodes;
  head.type_count = types;
  head.capacity = geometry.capacity;
  head.edge_count = graph.edge_count();
  uint64_t size = align(sizeof(SlabPlanHeader));
  for (Draft* draft : {&forward, &backward}) {
    for (const SlabPlanPart& part : slab_plan_parts(draft->pass, nodes)) {
      *part.offset = size;
      size = align(size + part.size);
    }
  }
  head.forward = forward.pass;
  head.backward = backward.pass;
  head.byte_count = size;

  std::shared_ptr<std::byte> plan(
      static_cast<std::byte*>(std::aligned_alloc(kSlabPlanAlignment, size)), std::free);
  if (!plan) throw std::bad_alloc();
  std::memset(plan.get(), 0, size);
  std::memcpy(plan.get(), &head, sizeof(head));
  forward.write(plan.get(), nodes);
  backward.write(plan.get(), nodes);
  SlabPlan made;
  made.bytes_ = {plan.get(), size};
  made.owner_ = plan;
  return made;
}

SlabPlan SlabPlan::from_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  SlabPlan plan;
  plan.bytes_ = bytes.first(check_slab_plan(bytes));
  plan.owner_ = std::move(owner);
  return plan;
}

uint32_t SlabPlan::node_count() const { return header(bytes_).node_count; }
uint32_t SlabPlan::type_count() const { return header(bytes_).type_count; }
uint64_t SlabPlan::edge_count() const { return header(bytes_).edge_count; }
uint32_t SlabPlan::capacity() const { return header(bytes_).capacity; }
const Pass& SlabPlan::forward() const { return header(bytes_).forward; }
const Pass& SlabPlan::backward() const { return header(bytes_).backward; }

void SlabPlan::check_graph(const GraphPlan& graph) const {
  if (graph.node_count() != node_count() || graph.type_count() != type_count() ||
      graph.edge_count() != edge_count()) {
    throw Error(
        "the slab plan is of another graph: {} nodes, {} types, {} edges there, {}, {}, {} here; "
        "make it again",
        node_count(), type_count(), edge_count(), graph.node_count(), graph.type_count(),
        graph.edge_count());
  }
}

}  // namespace lacuna
