// `lacuna bench`: how fast this machine does it.
#include "cli/bench.h"

#include "cli/commands.h"
#include "cli/torch_commands.h"

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

}  // namespace lacuna::cli
