#include "lacuna/ops/slab/slab_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "lacuna/core/error.h"
#include "lacuna/ops/testing.h"

namespace lacuna {
namespace {

using namespace slab;
using namespace testing;

using Edges = std::map<std::tuple<uint32_t, uint32_t, uint32_t>,
                       int>;  // (output type, node, neighbour) -> times

// What a kernel would add where, read back from the bytes of a pass by the words of slab_plan.h.
struct Reading {
  Edges edges;
  uint64_t wrong_class = 0, lines = 0;
};
struct TaskRange {
  uint32_t begin, end;
};
TaskRange tasks_of(const SlabPlan& plan, const Layout& layout, uint32_t panel) {
  const uint32_t* first = plan.at<uint32_t>(layout.first_task) + panel;
  return {first[0], first[1]};
}

Reading read_chunks(const SlabPlan& plan, const Pass& pass, uint32_t p) {
  Reading reading;
  const Layout& layout = pass.chunks;
  const uint16_t* node_at = plan.at<uint16_t>(pass.node_at) + size_t(p) * pass.slab_rows;
  const TaskRange tasks = tasks_of(plan, layout, p);
  for (uint32_t k = tasks.begin; k < tasks.end; ++k) {
    const Task task = plan.at<Task>(layout.tasks)[k];
    const Task end = plan.at<Task>(layout.tasks)[k + 1];
    size_t first_unit = task.unit;
    for (uint32_t chunk = task.chunk; chunk < end.chunk; ++chunk) {
      const uint32_t head = plan.at<uint32_t>(layout.heads)[chunk];
      const uint32_t* lines = plan.at<uint32_t>(layout.lines) + size_t(chunk) * kLines;
      for (uint32_t n = 0; n < kLines; ++n) reading.lines += lines[n] != kNoLine;
      const uint32_t steps = head & kHeadSteps;
      for (uint32_t step = 0; step < (steps + 7) / 8 * 8; ++step) {
        const std::byte* unit =
            plan.at<std::byte>(layout.units) + (first_unit + step / kSteps) * kUnitBytes;
        const auto* ids = reinterpret_cast<const uint16_t*>(unit);
        const auto* bits = reinterpret_cast<const uint32_t*>(unit + 512);
        const uint32_t in = step % kSteps;
        for (uint32_t slot = 0; slot < kSlots; ++slot) {
          const uint16_t node = node_at[ids[slot * 8 + in] * 8 + (slot & 7)];
          for (uint32_t n = 0; n < kLines; ++n) {
            const uint32_t word =
                bits[((n & 7) * 4 + (slot & 7) / 2) * 4 + (n >> 3) + 2 * (slot >> 3 & 1)];
            if ((word >> (15 - 2 * in - (slot >> 4) + (slot & 1) * 16) & 1) == 0) continue;
            if (node == kNoNode || lines[n] == kNoLine || step >= steps) {
              ++reading.wrong_class;
            } else {
              ++reading.edges[{lines[n] >> 16, lines[n] & 0xffff, node}];
            }
          }
        }
      }
      first_unit += (steps + 7) / 8;
    }
    EXPECT_EQ(first_unit, end.unit);
  }
  return reading;
}

// wrong_class: slots that name another edge than the one they read, or read a node for no edge.
Reading read_rows(const SlabPlan& plan, const Pass& pass, uint32_t p, const RandomGraph& graph,
                  bool forward) {
  Reading reading;
  const Layout& layout = pass.rows;
  const uint16_t* node_at = plan.at<uint16_t>(pass.node_at) + size_t(p) * pass.slab_rows;
  const uint32_t panel_type = plan.at<uint32_t>(pass.panel_type)[p];
  const TaskRange tasks = tasks_of(plan, layout, p);
  for (uint32_t k = tasks.begin; k < tasks.end; ++k) {
    const Task task = plan.at<Task>(layout.tasks)[k], end = plan.at<Task>(layout.tasks)[k + 1];
    size_t unit = task.unit;
    for (uint32_t chunk = task.chunk; chunk < end.chunk; ++chunk) {
      const uint32_t head = plan.at<uint32_t>(layout.heads)[chunk];
      const uint32_t steps = head & kHeadSteps, fold = 1u << (head >> kHeadFoldAt & 7);
      const uint32_t* lines = plan.at<uint32_t>(layout.lines) + size_t(chunk) * kLines;
      for (uint32_t n = 0; n < kLines; ++n) {
        const uint32_t line = lines[n / fold * fold];
        reading.lines += lines[n] != kNoLine;
        for (uint32_t s = 0; s < (steps + 7) / 8 * 8; ++s) {
          const size_t slot = (unit + s / 8) * 128 + n * 8 + s % 8;
          const uint16_t node = node_at[plan.at<uint16_t>(layout.units)[slot]];
          const uint32_t edge = plan.at<uint32_t>(layout.edges)[slot];
          if (edge == kNoEdge && node == kNoNode) continue;
          if (edge == kNoEdge || node == kNoNode || line == kNoLine || s >= steps) {
            ++reading.wrong_class;
            continue;
          }
          const uint32_t type = forward ? line >> 16 : panel_type;
          size_t e = edge;
          for (uint32_t t = 0; t < type; ++t) e -= graph.types[t].first.size();
          const auto& [sources, targets] = graph.types[type];
          reading.wrong_class += e >= sources.size() ||
                                 (forward ? targets : sources)[e] != (line & 0xffff) ||
                                 (forward ? sources : targets)[e] != node;
          ++reading.edges[{line >> 16, line & 0xffff, node}];
        }
      }
      unit += (steps + 7) / 8;
    }
    EXPECT_EQ(unit, end.unit);
  }
  return reading;
}

void expect_whole(const RandomGraph& graph, uint32_t capacity) {
  const GraphPlan plan = graph.plan();
  const SlabPlan slabs = SlabPlan::make(plan, {capacity});
  Edges forward;
  std::vector<Edges> backward(graph.types.size());
  for (uint32_t t = 0; t < graph.types.size(); ++t) {
    const auto& [sources, targets] = graph.types[t];
    for (size_t e = 0; e < sources.size(); ++e) {
      ++forward[{t, targets[e], sources[e]}];
      ++backward[t][{0, sources[e], targets[e]}];
    }
  }
  for (const bool rows : {false, true}) {
    SCOPED_TRACE(rows ? "rows" : "chunks");
    Edges got;
    const Pass& f = slabs.forward();
    for (uint32_t p = 0; p < f.panel_count; ++p) {
      const Reading reading = rows ? read_rows(slabs, f, p, graph, true) : read_chunks(slabs, f, p);
      EXPECT_EQ(reading.wrong_class, 0u);
      if (p == 0 || p + 1 == f.panel_count) {
        EXPECT_EQ(reading.lines, uint64_t(graph.nodes) * graph.types.size());
      }
      for (const auto& [edge, times] : reading.edges) got[edge] += times;
    }
    EXPECT_EQ(got, forward);
    const Pass& b = slabs.backward();
    std::vector<Edges> got_back(graph.types.size());
    for (uint32_t p = 0; p < b.panel_count; ++p) {
      const Reading reading =
          rows ? read_rows(slabs, b, p, graph, false) : read_chunks(slabs, b, p);
      EXPECT_EQ(reading.wrong_class, 0u);
      if (p == 0 || p + 1 == b.panel_count) {
        EXPECT_EQ(reading.lines, graph.nodes);
      }
      for (const auto& [edge, times] : reading.edges) {
        got_back[slabs.at<uint32_t>(b.panel_type)[p]][edge] += times;
      }
    }
    EXPECT_EQ(got_back, backward);
  }
}

// Lines that read together read different banks: a quarter's four neighbours of a step differ in
// class, but for a few.
TEST(SlabPlan, RowsMeetFewBankConflicts) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto graph = random_graph(seed, {.nodes = 2000, .edges = {60000, 3000}, .hub = 1500});
  const SlabPlan plan = SlabPlan::make(graph.plan(), {4000});
  const Layout& rows = plan.forward().rows;
  const auto* ids = plan.at<uint16_t>(rows.units);
  uint64_t conflicts = 0, reads = 0;
  for (uint32_t u = 0; u < rows.unit_count; ++u) {
    for (uint32_t q = 0; q < 4; ++q) {
      for (uint32_t s = 0; s < 8; ++s) {
        uint32_t times[4] = {};
        for (uint32_t n = 0; n < 4; ++n) {
          conflicts += times[ids[u * 128 + (4 * q + n) * 8 + s] % 4]++ > 0;
        }
        ++reads;
      }
    }
  }
  EXPECT_LT(double(conflicts), 0.05 * double(reads));
  EXPECT_LT(double(rows.gathers), 1.25 * double(plan.forward().edges));
}

TEST(SlabPlan, HoldsEveryEdgeAsOftenAsTheGraphDoes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto graph = random_graph(seed, {.nodes = 300, .edges = {5000, 0, 700}, .hub = 250});
  for (const uint32_t capacity : {4000u, 160u, 64u, 8u}) expect_whole(graph, capacity);
  expect_whole(random_graph(seed, {.nodes = 1, .edges = {5}}), 8);
  expect_whole(random_graph(seed, {.nodes = 20, .edges = {4000}}), 8);  // many repeats
}

TEST(SlabPlan, IsTheSameForEveryNumberOfThreads) {
  const auto graph = random_graph(test_seed(), {.nodes = 500, .edges = {9000, 2000}, .hub = 300});
  const GraphPlan plan = graph.plan();
  const SlabPlan one = SlabPlan::make(plan, {200}, 1), four = SlabPlan::make(plan, {200}, 4);
  ASSERT_EQ(one.bytes().size(), four.bytes().size());
  EXPECT_EQ(std::memcmp(one.bytes().data(), four.bytes().data(), one.bytes().size()), 0);
}

// Bytes in which a word was changed are refused, or describe something that stays inside itself;
// nothing crashes.
TEST(SlabPlan, DamagedBytesAreRefused) {
  const auto graph = random_graph(test_seed(), {.nodes = 100, .edges = {900, 200}});
  const SlabPlan plan = SlabPlan::make(graph.plan(), {64});
  struct alignas(64) Block {
    std::byte bytes[64];
  };
  std::vector<Block> copy((plan.bytes().size() + 63) / 64);
  std::memcpy(copy.data(), plan.bytes().data(), plan.bytes().size());
  const std::span<std::byte> bytes(copy[0].bytes, plan.bytes().size());
  EXPECT_NO_THROW(SlabPlan::from_bytes(bytes, nullptr));
  EXPECT_THROW(SlabPlan::from_bytes(bytes.first(bytes.size() - 1), nullptr), Error);
  EXPECT_THROW(SlabPlan::from_bytes(bytes.first(20), nullptr), Error);
  const Pass pass = plan.forward();
  const auto damaged = [&](uint64_t offset, uint32_t value) {
    uint32_t before;
    std::memcpy(&before, &bytes[offset], 4);
    std::memcpy(&bytes[offset], &value, 4);
    EXPECT_THROW(SlabPlan::from_bytes(bytes, nullptr), Error) << "offset " << offset;
    std::memcpy(&bytes[offset], &before, 4);
  };
  damaged(0, 1);                           // magic
  damaged(8, 77);                          // version
  damaged(pass.node_at, 0x00640064);       // node 100 of 100
  damaged(pass.chunks.tasks, 0xffffff);    // a task's unit
  damaged(pass.chunks.lines, 0xfffe);      // a node that is not there
  damaged(pass.chunks.units, 0x3fff3fff);  // a group that is not there
  damaged(pass.chunks.heads, 0x01000001);  // a folded chunk
  damaged(pass.chunks.first_task, 3);      // a panel's first task
  damaged(pass.rows.tasks + 8, 1);         // a task of too few units
  damaged(pass.rows.units, 0x3fff3fff);    // a position that is not there
  damaged(pass.rows.edges, 1100);          // an edge that is not there
  damaged(pass.rows.heads, 0);             // a chunk without steps
}

TEST(SlabPlan, RefusesWhatItCannotHold) {
  const auto small = random_graph(1, {.nodes = 10, .edges = {20}});
  EXPECT_THROW(SlabPlan::make(small.plan(), {4}), Error);
  const auto large = random_graph(1, {.nodes = 65535, .edges = {20}});
  EXPECT_THROW(SlabPlan::make(large.plan(), {4000}), Error);
  const SlabPlan plan = SlabPlan::make(small.plan(), {16});
  EXPECT_NO_THROW(plan.check_graph(small.plan()));
  EXPECT_THROW(plan.check_graph(large.plan()), Error);
}

TEST(SlabPlan, CapacityOfKnownDevices) {
  EXPECT_GE(slab_capacity(227 * 1024, 6607, 9), 6608u);  // one tile at yeast size
  EXPECT_GE(slab_capacity(227 * 1024, 20000, 9) * 3, 20000u);
  EXPECT_GE(slab_capacity(163 * 1024, 6607, 9) * 2, 6608u);
  EXPECT_GE(slab_capacity(99 * 1024, 6607, 9) * 3, 6608u);
  EXPECT_EQ(slab_capacity(100, 6607, 9), 0u);
}

}  // namespace
}  // namespace lacuna
