// `lacuna plan RECORDING`.
#pragma once

#include <string>
#include <vector>

#include "cli/plan_ranks.h"
#include "lacuna/core/system/file.h"

namespace lacuna::cli {

inline constexpr uint64_t kRecordingBatch = 256;  // windows, unless given

struct RecordingPlanArguments {
  fs::path recording;
  std::string memory;              // "504GB"; empty: as probed
  std::vector<std::string> disks;  // "FOLDER=SIZE", "FOLDER" or "SIZE"
  std::vector<std::string> transforms;
  uint64_t epochs = 10, lags = 33;
  RankPlanArguments ranks;  // and the batch of all of them
  int threads = 2;
  double demand = 20'000;
  std::string field = "stim", cast = "f32", mix = "proportional";
  std::vector<std::string> weights;  // "NAME=SHARE" of sessions or subjects
  bool is_weighed = false;           // by a column
  bool json = false;
};
void plan_recording_command(const RecordingPlanArguments& arguments);

}  // namespace lacuna::cli
