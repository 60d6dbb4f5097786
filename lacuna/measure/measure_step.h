// How long a training step takes, on one batch again and again: our side of bench/step.py.
//
// The batch lies ready on the device, so only the step is measured: forward, loss, backward,
// update, recorded where `lacuna train` would record it; the learning rate follows the schedule as
// if this batch were an epoch. What another implementation needs to do the same stands beside: the
// weights at the start, the genes that the samples remove, their labels, and the predictions of
// these weights to compare with; not for a recording, of which the times alone are measured.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lacuna/store/directory.h"

namespace lacuna {

struct Config;  // forward-declared: this header does not pull in yaml-cpp

struct StepMeasurement {
  uint64_t batch = 0;
  bool fits = true;        // false: out of memory, and the rest is empty
  bool recorded = false;   // the step was one CUDA graph
  std::vector<double> ms;  // by step
  // On a GPU all that is allocated on it; on the CPU what comes on top of the program: graph,
  // weights, the batch, and the step.
  uint64_t peak_bytes = 0;
  std::vector<std::vector<uint32_t>> removed;  // [B] the genes of each sample
  std::vector<float> labels, predicted;        // [B, L] standardised
  std::vector<float> predicted_in_f32;         // the same weights, whatever train.precision
};

struct StepCounts {
  uint64_t steps = 10;
  uint64_t warm = 5;  // before them; more than the stepper's own before it records (step.h)
};

// batches: sizes; each is the first so many training samples. weights: a safetensors file to write,
// parameters by name; empty: none. Throws Error as train() does, and when there are too few
// samples.
std::vector<StepMeasurement> measure_steps(const Config& config, std::span<const uint64_t> batches,
                                           const StepCounts& counts, const fs::path& weights,
                                           const std::function<void(const std::string&)>& note);
Json to_json(const StepMeasurement& measurement);

}  // namespace lacuna
