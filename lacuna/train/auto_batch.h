// `train.batch: auto`: the largest batch whose training step fits into memory.
#pragma once

#include "lacuna/train/session.h"

namespace lacuna {

// Sets session.config.train.batch, and the resolved config. Two trial steps, of 1 and 4 samples,
// show what a step needs besides its samples and what a sample needs; the batch takes up to 80% of
// the memory that is free (on a GPU the device's; on the CPU the machine's, or what its cgroup
// leaves), and no more than 512 samples or the training samples there are. Weights stay as they
// are. Throws Error when not even one sample fits, with both numbers.
void find_batch(Session& session, const Note& note);

}  // namespace lacuna
