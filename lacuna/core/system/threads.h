// Threads for loops whose iterations do not depend on each other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "lacuna/core/system/cgroup.h"

namespace lacuna {

// How many threads this process may use: its CPU affinity and cgroup quota, or LACUNA_THREADS where
// that is set.
int available_threads();
// The smallest quota of the control groups of this process, in CPUs, such as 2.5. Nothing where no
// group has a quota.
std::optional<double> cgroup_cpus(const CgroupPlaces& places = {});

// Calls body(i) for every i in [0, count) on up to `threads` threads (0: all available), this one
// included, in no given order. Returns when all are done; the first exception thrown by a body is
// thrown here, and no new iteration starts after it. Checks the stop flag (stop.h) before every
// iteration, and throws Stopped. A call from inside a body runs on that thread alone. The threads
// are started by the first call and kept for later ones; a forked child starts its own.
void parallel_for(uint64_t count, int threads, const std::function<void(uint64_t)>& body);

}  // namespace lacuna
