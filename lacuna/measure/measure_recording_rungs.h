// Training on the rungs of a recording, measured: the same steps from the same weights over the
// same windows, loading included, beside steps on a batch that lies ready where the model computes.
//
//   const Recording slice = with_ladder_split(write_recording_slice(..));
//   const RecordingRungTrainer trainer(config, {.folder = folder, .steps = 3});
//   const auto trained = trainer.train({"disk:u8@device", "ram:f32"});
//   trained.at("disk:u8@device").median_ms() / trained.at(kReadyBatch).median_ms();
//
// Rounds go up the ladder and down again, as in measure_rungs.h.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lacuna/measure/measure_rungs.h"
#include "lacuna/recording/recording.h"

namespace lacuna {

inline const std::string kReadyBatch = "ready batch";

struct RecordingRungSettings {
  fs::path folder;  // for the stores, one at a time
  uint64_t rounds = 1;
  uint64_t steps = 3;     // measured on a rung in a round, at least 1
  uint64_t predict = 64;  // windows whose rates are compared
};

// Adds a split to a slice, "ladder", whose rows are all for training, and opens it again.
Recording with_ladder_split(const Recording& slice);

class RecordingRungTrainer {
 public:
  // config: of a slice, since stores are made of all of it. Throws Error as train() does.
  RecordingRungTrainer(const Config& config, RecordingRungSettings settings, const Note& note);
  ~RecordingRungTrainer();

  at::Device device() const;
  uint64_t parameters() const;
  // By rung, and of kReadyBatch.
  std::map<std::string, RungTraining> train(const std::vector<std::string>& rungs,
                                            Progress& progress = Progress::none()) const;

 private:
  struct Start;  // what every visit starts from
  std::shared_ptr<const Start> start_;
  RecordingRungSettings settings_;
};

}  // namespace lacuna
