// `lacuna bench step`: training steps on one batch, timed one by one.
#include <memory>

#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/torch_calls.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(The batch lies ready on the device; a step is forward, loss, backward and update. With --json FILE and
--weights FILE another program can do the same: the weights at the start by name (safetensors), each
sample's removed genes, the labels, and the predictions to compare with. bench/step.py does.

Example:
  lacuna bench step configs/tiny.yaml --batch 16,64 --steps 20)";

}  // namespace

void add_bench_step(CLI::App& bench) {
  CLI::App* step = bench.add_subcommand("step", "Training steps on one batch");
  step->footer(kMore);
  const auto call = std::make_shared<BenchStepCall>();
  step->add_option("CONFIG", call->config, "YAML file; see configs/")->required();
  step->add_option("--batch", call->batches,
                   "Samples a step, one or several sizes, as 16,64; not given: the config's")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 20));
  step->add_option("--steps", call->counts.steps, "Steps to measure")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 20))
      ->capture_default_str();
  step->add_option("--warm", call->counts.warm, "Steps before them")
      ->check(CLI::Range(uint64_t(0), uint64_t(1) << 20))
      ->capture_default_str();
  step->add_option("--set", call->settings, "key=value over the config")->allow_extra_args(false);
  step->add_option("--weights", call->weights, "File for the weights at the start");
  step->add_option("--json", call->json, "File for all of it");
  add_plugin_option(*step);
  step->callback([call] { run(*call); });
}

}  // namespace lacuna::cli
