// `lacuna bench ladder --train`: whole training steps on every rung.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/bench.h"
#include "lacuna/core/text.h"
#include "lacuna/train/measure_rung.h"

namespace lacuna::cli {
namespace {

// Before the clock starts. On a GPU libraries choose and the step is recorded; on the CPU a step may
// take seconds.
constexpr uint64_t kWarmSteps = 5, kWarmStepsOnCpu = 1;

constexpr const char* kConfig =
    "screen: slice\n"
    "model: {name: hetero_gin, width: 64, layers: 3, merge: sum}\n";

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double(a[i]) - double(b[i]));
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace

WithStore ladder_training(const Screen& slice, const LadderSettings& ladder,
                          const LadderTraining& training, std::string& described) {
  const auto note = [](const std::string& words) { fmt::print(stderr, "{}\n", words); };
  Config config = training.config.empty() ? parse_config(kConfig, training.settings)
                                          : read_config(training.config, training.settings);
  config.screen = slice.path();
  config.split = "ladder";
  config.train.batch = int64_t(ladder.batch);
  config.train.threads = ladder.threads;
  const at::Device device = choose_device(config.train.device, note);
  const uint64_t warm = device.is_cuda() ? kWarmSteps : kWarmStepsOnCpu;
  const auto first = std::make_shared<std::vector<float>>();
  return [=, &described](const fs::path& store, RungMeasurement& result) mutable {
    config.rung = result.rung;
    config.store = store;
    const auto nothing = [](const std::string&) {};
    const RungTraining trained = measure_rung(config, warm, training.steps, ladder.batch, nothing);
    result.steps_per_second = 1000 / trained.ms;
    if (device.is_cuda()) result.device_bytes = double(trained.device_bytes);
    if (first->empty()) *first = trained.predicted;
    result.difference = largest_difference(trained.predicted, *first);
    described =
        fmt::format("{} with {} parameters in {} on {}; steps measured: {}, after {} to warm up",
                    config.model["name"].as<std::string>(), with_commas(trained.parameters),
                    config.train.precision, device.str(), training.steps, warm);
  };
}

}  // namespace lacuna::cli
