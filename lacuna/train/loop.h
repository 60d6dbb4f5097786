// The training loop: batches of a feed, `train.accumulate` of them a step, learning rate and seeds
// by the step's number. The trainer, the benches, the profile and the MLP baseline all take their
// steps here.
#pragma once

#include <cstdint>
#include <memory>

#include "lacuna/train/step.h"

namespace lacuna {

class Loop {
 public:
  // The task outlives it, and its weights change; its config's `train` says how. feed: other
  // batches than the task's. may_record: see Stepper.
  explicit Loop(Task& task, bool may_record = true, std::unique_ptr<Feed> feed = nullptr);

  // One whole step: what is left of an epoch may be less. False where the epoch has ended: then no
  // step was taken, and the next one begins the next epoch. Where it throws Stopped the step was
  // not taken: model, optimiser and place() are those behind the last whole step, and go_to() takes
  // the feed back there.
  bool step();
  uint64_t steps() const { return steps_; }      // that were taken, those before a resume too
  uint64_t samples() const { return samples_; }  // of these steps, on all ranks, since go_to()
  double lr() const { return lr_; }              // of the last step
  const LoaderState& place() const { return place_; }  // behind the last step
  void go_to(uint64_t steps, const LoaderState& place);

  Feed& feed() { return *feed_; }
  Optimiser& optimiser() { return optimiser_; }
  Stepper& stepper() { return stepper_; }

  // ---- for measuring: steps as the trainer takes them, with its look at the loss every log_every
  // steps, one epoch after another
  void run(uint64_t steps);
  double time(uint64_t steps);  // milliseconds of all of them, the device's end awaited
  void wait() const { stepper_.first_bad_step(); }

 private:
  Task& task_;
  const TrainOptions& options_;
  Optimiser optimiser_;
  Stepper stepper_;
  std::unique_ptr<Feed> feed_;
  uint64_t steps_ = 0, samples_ = 0;
  double lr_ = 0;
  LoaderState place_;
};

// Batches of an epoch in the order that a state is of.
uint64_t batches_of_epoch(const LoaderState& state);

}  // namespace lacuna
