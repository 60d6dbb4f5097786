// What `lacuna bench` can measure: one file each, cli/bench_<name>.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "lacuna/plan/machine.h"
#include "lacuna/plan/measure_ladder.h"

namespace lacuna::cli {

void add_bench_ladder(CLI::App& bench);
void add_bench_loader(CLI::App& bench);
void add_bench_prepare(CLI::App& bench);
void add_bench_criteria(CLI::App& bench);  // its work, with torch: cli/torch/bench_criteria.cpp
void add_bench_step(CLI::App& bench);      // its work, with torch: cli/torch/bench_step.cpp

// What a measurement says of where and when: "2 cores of .., 8 GB of memory free, no GPU"; the load
// of the last minute, this program included; "2026-11-16".
std::string describe(const Machine& machine);
double load_average();
std::string today();

// ---- `lacuna bench ladder --train`, with torch: cli/torch/bench_ladder_train.cpp
struct LadderTraining {
  fs::path config;                    // empty: HeteroGin, width 64, three layers
  std::vector<std::string> settings;  // key=value over it
  uint64_t rounds = 2;                // up the ladder and down again
  uint64_t steps = 3;                 // measured on a rung in a round
};
// Trains on every rung, adds what it measured, and says what was trained.
using TrainLadder = std::function<std::string(LadderMeasurement& ladder, Progress& progress)>;
// On the slice and its split "ladder". Throws Error at once for a config that is wrong.
TrainLadder ladder_training(const Screen& slice, const LadderSettings& ladder,
                            const LadderTraining& training);

}  // namespace lacuna::cli
