// The graph, laid out by the host for the GPU's slab kernels (slab_tensor_sums.cu,
// slab_row_sums.cu).
//
// A kernel keeps 32 bytes of the columns of some nodes in shared memory, the slab (16 columns of
// bf16, 8 of f32), and sums from there. A pass over the graph is a list of panels: a panel is one
// slab (the rows of one source that fit) with the sums that read it.
//   forward    sources: x alone, cut into tiles of nodes where it does not fit
//              output rows: (type, target)
//   backward   sources: grad_out of every type, each cut into tiles
//              output rows: (source node)
// A node's place in the slab is (group, class 0..7). Hubs are spread over the classes.
//
// Inside a panel a LINE is one output row; a CHUNK is 16 lines that a warp sums together, TASKS are
// runs of chunks, about equally long except for the long chunks, which come first. A pass lists its
// sums twice, in two LAYOUTS:
//
// chunks   for tensor cores. The distinct neighbours of a chunk's lines are listed; a STEP gathers
//          32 of them and adds each to the lines that have it, by a 16 x 32 matrix of bits. A
//          neighbour that several lines share is gathered once, a long row is a long chunk, and
//          rows of different length cost no padding. Slot k of a step only holds class k & 7: eight
//          slots that are read together lie in different banks of shared memory. Chunks are filled
//          so that classes are even and neighbours shared. A neighbour that a row has m times
//          stands in m slots. A unit is eight steps: 1,024 bytes.
// rows     for plain additions. A step gathers one neighbour for each of the 16 lines; the four
//          lines of a quarter read together, so their neighbours of one step differ in class & 3
//          where that can be had. A long row takes 2, 4, 8 or 16 lines of a chunk (its FOLD), which
//          are added up at the end. A unit is eight steps: 256 bytes. Each slot knows its edge, so
//          that edge values can be put in the same order.
// A chunk starts a new unit in both; the steps that fill up its last one are not taken.
//
// A plan is one run of bytes with offsets and no pointers, as a GraphPlan, and depends on nothing
// but the graph and the capacity: the same bytes on every machine and for every number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lacuna/graph/graph_plan.h"

namespace lacuna {

struct SlabGeometry {
  // Nodes a slab may hold; see slab_capacity(). Up to this many nodes a pass has one tile.
  uint32_t capacity = 0;
};
// The nodes whose slab fits into shared memory of a block, `bytes` of it, in a graph of node_count
// nodes.
uint32_t slab_capacity(uint64_t bytes, uint32_t node_count, uint32_t type_count);

// Words of the plan's bytes, as the kernel reads them.
namespace slab {

inline constexpr uint32_t kLines = 16, kSlots = 32, kClasses = 8, kSteps = 8;
inline constexpr uint32_t kUnitBytes = 1024;    // of the chunks layout
inline constexpr uint32_t kRowUnitBytes = 256;  // of the rows layout
inline constexpr uint32_t kRowUnitSlots = 128;  // kLines x kSteps
// A chunk's head: its steps, log2 of its fold, whether it is the last one of its task.
inline constexpr uint32_t kHeadSteps = 0xffffff, kHeadFoldAt = 24, kHeadLast = 0x80000000;
inline constexpr uint16_t kNoNode = 0xffff;
inline constexpr uint32_t kNoLine = 0xffffffff, kNoEdge = 0xffffffff;

struct Task {
  uint32_t unit, chunk;  // the first ones; its last ones stand before the next task's first
};

// One list of the sums of a pass. Offsets are in bytes from the start of the plan.
struct Layout {
  uint32_t task_count, chunk_count, unit_count, reserved;
  // chunks: [unit_count] of 32 slots x 8 steps of u16 groups, then 32 lanes x 16 bytes of
  // membership bits; rows: [unit_count] of 16 lines x 8 steps of u16 slab positions
  uint64_t units;
  uint64_t tasks;       // [task_count + 1] Task, panel by panel; the last one ends the others
  uint64_t heads;       // [chunk_count + 2] u32
  uint64_t lines;       // [chunk_count + 2, 16] u32: node | type << 16, or kNoLine
  uint64_t own;         // [chunk_count + 2, 16] u16: slab position of the line's own node, or the
                        // last (a zero row)
  uint64_t first_task;  // [panel_count + 1] u32: where the tasks of each panel start
  uint64_t cost;        // [task_count] u32: about how long a task takes, for sharing tasks out
  uint64_t task_of;     // [output_types, N] u32: the task of the heaviest panel that has the row's
                        // line, or 0
  uint64_t edges;    // rows alone: [unit_count, 16, 8] u32: which edge of all types a slot is, or
                     // kNoEdge
  uint64_t gathers;  // slots of all steps
};

struct Pass {
  uint32_t panel_count;
  uint32_t slab_rows;     // of every panel, a multiple of 8; the last eight are zero, one a class
  uint32_t output_types;  // T, or 1: output row = type * N + node
  uint32_t heaviest;  // the panel of most edges that is neither the first nor the last, if there is
  uint64_t panel_type;  // [panel_count] u32: whose source: of the backward pass; 0 in the forward
  uint64_t node_at;     // [panel_count, slab_rows] u16: slab position -> node, or kNoNode
  uint64_t place;       // [panel_count, N] u16: node -> slab position, or kNoNode
  uint64_t edges;
  Layout chunks, rows;
};

}  // namespace slab

class SlabPlan {
 public:
  // Of the bytes and of how they are laid out: a plan made by another version is not used.
  static constexpr uint32_t kVersion = 2;

  // Throws Error for more than 65,535 nodes or types, or a capacity below 8. threads 0: all
  // available.
  static SlabPlan make(const GraphPlan& graph, const SlabGeometry& geometry, int threads = 0);
  // Uses bytes that stay where they are (64-byte aligned, on the host); `owner` keeps them alive.
  // Throws Error when they are not a slab plan of this version, are cut short, or refer outside of
  // themselves.
  static SlabPlan from_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  std::span<const std::byte> bytes() const { return bytes_; }
  uint32_t node_count() const;
  uint32_t type_count() const;
  uint64_t edge_count() const;
  uint32_t capacity() const;
  const slab::Pass& forward() const;
  const slab::Pass& backward() const;
  template <class T>
  const T* at(uint64_t offset) const {
    return reinterpret_cast<const T*>(bytes_.data() + offset);
  }
  // Throws Error when this plan is not of that graph (by counts).
  void check_graph(const GraphPlan& graph) const;

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace lacuna
