// `lacuna bench step`: training steps on one batch, timed one by one.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/owned_settings.h"
#include "cli/torch_calls.h"
#include "lacuna/core/median.h"
#include "lacuna/measure/measure_step.h"
#include "lacuna/run/config.h"

namespace lacuna::cli {
namespace {

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

}  // namespace

void run(const BenchStepCall& call) {
  stop_on_signals();
  if (!call.batches.empty()) refuse_owned(call.settings, {{"train.batch", "--batch"}});
  const Config config = read_config(call.config, call.settings);
  if (call.batches.empty() && config.train.batch == 0)
    throw UsageError("train.batch is auto in {}; say which with --batch", call.config.string());
  const std::vector<uint64_t> batches =
      call.batches.empty() ? std::vector{uint64_t(config.train.batch)} : call.batches;
  const auto note = [](const std::string& words) { fmt::print(stderr, "{}\n", words); };
  const auto measurements = measure_steps(config, batches, call.counts, call.weights, note);
  print_table(measurements);
  if (call.json.empty()) return;
  Json all = Json::array();
  for (const StepMeasurement& one : measurements) all.push_back(to_json(one));
  write_text_atomically(call.json, all.dump() + "\n");
}

}  // namespace lacuna::cli
