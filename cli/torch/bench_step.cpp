// `lacuna bench step`: training steps on one batch, timed one by one.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/terminal.h"
#include "cli/torch/owned_settings.h"
#include "lacuna/core/median.h"
#include "lacuna/train/measure_step.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(The batch lies ready on the device; a step is forward, loss, backward and update. With --json FILE and
--weights FILE another program can do the same: the weights at the start by name (safetensors), each
sample's removed genes, the labels, and the predictions to compare with. bench/step.py does.

Example:
  lacuna bench step configs/tiny.yaml --batch 16,64 --steps 20)";

struct Arguments {
  fs::path config, weights, json;
  std::vector<std::string> settings;
  std::vector<uint64_t> batches;  // none: the config's
  StepCounts counts;
};

void print_table(const std::vector<StepMeasurement>& measurements) {
  std::vector<std::vector<std::string>> rows = {
      {"batch", "ms/step", "samples/s", "peak memory", ""}};
  for (const StepMeasurement& one : measurements) {
    if (!one.fits) {
      rows.push_back({with_commas(one.batch), "", "", "", "out of memory"});
      continue;
    }
    const double ms = median(one.ms);
    rows.push_back({with_commas(one.batch), fmt::format("{:.2f}", ms),
                    format_rate(1000 * double(one.batch) / ms), format_bytes(one.peak_bytes),
                    one.recorded ? "recorded" : ""});
  }
  fmt::print("{}", format_table(rows, {0, 1, 2, 3}));
}

void run(Arguments arguments) {
  if (!arguments.batches.empty()) refuse_owned(arguments.settings, {{"train.batch", "--batch"}});
  const Config config = read_config(arguments.config, arguments.settings);
  if (arguments.batches.empty() && config.train.batch == 0)
    throw UsageError("train.batch is auto in {}; say which with --batch",
                     arguments.config.string());
  if (arguments.batches.empty()) arguments.batches = {uint64_t(config.train.batch)};
  const auto note = [](const std::string& words) { fmt::print(stderr, "{}\n", words); };
  const auto measurements =
      measure_steps(config, arguments.batches, arguments.counts, arguments.weights, note);
  print_table(measurements);
  if (arguments.json.empty()) return;
  Json all = Json::array();
  for (const StepMeasurement& one : measurements) all.push_back(to_json(one));
  write_text_atomically(arguments.json, all.dump() + "\n");
}

}  // namespace

void add_bench_step(CLI::App& bench) {
  CLI::App* step = bench.add_subcommand("step", "Training steps on one batch");
  step->footer(kMore);
  const auto arguments = std::make_shared<Arguments>();
  step->add_option("CONFIG", arguments->config, "YAML file; see configs/")->required();
  step->add_option("--batch", arguments->batches,
                   "Samples a step, one or several sizes, as 16,64; not given: the config's")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 20));
  step->add_option("--steps", arguments->counts.steps, "Steps to measure")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 20))
      ->capture_default_str();
  step->add_option("--warm", arguments->counts.warm, "Steps before them")
      ->check(CLI::Range(uint64_t(0), uint64_t(1) << 20))
      ->capture_default_str();
  step->add_option("--set", arguments->settings, "key=value over the config")
      ->allow_extra_args(false);
  step->add_option("--weights", arguments->weights, "File for the weights at the start");
  step->add_option("--json", arguments->json, "File for all of it");
  step->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
