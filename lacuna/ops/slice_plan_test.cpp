#include "lacuna/ops/slice_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "lacuna/core/error.h"
#include "lacuna/ops/random_graph.h"

namespace lacuna {
namespace {

using namespace slice;
using namespace testing;

using Edges = std::map<std::tuple<uint32_t, uint32_t, uint32_t>,
                       int>;  // (output type, node, neighbour) -> times

// What a kernel would add where, read back from the bytes of a pass by the words of slice_plan.h.
struct Reading {
  Edges edges;
  uint64_t wrong_class = 0, lines = 0;
};

Reading read_panel(const SlicePlan& plan, const Pass& pass, uint32_t p) {
  Reading reading;
  const Panel panel = plan.at<Panel>(pass.panels)[p];
  const uint16_t* node_at = plan.at<uint16_t>(pass.node_at) + size_t(p) * pass.slab_rows;
  for (uint32_t k = panel.task0; k < panel.task1; ++k) {
    const Task task = plan.at<Task>(pass.tasks)[k];
    uint32_t chunk = task.chunk;
    bool open = true;
    for (uint32_t step = 0; open; ++step) {
      const std::byte* unit =
          plan.at<std::byte>(pass.units) + size_t(task.unit + step / kSteps) * kUnitBytes;
      const auto* ids = reinterpret_cast<const uint16_t*>(unit);
      const auto* bits = reinterpret_cast<const uint32_t*>(unit + 512);
      const uint32_t in = step % kSteps;
      const uint32_t* lines = plan.at<uint32_t>(pass.lines) + size_t(chunk) * kLines;
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        const uint32_t position = (ids[slot * 8 + in] & 0x3fffu) * 8 + (slot & 7);
        const uint16_t node = node_at[position];
        for (uint32_t n = 0; n < kLines; ++n) {
          const uint32_t word =
              bits[((n & 7) * 4 + (slot & 7) / 2) * 4 + (n >> 3) + 2 * (slot >> 3 & 1)];
          if ((word >> (15 - 2 * in - (slot >> 4) + (slot & 1) * 16) & 1) == 0) continue;
          if (node == kNoNode || lines[n] == kNoLine) {
            ++reading.wrong_class;
          } else {
            ++reading.edges[{lines[n] >> 16, lines[n] & 0xffff, node}];
          }
        }
      }
      const uint16_t flags = ids[in];
      if (flags & kChunkEnds) {
        for (uint32_t n = 0; n < kLines; ++n) reading.lines += lines[n] != kNoLine;
        ++chunk;
      }
      open = (flags & kTaskEnds) == 0;
    }
  }
  return reading;
}

void expect_whole(const RandomGraph& graph, uint32_t capacity) {
  const GraphPlan plan = graph.plan();
  const SlicePlan slices = SlicePlan::make(plan, {capacity});
  Edges forward;
  std::vector<Edges> backward(graph.types.size());
  for (uint32_t t = 0; t < graph.types.size(); ++t) {
    const auto& [sources, targets] = graph.types[t];
    for (size_t e = 0; e < sources.size(); ++e) {
      ++forward[{t, targets[e], sources[e]}];
      ++backward[t][{0, sources[e], targets[e]}];
    }
  }
  Edges got;
  const Pass& f = slices.forward();
  for (uint32_t p = 0; p < f.panel_count; ++p) {
    const Reading reading = read_panel(slices, f, p);
    EXPECT_EQ(reading.wrong_class, 0u);
    if (p == 0 || p + 1 == f.panel_count) {
      EXPECT_EQ(reading.lines, uint64_t(graph.nodes) * graph.types.size());
    }
    for (const auto& [edge, times] : reading.edges) got[edge] += times;
  }
  EXPECT_EQ(got, forward);
  const Pass& b = slices.backward();
  std::vector<Edges> got_back(graph.types.size());
  for (uint32_t p = 0; p < b.panel_count; ++p) {
    const Reading reading = read_panel(slices, b, p);
    EXPECT_EQ(reading.wrong_class, 0u);
    if (p == 0 || p + 1 == b.panel_count) {
      EXPECT_EQ(reading.lines, graph.nodes);
    }
    for (const auto& [edge, times] : reading.edges) {
      got_back[slices.at<Panel>(b.panels)[p].type][edge] += times;
    }
  }
  EXPECT_EQ(got_back, backward);
}

TEST(SlicePlan, HoldsEveryEdgeAsOftenAsTheGraphDoes) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto graph = random_graph(seed, {.nodes = 300, .edges = {5000, 0, 700}, .hub = 250});
  for (const uint32_t capacity : {4000u, 160u, 64u, 8u}) expect_whole(graph, capacity);
  expect_whole(random_graph(seed, {.nodes = 1, .edges = {5}}), 8);
  expect_whole(random_graph(seed, {.nodes = 20, .edges = {4000}}), 8);  // many repeats
}

TEST(SlicePlan, IsTheSameForEveryNumberOfThreads) {
  const auto graph = random_graph(fresh_seed(), {.nodes = 500, .edges = {9000, 2000}, .hub = 300});
  const GraphPlan plan = graph.plan();
  const SlicePlan one = SlicePlan::make(plan, {200}, 1), four = SlicePlan::make(plan, {200}, 4);
  ASSERT_EQ(one.bytes().size(), four.bytes().size());
  EXPECT_EQ(std::memcmp(one.bytes().data(), four.bytes().data(), one.bytes().size()), 0);
}

// Bytes in which a word was changed are refused, or describe something that stays inside itself;
// nothing crashes.
TEST(SlicePlan, DamagedBytesAreRefused) {
  const auto graph = random_graph(fresh_seed(), {.nodes = 100, .edges = {900, 200}});
  const SlicePlan plan = SlicePlan::make(graph.plan(), {64});
  struct alignas(64) Block {
    std::byte bytes[64];
  };
  std::vector<Block> copy((plan.bytes().size() + 63) / 64);
  std::memcpy(copy.data(), plan.bytes().data(), plan.bytes().size());
  const std::span<std::byte> bytes(copy[0].bytes, plan.bytes().size());
  EXPECT_NO_THROW(SlicePlan::from_bytes(bytes, nullptr));
  EXPECT_THROW(SlicePlan::from_bytes(bytes.first(bytes.size() - 1), nullptr), Error);
  EXPECT_THROW(SlicePlan::from_bytes(bytes.first(20), nullptr), Error);
  const Pass pass = plan.forward();
  const auto damaged = [&](uint64_t offset, uint32_t value) {
    uint32_t before;
    std::memcpy(&before, &bytes[offset], 4);
    std::memcpy(&bytes[offset], &value, 4);
    EXPECT_THROW(SlicePlan::from_bytes(bytes, nullptr), Error) << "offset " << offset;
    std::memcpy(&bytes[offset], &before, 4);
  };
  damaged(0, 1);                      // magic
  damaged(8, 77);                     // version
  damaged(pass.tasks, 0xffffff);      // a task's unit
  damaged(pass.lines, 0x0000fffe);    // a node that is not there
  damaged(pass.node_at, 0x00640064);  // node 100 of 100
  damaged(pass.units, 0x3fff3fff);    // a group that is not there
  damaged(pass.units, 0x80008000);    // a chunk's end in one slot only
  damaged(pass.panels + 4, 3);        // a panel's first task
}

TEST(SlicePlan, RefusesWhatItCannotHold) {
  const auto small = random_graph(1, {.nodes = 10, .edges = {20}});
  EXPECT_THROW(SlicePlan::make(small.plan(), {4}), Error);
  const auto large = random_graph(1, {.nodes = 65535, .edges = {20}});
  EXPECT_THROW(SlicePlan::make(large.plan(), {4000}), Error);
  const SlicePlan plan = SlicePlan::make(small.plan(), {16});
  EXPECT_NO_THROW(plan.check_graph(small.plan()));
  EXPECT_THROW(plan.check_graph(large.plan()), Error);
}

TEST(SlicePlan, CapacityOfKnownDevices) {
  EXPECT_GE(slice_capacity(227 * 1024, 6607, 9), 6608u);  // one tile at yeast size
  EXPECT_GE(slice_capacity(227 * 1024, 20000, 9) * 3, 20000u);
  EXPECT_GE(slice_capacity(163 * 1024, 6607, 9) * 2, 6608u);
  EXPECT_GE(slice_capacity(99 * 1024, 6607, 9) * 3, 6608u);
  EXPECT_EQ(slice_capacity(100, 6607, 9), 0u);
}

}  // namespace
}  // namespace lacuna
