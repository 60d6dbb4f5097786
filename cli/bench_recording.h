// `lacuna bench ladder RECORDING`: every rung of a recording on this machine, side by side.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "lacuna/core/system/file.h"
#include "lacuna/recording/windows.h"

namespace lacuna::cli {

struct RecordingLadderArguments {
  fs::path recording, out = ".", json;
  std::vector<std::string> rungs;
  uint64_t frames = 100'000;  // of the slice
  uint64_t batch = 256;
  std::optional<uint64_t> lags;      // none: 33, or what the config says
  std::optional<std::string> field;  // none: "stim", or what the config says
  int threads = 2, rounds = 5;
  double seconds = 1;
  bool peers = false;
  std::string python;
  bool train = false;
  LadderTraining training;
};
void bench_recording_ladder(const RecordingLadderArguments& arguments);

// ---- --train, with torch: cli/torch/bench_ladder_train.cpp
struct TrainedRung {
  double step_ms = 0;
  std::optional<double> over_ready;    // of a step on a batch that is there already: 0.02 is 2%
  std::optional<double> device_bytes;  // on a GPU
  std::optional<double> difference;    // the largest between its rates and the first rung's
};
struct TrainedRecordingLadder {
  std::string words;                         // what was trained
  std::vector<std::string> names;            // in the order of the table
  std::map<std::string, TrainedRung> rungs;  // by name
};
struct RecordingLadderTraining {
  WindowSettings windows;  // of the config
  std::function<TrainedRecordingLadder(const std::vector<std::string>& rungs, Progress& progress)>
      train;
};
// On the slice. Throws Error at once for a config that is wrong.
RecordingLadderTraining recording_ladder_training(const Recording& slice,
                                                  const RecordingLadderArguments& arguments,
                                                  const fs::path& folder);

}  // namespace lacuna::cli
