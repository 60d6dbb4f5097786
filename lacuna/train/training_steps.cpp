#include "lacuna/train/training_steps.h"

#include <chrono>

#include "lacuna/core/error.h"
#include "lacuna/core/scope.h"
#include "lacuna/run/schedule.h"

namespace lacuna {

TrainingSteps::TrainingSteps(Session& session, bool may_record)
    : options_(session.config.train),
      optimiser_(*session.model, options_),
      stepper_(*session.model, optimiser_, options_, may_record),
      loader_(training_source(session), training_order(session)),
      feed_(loader_, session.labels, training_feed(session)) {
  session.model->train();
}

void TrainingSteps::run(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) run_one();
}

double TrainingSteps::time(uint64_t count) {
  using Clock = std::chrono::steady_clock;
  wait();
  const auto start = Clock::now();
  run(count);
  wait();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void TrainingSteps::run_one() {
  const uint64_t batches = loader_.order().batches();
  const uint64_t a_step = uint64_t(options_.accumulate);
  const double lr = learning_rate(options_, step_, (batches + a_step - 1) / a_step);
  for (int64_t index = 0; index < options_.accumulate; ++index) {
    const DeviceBatch* batch = feed_.next();
    if (!batch) batch = feed_.next();  // an epoch has ended
    LACUNA_ASSERT(batch);
    const bool is_last = index + 1 == options_.accumulate || feed_.state().position == batches;
    stepper_.run(*batch, step_, index, is_last, feed_.state().epoch, lr,
                 1 / double(options_.accumulate));
    if (is_last) break;
  }
  ++step_;
  if (step_ % uint64_t(options_.log_every) != 0) return;
  const Scope scope("logging");
  stepper_.first_bad_step();
  stepper_.last_loss();
  stepper_.last_norm();
}

}  // namespace lacuna
