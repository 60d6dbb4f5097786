// `lacuna bench ladder --train`: whole training steps on every rung.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/bench.h"
#include "cli/torch/owned_settings.h"
#include "lacuna/core/text/text.h"
#include "lacuna/measure/measure_rungs.h"

namespace lacuna::cli {
namespace {

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

TrainLadder ladder_training(const Screen& slice, const LadderSettings& ladder,
                            const LadderTraining& training) {
  const auto note = [](const std::string& words) { fmt::print(stderr, "{}\n", words); };
  refuse_owned(training.settings, {{"screen", "SCREEN"},
                                   {"split", "the slice"},
                                   {"rung", "--rungs"},
                                   {"store", "--rungs"},
                                   {"train.batch", "--batch"},
                                   {"train.threads", "--threads"}});
  Config config = training.config.empty() ? parse_config(kConfig, training.settings)
                                          : read_config(training.config, training.settings);
  config.screen = slice.path();
  config.rung = Rung::kernel;
  config.store.clear();
  config.split = "ladder";
  config.train.batch = int64_t(ladder.batch);
  config.train.threads = ladder.threads;
  const ScreenSession session =
      open_session(config, note);  // what is wrong shows before all measuring
  check_reads_masks(session);
  const at::Device device = session.device();
  const RungTrainingSettings settings = {.folder = ladder.folder,
                                         .rungs = ladder.rungs,
                                         .rounds = training.rounds,
                                         .steps = training.steps,
                                         .predict = ladder.batch};
  return [=](LadderMeasurement& measured, Progress& progress) {
    const auto trained = measure_rungs(
        config, settings, [](const std::string&) {}, progress);
    const RungTraining& first = trained.at(ladder.rungs.at(0));
    for (RungMeasurement& rung : measured.rungs) {
      const RungTraining& one = trained.at(rung.rung);
      rung.steps_per_second = 1000 / one.median_ms();
      if (device.is_cuda()) rung.device_bytes = double(one.device_bytes);
      if (&one != &first) rung.difference = largest_difference(one.predicted, first.predicted);
    }
    return fmt::format(
        "{} with {} parameters in {} on {}; rounds up and down the ladder: {}, steps measured in "
        "each: {}, after {} to warm up",
        config.model["name"].as<std::string>(), with_commas(first.parameters),
        config.train.precision, device.str(), settings.rounds, settings.steps, warm_steps(device));
  };
}

}  // namespace lacuna::cli
