// What a file of predictions says of itself where it holds one shard (core/shard.h) of them. The
// first line of a .csv, and the array `shard` of an .npz:
//
//   # lacuna shard {"shard":"2/3","of":"00c0ffee00c0ffee","rows":260,"samples":780}
//
// so that whoever puts the shards together notices one that is missing, cut short or of another
// prediction. Where only the best were asked for, also "top", "lowest" and "label", its number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/shard.h"
#include "lacuna/core/system/file.h"

namespace lacuna {

struct PredictionShard {
  Shard shard;
  std::string of;        // 16 hex digits that all shards of one prediction share, and no others
  uint64_t rows = 0;     // samples in this file
  uint64_t samples = 0;  // that all shards together were asked about
  uint64_t top = 0;      // of this shard only the best were kept; 0: all
  bool lowest = false;   // with top
  uint64_t label = 0;    // with top: the place of the label that they are ranked by
};

std::string shard_note(const PredictionShard& shard);  // without a line end

// `file` is for messages. Throws Error for an empty note, that of a file without a shard, and for
// one that shard_note() does not write.
PredictionShard read_shard_note(std::string_view note, const fs::path& file);

struct ShardFile {
  fs::path path;
  PredictionShard about;
};
// In the order of the shards. Throws Error, naming the files, unless these are all shards of one
// prediction, each once.
std::vector<ShardFile> in_order(std::vector<ShardFile> files);

}  // namespace lacuna
