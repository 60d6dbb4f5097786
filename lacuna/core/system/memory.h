// How much memory this process uses and may use, in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lacuna/core/system/cgroup.h"

namespace lacuna {

uint64_t used_memory();  // resident now
uint64_t own_memory();   // of that what is not mapped from a file
uint64_t peak_memory();  // the most that was resident since the start, or the last reset
// To the system, what this process has freed and kept.
void give_back_freed_memory();
// The same, and starts anew; throws Error where the system does not allow it.
void reset_peak_memory();
uint64_t available_memory();  // free or to be freed on this machine, within the cgroups' limits

// What the control groups of this process still allow: of all of them the one that leaves the least
// matters.
struct CgroupMemory {
  uint64_t limit = 0;
  uint64_t used = 0;  // without file cache that the system can take back
  std::string file;   // that holds the limit
  uint64_t left() const { return limit > used ? limit - used : 0; }
};
// Nothing where no group has a limit. Version 2 and, where only that is there, version 1.
std::optional<CgroupMemory> cgroup_memory(const CgroupPlaces& places = {});

}  // namespace lacuna
