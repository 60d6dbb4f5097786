// How the lines of a panel become chunks, units and tasks (slice_plan.h has the words); internal to
// SlicePlan::make.
#pragma once

#include <cstdint>
#include <vector>

#include "lacuna/ops/graph_plan.h"
#include "lacuna/ops/slice_plan.h"

namespace lacuna {

// A slab: rows [begin, end) of x (forward) or of grad_out of a type (backward).
struct SliceSource {
  bool forward;
  uint32_t type;
  uint32_t begin, end;
  bool all_lines;  // every output row has a line here, even one that reads nothing from this slab
};

struct SlicePanel {
  std::vector<std::byte> units;
  std::vector<slice::Task> tasks;
  std::vector<uint32_t> cost;     // of each task
  std::vector<uint32_t> lines;    // [chunks, 16]
  std::vector<uint16_t> own;      // [chunks, 16]
  std::vector<uint16_t> node_at;  // [slab_rows]
  std::vector<uint16_t> place;    // [N]
  uint64_t gathers = 0, edges = 0;
};

// Which panel comes first (it must have all lines) and last (a middling one: its gathers hide the
// reads of the sums).
void order_backward_panels(const GraphPlan& graph, std::vector<SliceSource>& sources);

std::vector<SlicePanel> make_slice_panels(const GraphPlan& graph,
                                          const std::vector<SliceSource>& sources,
                                          uint32_t slab_rows, int threads);

}  // namespace lacuna
