// What a SlabPlan must be made for.
#pragma once

#include <cstdint>

namespace lacuna {

// The most shared memory that a block may have on the current device, in bytes (227 KB on sm_90).
// Throws Error with CUDA's words.
uint64_t cuda_shared_memory_bytes();

}  // namespace lacuna
