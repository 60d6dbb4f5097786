// `train.batch: auto`: of the batches whose training step fits into memory, the one that takes the
// least time a sample.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lacuna/train/session.h"

namespace lacuna {

// Sets session.config.train.batch, and the resolved config. Two trials, of 2 and 4 samples, show
// what a step and the validation's prediction beside it (predictor.h) need besides their samples
// and what a sample needs; the optimiser's moments, which no trial makes, are added. The batch
// takes up to 80% of the memory that is free (on a GPU the device's; on the CPU the machine's, or
// what its cgroup leaves), and no more than 512 samples or the training samples there are. Within
// that, steps of growing batches are timed (fastest_batch). Weights stay as they are. Throws Error
// when not even one sample fits, with both numbers.
void find_batch(ScreenSession& session, const Note& note);

// What find_batch() makes of its trials: `small` and `large` are the bytes of the two, `free` those
// that are free, `samples` the training samples.
struct FittingBatch {
  int64_t batch;
  // "batch 112: a step and the validation beside it need 310 MB and 95.2 MB a sample, 11.0 GB may
  // be used"
  std::string words;
};
FittingBatch fitting_batch(uint64_t small, uint64_t large, uint64_t free, uint64_t samples);

// Times steps of 8 samples, 16, 32 and so on, at last of `most`, until two in a row took no less a
// sample than the best before them. The smallest batch within 5% of the best is taken: a larger one
// would cost memory, and steps of learning, for nothing.
struct TimedBatch {
  int64_t batch;
  std::string words;  // "8: 1.20 ms a sample, 16: 0.71, 32: 0.70; batch 16 is taken"
};
TimedBatch fastest_batch(int64_t most, const std::function<double(int64_t batch)>& step_ms);

// The largest batch up to `batch`, and down to 2, that does not leave one sample alone in the last
// batch of an epoch: modules of Python may have batch norm, which fails there.
int64_t without_a_single_last(int64_t batch, int64_t samples);

}  // namespace lacuna
