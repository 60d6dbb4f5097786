#include "lacuna/run/schedule.h"

#include <cmath>
#include <numbers>

namespace lacuna {

double learning_rate(const TrainOptions& options, uint64_t step, uint64_t steps_per_epoch) {
  const double warmup = double(options.warmup_steps);
  if (double(step) < warmup) return options.lr * double(step + 1) / warmup;
  double place = double(step) - warmup;
  double period = double(options.restart_epochs) * double(steps_per_epoch);
  while (place >= period) {
    place -= period;
    period *= options.restart_factor;
  }
  return options.lr * 0.5 * (1 + std::cos(std::numbers::pi * place / period));
}

}  // namespace lacuna
