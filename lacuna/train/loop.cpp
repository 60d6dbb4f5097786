#include "lacuna/train/loop.h"

#include <algorithm>
#include <chrono>

#include "lacuna/core/scope.h"
#include "lacuna/core/system/clock.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/run/schedule.h"

namespace lacuna {
namespace {

uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Of `batches` global batches from `first` on: the last one of an epoch may have fewer samples.
uint64_t count_samples(const LoaderState& state, uint64_t first, uint64_t batches) {
  return std::min(batches * state.global_batch, state.samples - first * state.global_batch);
}

}  // namespace

uint64_t batches_of_epoch(const LoaderState& state) {
  return divide_up(state.samples, state.global_batch);
}

Loop::Loop(Task& task, bool may_record, std::unique_ptr<Feed> feed)
    : task_(task),
      options_(task.config().train),
      optimiser_(task.model(), options_),
      stepper_(task, optimiser_, may_record),
      feed_(feed ? std::move(feed) : task.training()),
      place_(feed_->state()) {}

void Loop::go_to(uint64_t steps, const LoaderState& place) {
  feed_->seek(place);
  place_ = place;
  steps_ = steps;
  samples_ = 0;
}

bool Loop::step() try {
  if (!task_.model().is_training()) task_.model().train();
  const uint64_t batches = batches_of_epoch(place_), a_step = uint64_t(options_.accumulate);
  StepPart part;
  part.step = steps_;
  part.lr = learning_rate(options_, steps_, divide_up(batches, a_step));
  uint64_t samples = 0;  // of the step
  for (part.is_last = false; !part.is_last; ++part.index) {
    const Batch* batch = feed_->next();
    const LoaderState& now = feed_->state();
    if (!batch) {
      place_ = now;
      return false;
    }
    const uint64_t position = now.position - 1;  // of the batch
    if (part.index == 0) samples = count_samples(now, position, a_step);
    part.is_last = part.index + 1 == options_.accumulate || now.position == batches;
    part.epoch = now.epoch;
    part.samples = count_samples(now, position, 1);
    part.share = double(part.samples) / double(samples);
    stepper_.run(*batch, part);
  }
  lr_ = part.lr;
  ++steps_;
  samples_ += samples;
  place_ = feed_->state();
  return true;
} catch (const Stopped&) {
  const Unstoppable whole;
  stepper_.abandon_step();
  throw;
}

void Loop::run(uint64_t steps) {
  for (uint64_t i = 0; i < steps; ++i) {
    if (!step()) step();  // an epoch has ended
    if (steps_ % uint64_t(options_.log_every) != 0) continue;
    const Scope scope("logging");
    stepper_.first_bad_step();
    stepper_.last_loss();
    stepper_.last_norm();
  }
}

double Loop::time(uint64_t steps) {
  wait();
  const auto start = std::chrono::steady_clock::now();
  run(steps);
  wait();
  return seconds_since(start) * 1e3;
}

}  // namespace lacuna
