// How much memory this process uses and may use, in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lacuna/core/system/cgroup.h"

namespace lacuna {

uint64_t used_memory();  // resident now
uint64_t own_memory();   // the same without pages mapped from files
uint64_t peak_memory();  // the most that was resident since the start, or the last reset
// Returns to the system what this process has freed and malloc has kept.
void give_back_freed_memory();
// The same, and starts peak_memory() anew; throws Error where the system does not allow it.
void reset_peak_memory();
uint64_t available_memory();  // free or reclaimable on this machine, within the cgroups' limits

// The control group of this process that leaves it the least memory.
struct CgroupMemory {
  uint64_t limit = 0;
  uint64_t used = 0;  // without file cache that the system can take back
  std::string file;   // where the limit is written
  uint64_t left() const { return limit > used ? limit - used : 0; }
};
// Nothing where no group has a limit.
std::optional<CgroupMemory> cgroup_memory(const CgroupPlaces& places = {});

}  // namespace lacuna
