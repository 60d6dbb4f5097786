// The bytes of a slab plan as they lie: header, arrays, and the check of bytes from elsewhere;
// internal to SlabPlan.
#pragma once

#include <vector>

#include "lacuna/ops/slab/slab_plan.h"

namespace lacuna {

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
