// Stretches of a segment that lie within one trial and have no gap: where a window may lie.
#pragma once

#include <cstdint>
#include <vector>

#include "lacuna/recording/recording.h"

namespace lacuna {

struct Stretch {
  uint64_t begin = 0, end = 0;  // rows
  int64_t trial = -1;           // where trials are known
};

// In order of time. A row ends the stretch before it where the number of the trial changes (in any
// field of role trial), or where `time` (the first field of that role) steps by more than most_gap
// bins, back, or not at all. Rows outside any trial (number below 0 or NaN), and rows without a
// time, are in none.
std::vector<Stretch> find_stretches(const Session& session, const Segment& segment,
                                    double most_gap);

}  // namespace lacuna
