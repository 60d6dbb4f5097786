// The lines of a panel (slab_plan.h has the words), before a layout puts them into chunks, and
// what both layouts do with their chunks; internal to SlabPlan::make.
#pragma once

#include <cstdint>
#include <vector>

#include "lacuna/graph/graph_plan.h"
#include "lacuna/ops/slab/slab_plan.h"

namespace lacuna {

// A slab: rows [begin, end) of x (forward) or of grad_out of a type (backward).
struct SlabSource {
  bool forward;
  uint32_t type;
  uint32_t begin, end;
  bool all_lines;  // every output row has a line here, even one that reads nothing from this slab
};

// Which panel comes first (it must have all lines) and last (a middling one: its gathers hide the
// reads of the sums).
void order_backward_panels(const GraphPlan& graph, std::vector<SlabSource>& sources);

// A neighbour of a line: its slab position, which of its repeats in the line it is (from 0), and
// its edge among those of all types.
struct SlabNeighbour {
  uint16_t position, repeat;
  uint32_t edge;
};
struct SlabLine {
  uint32_t name;  // node | type << 16
  uint16_t own;
  uint32_t first, count;  // in SlabLines::neighbours
};
struct SlabLines {
  std::vector<SlabLine> lines;            // longest first
  std::vector<SlabNeighbour> neighbours;  // of a line by position
  std::vector<uint16_t> node_at;          // [slab_rows]
  std::vector<uint16_t> place;            // [N]
};
SlabLines list_slab_lines(const GraphPlan& graph, const SlabSource& source, uint32_t slab_rows);

// A panel in one layout.
struct SlabPanel {
  std::vector<std::byte> units;
  std::vector<slab::Task> tasks;
  std::vector<uint32_t> cost;   // of each task
  std::vector<uint32_t> lines;  // [chunks, 16]
  std::vector<uint16_t> own;    // [chunks, 16]
  std::vector<uint32_t> heads;  // [chunks]
  std::vector<uint32_t> edges;  // [units, 16, 8]; rows alone
  uint64_t gathers = 0;
};

// Chunks [begin, end) make a task.
struct SlabRun {
  size_t begin, end;
};
// Cuts chunks, which are sorted by falling length, into tasks of about `length` (or one chunk) and
// at most `most` chunks. Single chunks come first, the others are shuffled, so that short chunks
// spread over time.
std::vector<SlabRun> cut_into_tasks(const std::vector<uint32_t>& lengths, uint32_t length,
                                    uint32_t most);

}  // namespace lacuna
