// Training on the rungs of the ladder, measured: how fast, in how much memory, and what comes out.
//
// The rungs are visited in rounds, up the ladder and down again by turns, and every visit starts
// from the same weights and sees the same batches. On a CPU they differ by a few per cent: less
// than a machine may slow down while nine of them are measured one after another.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/train/loop.h"
#include "lacuna/train/session.h"

namespace lacuna {

struct RungTraining {
  // Milliseconds from batch to batch, loading included: on the CPU of each step, on a GPU, where
  // steps follow each other without waiting, the mean of each round.
  std::vector<double> ms;
  uint64_t device_bytes = 0;     // allocated on the GPU at the peak; 0 on the CPU
  uint64_t host_bytes = 0;       // on the CPU: what was resident beyond what was before; 0 on a GPU
  uint64_t parameters = 0;       // of the model
  std::vector<float> predicted;  // after the steps of a round: of the samples asked for, [P, L]

  double median_ms() const;
};

struct RungTrainingSettings {
  fs::path folder;          // for the stores, one at a time
  std::vector<Rung> rungs;  // from the bottom up
  uint64_t rounds = 1;
  uint64_t steps = 3;    // measured in a round, at least 1
  uint64_t predict = 0;  // of the first training samples, by the same rung
};

// Steps of a round before the clock starts. On a GPU libraries choose and the step is recorded; on
// the CPU a step may take seconds.
uint64_t warm_steps(at::Device device);

// So many steps, loading included: on the CPU one by one, on a GPU their mean.
void time_steps(Loop& loop, uint64_t steps, at::Device device, std::vector<double>& ms);

// Throws Error naming a model that reads no masks (nn/model.h): there is nothing to compare.
void check_reads_masks(const ScreenSession& session);

// config: whose screen has few samples, since stores are made of all of them. Throws Error as
// train() and check_reads_masks() do.
std::map<Rung, RungTraining> measure_rungs(const Config& config,
                                           const RungTrainingSettings& settings, const Note& note,
                                           Progress& progress = Progress::none());

}  // namespace lacuna
