// How much memory this process uses and may use, in bytes.
#pragma once

#include <cstdint>

namespace lacuna {

uint64_t used_memory();       // resident now
uint64_t peak_memory();       // the most that was resident since the start, or the last reset
void reset_peak_memory();     // throws Error where the system does not allow it
uint64_t available_memory();  // free or to be freed on this machine, within the cgroup's limit

}  // namespace lacuna
