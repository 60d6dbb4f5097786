// `lacuna bench ladder --train`: whole training steps on every rung, of a screen or a recording.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "cli/bench_recording.h"
#include "cli/torch/owned_settings.h"
#include "lacuna/core/text/text.h"
#include "lacuna/measure/measure_recording_rungs.h"
#include "lacuna/measure/measure_rungs.h"

namespace lacuna::cli {
namespace {

constexpr const char* kConfig =
    "screen: slice\n"
    "model: {name: hetero_gin, width: 64, layers: 3, merge: sum}\n";

// A step on two cores takes about a second.
constexpr const char* kRecordingConfig =
    "recording: slice\n"
    "model: {name: core_readout, channels: 16, temporal: 4, layers: 2, kernel: 3, stride: 2}\n";

void tell(const std::string& words) { fmt::print(stderr, "{}\n", words); }

// The config of --config and --set, without what the command decides itself.
Config training_config(const LadderTraining& training, const char* otherwise,
                       std::map<std::string, std::string> owned) {
  owned.insert({{"split", "the slice"},
                {"rung", "--rungs"},
                {"store", "--rungs"},
                {"train.batch", "--batch"},
                {"train.threads", "--threads"}});
  refuse_owned(training.settings, owned);
  return training.config.empty() ? parse_config(otherwise, training.settings)
                                 : read_config(training.config, training.settings);
}

std::string training_words(const Config& config, uint64_t parameters, at::Device device,
                           const LadderTraining& training) {
  return fmt::format(
      "{} with {} parameters in {} on {}; rounds up and down the ladder: {}, steps measured in "
      "each: {}, after {} to warm up",
      config.model["name"].as<std::string>(), with_commas(parameters), config.train.precision,
      device.str(), training.rounds, training.steps, warm_steps(device));
}

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
  Config config = training_config(training, kConfig, {{"screen", "SCREEN"}});
  config.screen = slice.path();
  config.rung = Rung::kernel;
  config.store.clear();
  config.split = "ladder";
  config.train.batch = int64_t(ladder.batch);
  config.train.threads = ladder.threads;
  const ScreenSession session =
      open_session(config, tell);  // what is wrong shows before all measuring
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
    return training_words(config, first.parameters, device, training);
  };
}

RecordingLadderTraining recording_ladder_training(const Recording& slice,
                                                  const RecordingLadderArguments& arguments,
                                                  const fs::path& folder) {
  const LadderTraining training = arguments.training;
  Config config = training_config(training, kRecordingConfig,
                                  {{"recording", "RECORDING"}, {"tiered.hot", "the slice"}});
  if (config.kind() != DataKind::recording)
    throw Error("{} is a config of a screen; --train on a recording needs one of a recording",
                training.config.string());
  WindowSettings& windows = config.recording.windows;
  if (arguments.lags) windows.stimulus.lags = *arguments.lags;
  if (arguments.field) windows.stimulus.field = *arguments.field;
  config.recording.path = with_ladder_split(slice).path();
  config.recording.rung = {Place::disk, Form::u8};
  config.recording.hot_bytes = std::max<uint64_t>(1, slice.bytes() / 2);
  config.recording.rungs.clear();
  config.store.clear();
  config.split = "ladder";
  config.train.batch = int64_t(arguments.batch);
  config.train.threads = arguments.threads;
  const auto trainer = std::make_shared<const RecordingRungTrainer>(
      config,
      RecordingRungSettings{.folder = folder, .rounds = training.rounds, .steps = training.steps},
      tell);
  const auto train = [=](std::vector<std::string> rungs, Progress& progress) {
    const bool is_cuda = trainer->device().is_cuda();
    if (is_cuda && arguments.rungs.empty()) rungs.emplace_back("device:resident");
    const auto trained = trainer->train(rungs, progress);
    TrainedRecordingLadder ladder;
    ladder.words =
        training_words(config, trainer->parameters(), trainer->device(), arguments.training);
    ladder.names = rungs;
    ladder.names.insert(ladder.names.begin(), kReadyBatch);
    const double ready = trained.at(kReadyBatch).median_ms();
    for (const auto& [name, one] : trained) {
      TrainedRung& rung = ladder.rungs[name];
      rung.step_ms = one.median_ms();
      if (is_cuda) rung.device_bytes = double(one.device_bytes);
      if (name == kReadyBatch) continue;
      rung.over_ready = rung.step_ms / ready - 1;
      if (name != rungs.at(0))
        rung.difference = largest_difference(one.predicted, trained.at(rungs.at(0)).predicted);
    }
    return ladder;
  };
  return {.windows = windows, .train = train};
}

}  // namespace lacuna::cli
