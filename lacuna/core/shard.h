// A part of work that several processes share without talking to each other: shard 2/4 is the
// second of four. The parts are contiguous and nearly equal, so that laid end to end they are all.
#pragma once

#include <cstdint>
#include <string>

#include "lacuna/core/error.h"

namespace lacuna {

struct Shard {
  uint64_t index = 0, count = 1;  // index: from 0, below count

  // Of n things: this one's are number begin(n) to end(n) - 1. n * count stays below 2^64.
  uint64_t begin(uint64_t n) const { return n * index / count; }
  uint64_t end(uint64_t n) const { return n * (index + 1) / count; }
  bool has(uint64_t place, uint64_t n) const { return begin(n) <= place && place < end(n); }
  bool is_all() const { return count == 1; }
};

// "2/4", from 1/4 to 4/4. Throws UsageError for anything else.
Shard parse_shard(const std::string& text);

}  // namespace lacuna
