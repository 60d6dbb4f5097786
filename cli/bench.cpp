// `lacuna bench`: how fast this machine does it.
#include "cli/bench.h"

#include "cli/commands.h"

namespace lacuna::cli {

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure how fast this machine does it");
  bench->require_subcommand(1);
  bench->footer("Example:\n  lacuna bench loader demo --batch 28 --threads 2");
  add_bench_ladder(*bench);
  add_bench_loader(*bench);
  add_bench_prepare(*bench);
#if LACUNA_HAVE_TORCH
  add_bench_criteria(*bench);
  add_bench_step(*bench);
#endif
}

}  // namespace lacuna::cli
