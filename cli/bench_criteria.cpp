// `lacuna bench criteria`: six questions about every rung, answered on this machine.
#include <memory>

#include "cli/bench.h"
#include "cli/torch_calls.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(Asks of this machine, with a slice of the screen and HeteroGin of width 64 with three layers:
  1  are masks that a GPU makes the CPU's, bit for bit?
  2  is training faster than the usual form (copies of the graph with edge masks in PyG), and on a GPU at
     least 10 steps a second at batch 28?
  3  are the predictions of every rung, in f64, within 1e-6 of plain PyTorch with the same weights?
  4  do the rungs kernel and device need less than 50 MB on the GPU beyond the model alone, which has no
     graph (device: and beyond the masks of one batch)?
  5  does a whole run end without error: an epoch, on a GPU of all samples, on a CPU of --samples?
  6  do two runs with one seed give the same numbers?
What cannot be asked here is not answered, with the reason. Exit code 1 when one of them fails. The usual form and
plain PyTorch need a Python with torch, torch_geometric and numpy: --python, else LACUNA_PYTHON, else python3.

Examples:
  lacuna bench criteria demo
  lacuna bench criteria demo --batch 4 --python .venv/bin/python --json criteria.json)";

}  // namespace

void add_bench_criteria(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("criteria", "Six questions about every rung");
  command->footer(kMore);
  const auto call = std::make_shared<BenchCriteriaCall>();
  const auto at_least_1 = CLI::Range(uint64_t(1), uint64_t(1) << 32);
  command->add_option("SCREEN", call->screen, "A screen")->required();
  command
      ->add_option("--samples", call->samples, "The first so many; a whole run on a GPU takes all")
      ->check(CLI::Range(uint64_t(20), uint64_t(1) << 32))
      ->capture_default_str();
  command->add_option("--batch", call->batch, "Samples a step")
      ->check(at_least_1)
      ->capture_default_str();
  command->add_option("--steps", call->steps, "Steps to measure on each rung")
      ->check(at_least_1)
      ->capture_default_str();
  command->add_option("--set", call->settings, "key=value over the model and the training")
      ->allow_extra_args(false);
  command->add_option("--out", call->out, "Folder for stores and runs; here when not given");
  command->add_option("--python", call->python, "For the usual form and plain PyTorch");
  command->add_option("--json", call->json, "File for all of it");
  command->callback([call] { run(*call); });
}

}  // namespace lacuna::cli
