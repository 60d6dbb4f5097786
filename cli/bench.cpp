// `lacuna bench`: how fast this machine does it.
#include "cli/bench.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cmath>
#include <ctime>

#include "cli/commands.h"
#include "cli/torch_commands.h"
#include "lacuna/core/text/text.h"

namespace lacuna::cli {

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure how fast this machine does it");
  bench->require_subcommand(1);
  bench->footer("Example:\n  lacuna bench loader demo --batch 28 --threads 2");
  add_bench_ladder(*bench);
  add_bench_loader(*bench);
  add_bench_prepare(*bench);
  add_torch_benches(*bench);
}

std::string describe(const Machine& machine) {
  return fmt::format("{:.0f} cores of {}, {} of memory free, {}", machine.cores.value, cpu_name(),
                     format_bytes(uint64_t(machine.memory.value)),
                     machine.gpu ? machine.gpu->name : "no GPU");
}

double load_average() {
  double load = NAN;
  ::getloadavg(&load, 1);
  return load;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

}  // namespace lacuna::cli
