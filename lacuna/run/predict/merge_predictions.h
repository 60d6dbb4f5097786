// The .csv files that the shards of one prediction wrote (core/shard.h), put together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"

namespace lacuna {

struct MergeRequest {
  std::vector<fs::path> parts;  // all shards, in any order
  fs::path out;
  uint64_t top = 0;  // only so many of the largest, as the shards were asked for; 0: all, in order
  bool lowest = false;  // the most negative instead
  std::string by = {};  // the label that they are ranked by; empty: the only one
};

// Gives the number of samples in `out`, which is what one process would have written. Without `top`
// the parts pass through in pieces. Throws Error for a shard that is missing, there twice, cut
// short or of another prediction (prediction_shard.h), for another `top` than that of the shards,
// and for files that are no such .csv.
uint64_t merge_predictions(const MergeRequest& request);

}  // namespace lacuna
