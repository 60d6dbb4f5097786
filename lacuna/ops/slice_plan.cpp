#include "lacuna/ops/slice_plan.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/ops/slice_chunks.h"

namespace lacuna {
namespace {

using namespace slice;

constexpr char kMagic[8] = {'L', 'A', 'C', 'S', 'L', 'I', 'C', 'E'};
constexpr uint64_t kAlignment = 64;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t node_count, type_count;
  uint32_t capacity;
  uint64_t edge_count;
  uint64_t byte_count;
  char reserved[24];
  Pass forward, backward;
};
static_assert(sizeof(Header) % 8 == 0);

const Header& header(std::span<const std::byte> bytes) {
  return *reinterpret_cast<const Header*>(bytes.data());
}
uint64_t align(uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

// What stands in a pass, by its offset field, with the size in bytes.
struct Part {
  uint64_t Pass::*offset;
  uint64_t size;
};
std::array<Part, 9> parts(const Pass& pass, uint32_t node_count) {
  const uint64_t lines = (uint64_t(pass.chunk_count) + 2) * kLines;
  return {{{&Pass::units, (uint64_t(pass.unit_count) + 1) * kUnitBytes},
           {&Pass::tasks, pass.task_count * sizeof(Task)},
           {&Pass::lines, lines * sizeof(uint32_t)},
           {&Pass::own, lines * sizeof(uint16_t)},
           {&Pass::panels, pass.panel_count * sizeof(Panel)},
           {&Pass::node_at, uint64_t(pass.panel_count) * pass.slab_rows * sizeof(uint16_t)},
           {&Pass::place, uint64_t(pass.panel_count) * node_count * sizeof(uint16_t)},
           {&Pass::cost, pass.task_count * sizeof(uint32_t)},
           {&Pass::task_of, uint64_t(pass.output_types) * node_count * sizeof(uint32_t)}}};
}

// The panels of a pass, made one by one, before they are joined.
struct Draft {
  std::vector<SliceSource> sources;
  std::vector<SlicePanel> panels;
  Pass pass = {};

  void count(uint32_t output_types, uint32_t slab_rows) {
    pass.panel_count = uint32_t(panels.size());
    pass.output_types = output_types;
    pass.slab_rows = slab_rows;
    for (const SlicePanel& panel : panels) {
      pass.task_count += uint32_t(panel.tasks.size());
      pass.chunk_count += uint32_t(panel.lines.size() / kLines);
      pass.unit_count += uint32_t(panel.units.size() / kUnitBytes);
      pass.gathers += panel.gathers;
      pass.edges += panel.edges;
    }
    for (uint32_t p = 1; p + 1 < pass.panel_count; ++p) {
      if (pass.heaviest == 0 || panels[p].gathers > panels[pass.heaviest].gathers)
        pass.heaviest = p;
    }
  }

  void write(std::byte* plan, uint32_t node_count) const {
    uint32_t task = 0, chunk = 0, unit = 0;
    auto* panel_list = reinterpret_cast<Panel*>(plan + pass.panels);
    auto* tasks = reinterpret_cast<Task*>(plan + pass.tasks);
    auto* cost = reinterpret_cast<uint32_t*>(plan + pass.cost);
    auto* lines = reinterpret_cast<uint32_t*>(plan + pass.lines);
    auto* own = reinterpret_cast<uint16_t*>(plan + pass.own);
    auto* task_of = reinterpret_cast<uint32_t*>(plan + pass.task_of);
    for (size_t p = 0; p < panels.size(); ++p) {
      const SlicePanel& panel = panels[p];
      const uint32_t count = uint32_t(panel.tasks.size());
      panel_list[p] = {sources[p].type, task, task + count, 0};
      for (uint32_t k = 0; k < count; ++k) {
        tasks[task + k] = {panel.tasks[k].unit + unit, panel.tasks[k].chunk + chunk};
        cost[task + k] = panel.cost[k];
        const size_t end = k + 1 < count ? panel.tasks[k + 1].chunk * kLines : panel.lines.size();
        for (size_t i = panel.tasks[k].chunk * kLines; i < end; ++i) {
          const uint32_t line = panel.lines[i];
          if (line != kNoLine && p == pass.heaviest)
            task_of[size_t(line >> 16) * node_count + (line & 0xffff)] = task + k;
        }
      }
      std::copy(panel.lines.begin(), panel.lines.end(), lines + size_t(chunk) * kLines);
      std::copy(panel.own.begin(), panel.own.end(), own + size_t(chunk) * kLines);
      std::memcpy(plan + pass.units + uint64_t(unit) * kUnitBytes, panel.units.data(),
                  panel.units.size());
      std::memcpy(plan + pass.node_at + p * pass.slab_rows * 2, panel.node_at.data(),
                  panel.node_at.size() * 2);
      std::memcpy(plan + pass.place + p * node_count * 2, panel.place.data(),
                  panel.place.size() * 2);
      task += count;
      chunk += uint32_t(panel.lines.size() / kLines);
      unit += uint32_t(panel.units.size() / kUnitBytes);
    }
    std::fill_n(lines + size_t(chunk) * kLines, 2 * kLines, kNoLine);
    std::fill_n(own + size_t(chunk) * kLines, 2 * kLines, uint16_t(pass.slab_rows - 1));
  }
};

void check(bool good, const char* what) {
  if (!good) throw Error("the slice plan is damaged ({}); make it again", what);
}

void check_pass(const std::byte* plan, const Pass& pass, const Header& head) {
  check(pass.slab_rows % 8 == 0 && pass.slab_rows >= 16 && pass.slab_rows < 8 * kTaskEnds,
        "slab size");
  check(pass.heaviest < pass.panel_count, "the heaviest panel");
  check(pass.panel_count >= 1 && pass.output_types >= 1 &&
            pass.output_types <= std::max(head.type_count, 1u),
        "counts");
  for (const Part& part : parts(pass, head.node_count)) {
    const uint64_t start = pass.*part.offset;
    check(
        start % kAlignment == 0 && start <= head.byte_count && part.size <= head.byte_count - start,
        "an array lies outside of it");
  }
  const auto* panels = reinterpret_cast<const Panel*>(plan + pass.panels);
  uint32_t task = 0;
  for (uint32_t p = 0; p < pass.panel_count; ++p) {
    check(panels[p].task0 == task && panels[p].task1 >= task &&
              panels[p].type < std::max(head.type_count, 1u),
          "a panel");
    task = panels[p].task1;
  }
  check(task == pass.task_count, "tasks of the panels");
  const auto* tasks = reinterpret_cast<const Task*>(plan + pass.tasks);
  for (uint32_t k = 0; k < pass.task_count; ++k) {
    check(tasks[k].unit < pass.unit_count && tasks[k].chunk < pass.chunk_count, "a task");
  }
  const auto* lines = reinterpret_cast<const uint32_t*>(plan + pass.lines);
  const auto* own = reinterpret_cast<const uint16_t*>(plan + pass.own);
  for (uint64_t i = 0; i < (uint64_t(pass.chunk_count) + 2) * kLines; ++i) {
    check(lines[i] == kNoLine ||
              ((lines[i] & 0xffff) < head.node_count && lines[i] >> 16 < pass.output_types),
          "a line");
    check(own[i] < pass.slab_rows, "a line's own row");
  }
  const auto* node_at = reinterpret_cast<const uint16_t*>(plan + pass.node_at);
  for (uint64_t i = 0; i < uint64_t(pass.panel_count) * pass.slab_rows; ++i) {
    check(node_at[i] == kNoNode || node_at[i] < head.node_count, "a slab row");
  }
  const auto* place = reinterpret_cast<const uint16_t*>(plan + pass.place);
  for (uint64_t i = 0; i < uint64_t(pass.panel_count) * head.node_count; ++i) {
    check(place[i] == kNoNode || place[i] < pass.slab_rows, "a slab place");
  }
  const uint32_t groups = pass.slab_rows / 8;
  for (uint32_t u = 0; u < pass.unit_count; ++u) {
    const auto* ids =
        reinterpret_cast<const uint16_t*>(plan + pass.units + uint64_t(u) * kUnitBytes);
    for (uint32_t i = 0; i < kSlots * kSteps; ++i) {
      check((ids[i] & (kTaskEnds - 1u)) < groups, "a neighbour");
    }
  }
  const auto* task_of = reinterpret_cast<const uint32_t*>(plan + pass.task_of);
  for (uint64_t i = 0; i < uint64_t(pass.output_types) * head.node_count; ++i) {
    check(task_of[i] < std::max(pass.task_count, 1u), "a row's task");
  }
  // A kernel trusts the flags: all slots of a step agree, a task has as many chunks as lines stand
  // for it, and its last unit ends it.
  for (uint32_t k = 0; k < pass.task_count; ++k) {
    const bool last = k + 1 == pass.task_count;
    const uint32_t next = last ? pass.unit_count : tasks[k + 1].unit;
    const uint32_t next_chunk = last ? pass.chunk_count : tasks[k + 1].chunk;
    check(next > tasks[k].unit && next <= pass.unit_count, "the order of tasks");
    uint32_t chunks = 0;
    bool ended = false;
    for (uint32_t u = tasks[k].unit; u < next; ++u) {
      check(!ended, "the end of a task");
      const auto* ids =
          reinterpret_cast<const uint16_t*>(plan + pass.units + uint64_t(u) * kUnitBytes);
      for (uint32_t s = 0; s < kSteps && !ended; ++s) {
        const uint32_t flags = ids[s] & (kChunkEnds | kTaskEnds);
        for (uint32_t i = 1; i < kSlots; ++i) {
          check((ids[i * kSteps + s] & (kChunkEnds | kTaskEnds)) == flags, "the flags of a step");
        }
        chunks += (flags & kChunkEnds) != 0;
        ended = (flags & kTaskEnds) != 0;
      }
    }
    check(ended && tasks[k].chunk + chunks == next_chunk, "the end of a task");
  }
}

}  // namespace

uint32_t slice_capacity(uint64_t bytes, uint32_t node_count, uint32_t type_count) {
  // 32 bytes a row and 2 of its number, two bits a node of the graph, four bytes a type, a zero
  // group, and a few words.
  const uint64_t fixed =
      (uint64_t(node_count) + 63) / 64 * 16 + (uint64_t(type_count) + 3) / 4 * 16 + 8 * 34 + 112;
  if (bytes <= fixed) return 0;
  return uint32_t(std::min<uint64_t>((bytes - fixed) / 34 / 8 * 8, 8 * (kTaskEnds - 2u)));
}

SlicePlan SlicePlan::make(const GraphPlan& graph, const SliceGeometry& geometry, int threads) {
  const uint32_t nodes = graph.node_count(), types = graph.type_count();
  if (nodes >= kNoNode || types >= kNoNode) {
    throw Error("a slice plan holds fewer than {} nodes and types, this graph has {} and {}",
                kNoNode, nodes, types);
  }
  if (geometry.capacity < 8) {
    throw Error("a slab of {} nodes is too small, the least is 8", geometry.capacity);
  }
  const uint32_t tiles = std::max(1u, (nodes + geometry.capacity - 1) / geometry.capacity);
  const uint32_t tile = ((nodes + tiles - 1) / tiles + 7) / 8 * 8;
  const uint32_t slab_rows = std::max(tile, 8u) + kClasses;
  Draft forward, backward;
  for (uint32_t k = 0; k < tiles; ++k) {
    const uint32_t begin = std::min(nodes, k * tile), end = std::min(nodes, begin + tile);
    forward.sources.push_back({true, 0, begin, end, k == 0 || k + 1 == tiles});
    for (uint32_t t = 0; t < types; ++t) backward.sources.push_back({false, t, begin, end, false});
  }
  order_backward_panels(graph, backward.sources);
  forward.panels = make_slice_panels(graph, forward.sources, slab_rows, threads);
  backward.panels = make_slice_panels(graph, backward.sources, slab_rows, threads);

  Header head = {};
  std::memcpy(head.magic, kMagic, sizeof(kMagic));
  head.version = kVersion;
  head.node_count = nodes;
  head.type_count = types;
  head.capacity = geometry.capacity;
  head.edge_count = graph.edge_count();
  forward.count(std::max(types, 1u), slab_rows);
  backward.count(1, slab_rows);
  uint64_t size = align(sizeof(Header));
  for (Draft* draft : {&forward, &backward}) {
    for (const Part& part : parts(draft->pass, nodes)) {
      draft->pass.*part.offset = size;
      size = align(size + part.size);
    }
  }
  head.forward = forward.pass;
  head.backward = backward.pass;
  head.byte_count = size;

  std::shared_ptr<std::byte> plan(static_cast<std::byte*>(std::aligned_alloc(kAlignment, size)),
                                  std::free);
  if (!plan) throw std::bad_alloc();
  std::memset(plan.get(), 0, size);
  std::memcpy(plan.get(), &head, sizeof(head));
  forward.write(plan.get(), nodes);
  backward.write(plan.get(), nodes);
  SlicePlan made;
  made.bytes_ = {plan.get(), size};
  made.owner_ = plan;
  return made;
}

SlicePlan SlicePlan::from_bytes(std::span<const std::byte> bytes,
                                std::shared_ptr<const void> owner) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0) {
    throw Error("the slice plan is not aligned to {} bytes", kAlignment);
  }
  if (bytes.size() < sizeof(Header) ||
      std::memcmp(header(bytes).magic, kMagic, sizeof(kMagic)) != 0) {
    throw Error("these {} bytes are not a slice plan", bytes.size());
  }
  const Header& head = header(bytes);
  if (head.version != kVersion) {
    throw Error("the slice plan is of version {}, this program reads version {}; make it again",
                head.version, kVersion);
  }
  if (head.byte_count > bytes.size()) {
    throw Error("the slice plan is cut short: {} bytes of {}; make it again", bytes.size(),
                head.byte_count);
  }
  check(head.node_count < kNoNode && head.type_count < kNoNode, "counts");
  check_pass(bytes.data(), head.forward, head);
  check_pass(bytes.data(), head.backward, head);
  SlicePlan plan;
  plan.bytes_ = bytes.first(head.byte_count);
  plan.owner_ = std::move(owner);
  return plan;
}

uint32_t SlicePlan::node_count() const { return header(bytes_).node_count; }
uint32_t SlicePlan::type_count() const { return header(bytes_).type_count; }
uint64_t SlicePlan::edge_count() const { return header(bytes_).edge_count; }
uint32_t SlicePlan::capacity() const { return header(bytes_).capacity; }
const Pass& SlicePlan::forward() const { return header(bytes_).forward; }
const Pass& SlicePlan::backward() const { return header(bytes_).backward; }

void SlicePlan::check_graph(const GraphPlan& graph) const {
  if (graph.node_count() != node_count() || graph.type_count() != type_count() ||
      graph.edge_count() != edge_count()) {
    throw Error(
        "the slice plan is of another graph: {} nodes, {} types, {} edges there, {}, {}, {} here; "
        "make it again",
        node_count(), type_count(), edge_count(), graph.node_count(), graph.type_count(),
        graph.edge_count());
  }
}

}  // namespace lacuna
