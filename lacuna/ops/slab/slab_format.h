// The bytes of a slice plan as they lie: header, arrays, and the check of bytes from elsewhere;
// internal to SlicePlan.
#pragma once

#include <vector>

#include "lacuna/ops/slab/slab_plan.h"

namespace lacuna {

inline constexpr char kSlicePlanMagic[8] = {'L', 'A', 'C', 'S', 'L', 'I', 'C', 'E'};
inline constexpr uint64_t kSlicePlanAlignment = 64;

struct SlicePlanHeader {
  char magic[8];
  uint32_t version;
  uint32_t node_count, type_count;
  uint32_t capacity;
  uint64_t edge_count;
  uint64_t byte_count;
  char reserved[24];
  slice::Pass forward, backward;
};
static_assert(sizeof(SlicePlanHeader) % 8 == 0);

// An array of a pass: where its offset is kept, and its size in bytes by the counts of the pass.
struct SlicePlanPart {
  uint64_t* offset;
  uint64_t size;
};
std::vector<SlicePlanPart> slice_plan_parts(slice::Pass& pass, uint32_t node_count);

// The plan's size. Throws Error when the bytes are not a slice plan of this version, are cut short,
// or refer outside of themselves: a kernel trusts a plan that passed.
uint64_t check_slice_plan(std::span<const std::byte> bytes);

}  // namespace lacuna
