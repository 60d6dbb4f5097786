// The steps of making a SlabPlan, and its bytes as they lie (slab_plan.h has the words); internal.
#pragma once

#include <cstdint>
#include <vector>

#include "lacuna/graph/graph_plan.h"
#include "lacuna/ops/slab/slab_plan.h"

namespace lacuna {

// ---- slab_lines.cpp: the lines of a panel, before a layout puts them into chunks
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

// ---- slab_chunks.cpp, slab_rows.cpp: one panel for each of the lists, in the layout of tensor
// cores and in that of plain additions
std::vector<SlabPanel> make_slab_chunks(const std::vector<SlabLines>& lines, uint32_t slab_rows,
                                        int threads);
std::vector<SlabPanel> make_slab_rows(const std::vector<SlabLines>& lines, uint32_t slab_rows,
                                      int threads);

// ---- slab_format.cpp: header, arrays, and the check of bytes from elsewhere
inline constexpr char kSlabPlanMagic[8] = {'L', 'A', 'C', 'S', 'L', 'I', 'C', 'E'};
inline constexpr uint64_t kSlabPlanAlignment = 64;

struct SlabPlanHeader {
  char magic[8];
  uint32_t version;
  uint32_t node_count, type_count;
  uint32_t capacity;
  uint64_t edge_count;
  uint64_t byte_count;
  char reserved[24];
  slab::Pass forward, backward;
};
static_assert(sizeof(SlabPlanHeader) % 8 == 0);

// An array of a pass: where its offset is kept, and its size in bytes by the counts of the pass.
struct SlabPlanPart {
  uint64_t* offset;
  uint64_t size;
};
std::vector<SlabPlanPart> slab_plan_parts(slab::Pass& pass, uint32_t node_count);

// The plan's size. Throws Error when the bytes are not a slab plan of this version, are cut short,
// or refer outside of themselves: a kernel trusts a plan that passed.
uint64_t check_slab_plan(std::span<const std::byte> bytes);

}  // namespace lacuna
