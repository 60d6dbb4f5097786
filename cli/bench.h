// What `lacuna bench` can measure: one file each, cli/bench_<name>.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "lacuna/plan/measure_ladder.h"

namespace lacuna::cli {

void add_bench_ladder(CLI::App& bench);
void add_bench_loader(CLI::App& bench);
void add_bench_prepare(CLI::App& bench);
void add_bench_criteria(CLI::App& bench);  // with torch: cli/torch/bench_criteria.cpp
void add_bench_step(CLI::App& bench);      // with torch: cli/torch/bench_step.cpp

// ---- `lacuna bench ladder --train`, with torch: cli/torch/bench_ladder_train.cpp
struct LadderTraining {
  fs::path config;                    // empty: HeteroGin, width 64, three layers
  std::vector<std::string> settings;  // key=value over it
  uint64_t steps = 3;                 // measured on a rung
};
// Trains on every rung that it is given, on the slice and its split "ladder", from the same weights
// and over the same batches. described: what was trained, once it was; outlives the function.
WithStore ladder_training(const Screen& slice, const LadderSettings& ladder,
                          const LadderTraining& training, std::string& described);

}  // namespace lacuna::cli
