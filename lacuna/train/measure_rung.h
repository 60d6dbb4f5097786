// Training on one rung of the ladder, measured: how fast, in how much memory, and what comes out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/train/session.h"

namespace lacuna {

struct RungTraining {
  double ms = 0;                 // a step, from batch to batch, loading included
  uint64_t device_bytes = 0;     // allocated on the GPU at the peak; 0 on the CPU
  uint64_t parameters = 0;       // of the model
  std::vector<float> predicted;  // after the steps: of the samples asked for, [P, L]
};

// Takes `warm` steps that are not measured, then `steps` (at least 1), with the rung and the store of
// the config; then predicts the first `predict` training samples by the same rung. Configs that
// differ in their rung alone see the same batches. Throws Error as train() does.
RungTraining measure_rung(const Config& config, uint64_t warm, uint64_t steps, uint64_t predict,
                          const Note& note);

}  // namespace lacuna
