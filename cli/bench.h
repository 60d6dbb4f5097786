// What `lacuna bench` can measure: one file each, cli/bench_<name>.cpp.
#pragma once

#include <CLI/CLI.hpp>

namespace lacuna::cli {

void add_bench_ladder(CLI::App& bench);
void add_bench_loader(CLI::App& bench);
void add_bench_prepare(CLI::App& bench);
void add_bench_criteria(CLI::App& bench);  // with torch: cli/torch/bench_criteria.cpp
void add_bench_step(CLI::App& bench);      // with torch: cli/torch/bench_step.cpp

}  // namespace lacuna::cli
