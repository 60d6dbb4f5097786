// How the lines of a panel become chunks for tensor cores (slab_plan.h has the words); internal to
// SlabPlan::make.
#pragma once

#include "lacuna/ops/slab/slab_lines.h"

namespace lacuna {

// One panel for each of the lists.
std::vector<SlabPanel> make_slab_chunks(const std::vector<SlabLines>& lines, uint32_t slab_rows,
                                        int threads);

}  // namespace lacuna
