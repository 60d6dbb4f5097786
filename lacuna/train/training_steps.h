// Training steps as `lacuna train` takes them (loader, feed, forward, backward, update, a look at
// the loss every log_every steps), without a run around them: for measuring.
#pragma once

#include <cstdint>

#include "lacuna/train/optimiser.h"
#include "lacuna/train/session.h"
#include "lacuna/train/step.h"
#include "lacuna/train/training_feed.h"

namespace lacuna {

class TrainingSteps {
 public:
  // The session outlives it, and its weights change. may_record: see Stepper.
  TrainingSteps(Session& session, bool may_record);

  void run(uint64_t count);
  double time(uint64_t count);  // milliseconds of `count` steps, the device's end awaited
  void wait() const { stepper_.first_bad_step(); }
  bool is_recorded() const { return stepper_.is_recorded(); }

 private:
  void run_one();

  const TrainOptions& options_;
  Optimiser optimiser_;
  Stepper stepper_;
  Loader<RungSource> loader_;
  BatchFeed feed_;
  uint64_t step_ = 0;
};

}  // namespace lacuna
