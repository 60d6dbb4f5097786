// `lacuna bench ladder RECORDING`: every rung of a recording on this machine, side by side.
#pragma once

#include <string>
#include <vector>

#include "lacuna/core/system/file.h"

namespace lacuna::cli {

struct RecordingLadderArguments {
  fs::path recording, out = ".", json;
  std::vector<std::string> rungs;
  uint64_t frames = 100'000;  // of the slice
  uint64_t batch = 256, lags = 33;
  int threads = 2, rounds = 5;
  double seconds = 1;
  std::string field = "stim", counts = "robs";
  bool peers = false;
  std::string python;
};
void bench_recording_ladder(const RecordingLadderArguments& arguments);

}  // namespace lacuna::cli
