#include "lacuna/ops/slab/slab_making.h"

#include <algorithm>
#include <cstring>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

using namespace slab;

void check(bool good, const char* what) {
  if (!good) throw Error("the slab plan is damaged ({}); make it again", what);
}

void add_parts(Layout& layout, const Pass& pass, uint32_t node_count, bool rows,
               std::vector<SlabPlanPart>& parts) {
  const uint64_t chunks = uint64_t(layout.chunk_count) + 2;
  const uint64_t unit_bytes = rows ? kRowUnitBytes : kUnitBytes;
  const auto add = [&](uint64_t& offset, uint64_t size) { parts.push_back({&offset, size}); };
  add(layout.units, uint64_t(layout.unit_count) * unit_bytes);
  add(layout.tasks, (uint64_t(layout.task_count) + 1) * sizeof(Task));
  add(layout.lines, chunks * kLines * 4);
  add(layout.own, chunks * kLines * 2);
  add(layout.first_task, (uint64_t(pass.panel_count) + 1) * 4);
  add(layout.cost, uint64_t(layout.task_count) * 4);
  add(layout.task_of, uint64_t(pass.output_types) * node_count * 4);
  add(layout.heads, chunks * 4);
  add(layout.edges, rows ? uint64_t(layout.unit_count) * kRowUnitSlots * 4 : 0);
}

// What both layouts have: tasks, lines, own rows.
void check_lists(const std::byte* plan, const Pass& pass, const Layout& layout,
                 uint32_t node_count) {
  const auto* first = reinterpret_cast<const uint32_t*>(plan + layout.first_task);
  check(first[0] == 0 && first[pass.panel_count] == layout.task_count, "tasks of the panels");
  for (uint32_t p = 0; p < pass.panel_count; ++p) check(first[p] <= first[p + 1], "a panel");
  const auto* tasks = reinterpret_cast<const Task*>(plan + layout.tasks);
  const Task end = tasks[layout.task_count];
  check(end.unit == layout.unit_count && end.chunk == layout.chunk_count, "the end of the tasks");
  for (uint32_t k = 0; k < layout.task_count; ++k) {
    check(tasks[k].unit < tasks[k + 1].unit && tasks[k].chunk < tasks[k + 1].chunk &&
              tasks[k + 1].unit <= layout.unit_count && tasks[k + 1].chunk <= layout.chunk_count,
          "a task");
  }
  const auto* lines = reinterpret_cast<const uint32_t*>(plan + layout.lines);
  const auto* own = reinterpret_cast<const uint16_t*>(plan + layout.own);
  for (uint64_t i = 0; i < (uint64_t(layout.chunk_count) + 2) * kLines; ++i) {
    check(lines[i] == kNoLine ||
              ((lines[i] & 0xffff) < node_count && lines[i] >> 16 < pass.output_types),
          "a line");
    check(own[i] < pass.slab_rows, "a line's own row");
  }
  const auto* task_of = reinterpret_cast<const uint32_t*>(plan + layout.task_of);
  for (uint64_t i = 0; i < uint64_t(pass.output_types) * node_count; ++i) {
    check(task_of[i] < std::max(layout.task_count, 1u), "a row's task");
  }
}

// A task has as many units as its chunks' steps ask for, and its last chunk says so.
void check_heads(const std::byte* plan, const Layout& layout, uint32_t most_fold) {
  const auto* tasks = reinterpret_cast<const Task*>(plan + layout.tasks);
  const auto* heads = reinterpret_cast<const uint32_t*>(plan + layout.heads);
  for (uint32_t k = 0; k < layout.task_count; ++k) {
    uint64_t units = 0;
    for (uint32_t c = tasks[k].chunk; c < tasks[k + 1].chunk; ++c) {
      const uint32_t steps = heads[c] & kHeadSteps;
      const bool last = (heads[c] & kHeadLast) != 0;
      check(steps > 0 && (heads[c] & ~kHeadLast) >> kHeadFoldAt <= most_fold &&
                last == (c + 1 == tasks[k + 1].chunk),
            "a chunk");
      units += (steps + kSteps - 1) / kSteps;
    }
    check(tasks[k].unit + units == tasks[k + 1].unit, "the units of a task");
  }
}

void check_chunks(const std::byte* plan, const Pass& pass) {
  const Layout& layout = pass.chunks;
  for (uint32_t u = 0; u < layout.unit_count; ++u) {
    const auto* groups =
        reinterpret_cast<const uint16_t*>(plan + layout.units + uint64_t(u) * kUnitBytes);
    for (uint32_t i = 0; i < kSlots * kSteps; ++i) {
      check(groups[i] < pass.slab_rows / kClasses, "a neighbour");
    }
  }
  check_heads(plan, layout, 0);
}

void check_rows(const std::byte* plan, const Pass& pass, uint64_t edge_count) {
  const Layout& layout = pass.rows;
  const auto* positions = reinterpret_cast<const uint16_t*>(plan + layout.units);
  const auto* edges = reinterpret_cast<const uint32_t*>(plan + layout.edges);
  for (uint64_t i = 0; i < uint64_t(layout.unit_count) * kRowUnitSlots; ++i) {
    check(positions[i] < pass.slab_rows, "a neighbour");
    check(edges[i] == kNoEdge || edges[i] < edge_count, "an edge");
  }
  check_heads(plan, layout, 4);
}

void check_pass(const std::byte* plan, Pass pass, const SlabPlanHeader& head) {
  check(pass.slab_rows % 8 == 0 && pass.slab_rows >= 16 && pass.slab_rows <= 0xffff, "slab size");
  check(pass.heaviest < pass.panel_count, "the heaviest panel");
  check(pass.panel_count >= 1 && pass.output_types >= 1 &&
            pass.output_types <= std::max(head.type_count, 1u),
        "counts");
  for (const SlabPlanPart& part : slab_plan_parts(pass, head.node_count)) {
    const uint64_t start = *part.offset;
    check(start % kSlabPlanAlignment == 0 && start <= head.byte_count &&
              part.size <= head.byte_count - start,
          "an array lies outside of it");
  }
  const auto* type = reinterpret_cast<const uint32_t*>(plan + pass.panel_type);
  for (uint32_t p = 0; p < pass.panel_count; ++p) {
    check(type[p] < std::max(head.type_count, 1u), "a panel's type");
  }
  const auto* node_at = reinterpret_cast<const uint16_t*>(plan + pass.node_at);
  for (uint64_t i = 0; i < uint64_t(pass.panel_count) * pass.slab_rows; ++i) {
    check(node_at[i] == kNoNode || node_at[i] < head.node_count, "a slab row");
  }
  const auto* place = reinterpret_cast<const uint16_t*>(plan + pass.place);
  for (uint64_t i = 0; i < uint64_t(pass.panel_count) * head.node_count; ++i) {
    check(place[i] == kNoNode || place[i] < pass.slab_rows, "a slab place");
  }
  check_lists(plan, pass, pass.chunks, head.node_count);
  check_lists(plan, pass, pass.rows, head.node_count);
  check_chunks(plan, pass);
  check_rows(plan, pass, head.edge_count);
}

}  // namespace

std::vector<SlabPlanPart> slab_plan_parts(Pass& pass, uint32_t node_count) {
  std::vector<SlabPlanPart> parts = {
      {&pass.panel_type, uint64_t(pass.panel_count) * 4},
      {&pass.node_at, uint64_t(pass.panel_count) * pass.slab_rows * 2},
      {&pass.place, uint64_t(pass.panel_count) * node_count * 2}};
  add_parts(pass.chunks, pass, node_count, false, parts);
  add_parts(pass.rows, pass, node_count, true, parts);
  return parts;
}

uint64_t check_slab_plan(std::span<const std::byte> bytes) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kSlabPlanAlignment != 0) {
    throw Error("the slab plan is not aligned to {} bytes", kSlabPlanAlignment);
  }
  const auto& head = *reinterpret_cast<const SlabPlanHeader*>(bytes.data());
  if (bytes.size() < sizeof(SlabPlanHeader) ||
      std::memcmp(head.magic, kSlabPlanMagic, sizeof(kSlabPlanMagic)) != 0) {
    throw Error("these {} bytes are not a slab plan", bytes.size());
  }
  if (head.version != SlabPlan::kVersion) {
    throw Error("the slab plan is of version {}, this program reads version {}; make it again",
                head.version, SlabPlan::kVersion);
  }
  if (head.byte_count > bytes.size()) {
    throw Error("the slab plan is cut short: {} bytes of {}; make it again", bytes.size(),
                head.byte_count);
  }
  check(head.node_count < kNoNode && head.type_count < kNoNode, "counts");
  check_pass(bytes.data(), head.forward, head);
  check_pass(bytes.data(), head.backward, head);
  return head.byte_count;
}

}  // namespace lacuna
