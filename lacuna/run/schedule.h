// The learning rate of a step: a linear warm-up, then cosine periods that restart. A pure function
// of the step, so a resumed run needs nothing but its number.
#pragma once

#include <cstdint>

#include "lacuna/run/config.h"

namespace lacuna {

// step counts updates from 0. The first period lasts restart_epochs epochs, each further one
// restart_factor times as long; a period goes from lr to 0.
double learning_rate(const TrainOptions& options, uint64_t step, uint64_t steps_per_epoch);

}  // namespace lacuna
