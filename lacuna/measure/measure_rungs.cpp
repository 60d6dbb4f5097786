#include "lacuna/measure/measure_rungs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/median.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/ladder/rung_source.h"
#include "lacuna/measure/peak_memory.h"
#include "lacuna/train/predictor.h"
#include "lacuna/train/screen_task.h"

namespace lacuna {
namespace {

// Adds what one visit of a rung shows.
void visit(const Config& config, const RungTrainingSettings& settings, const Note& note,
           RungTraining& result) {
  const PeakMemory memory(choose_device(config.train.device, [](const std::string&) {}));
  ScreenTask task(open_session(config, note));
  ScreenSession& session = task.session();
  check_reads_masks(session);
  const at::Device device = session.device();
  result.parameters = uint64_t(session.model->parameter_count());
  {
    Loop loop(task);
    loop.run(warm_steps(device));
    time_steps(loop, settings.steps, device, result.ms);
  }
  uint64_t& peak = device.is_cuda() ? result.device_bytes : result.host_bytes;
  peak = std::max(peak, memory.bytes());
  if (settings.predict == 0 || !result.predicted.empty()) return;
  std::vector<uint32_t> chosen = session.samples(Part::train);
  chosen.resize(std::min<size_t>(chosen.size(), settings.predict));
  result.predicted = predict_samples(session, std::move(chosen), 0).predicted;
}

}  // namespace

void check_reads_masks(const ScreenSession& session) {
  if (session.model->reads_masks()) return;
  throw Error(
      "model {} reads no masks: all rungs are one to it; train another, such as hetero_gin of two "
      "layers",
      session.config.model["name"].as<std::string>());
}

double RungTraining::median_ms() const { return median(ms); }

uint64_t warm_steps(at::Device device) { return device.is_cuda() ? 5 : 1; }

void time_steps(Loop& loop, uint64_t steps, at::Device device, std::vector<double>& ms) {
  if (device.is_cuda()) {
    ms.push_back(loop.time(steps) / double(steps));
    return;
  }
  for (uint64_t i = 0; i < steps; ++i) ms.push_back(loop.time(1));
}

std::map<Rung, RungTraining> measure_rungs(const Config& config,
                                           const RungTrainingSettings& settings, const Note& note,
                                           Progress& progress) {
  const Screen screen = Screen::open(config.screen);
  std::vector<Rung> order = settings.rungs;
  std::map<Rung, RungTraining> trained;
  uint64_t visits = 0;
  progress.begin("training on the rungs", order.size() * settings.rounds, "visits");
  for (uint64_t round = 0; round < settings.rounds; ++round) {
    for (const Rung rung : order) {
      throw_if_stopped();
      const TemporaryStore store(screen, rung, settings.folder);
      Config on_rung = config;
      on_rung.rung = rung;
      on_rung.store = store.path();
      visit(on_rung, settings, note, trained[rung]);
      progress.advance(++visits);
    }
    std::ranges::reverse(order);
  }
  progress.end();
  return trained;
}

}  // namespace lacuna
