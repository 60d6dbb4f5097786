#include "lacuna/train/measure_rung.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/train/predictor.h"
#include "lacuna/train/training_steps.h"

namespace lacuna {
namespace {

// Milliseconds a step. On the CPU the median of single steps, so that a moment in which the machine
// did something else counts little; on a GPU steps follow each other without waiting.
double time_steps(TrainingSteps& run, uint64_t steps, bool is_cpu) {
  if (!is_cpu) return run.time(steps) / double(steps);
  std::vector<double> times;
  for (uint64_t i = 0; i < steps; ++i) times.push_back(run.time(1));
  std::nth_element(times.begin(), times.begin() + long(steps / 2), times.end());
  return times[steps / 2];
}

}  // namespace

RungTraining measure_rung(const Config& config, uint64_t warm, uint64_t steps, uint64_t predict,
                          const Note& note) {
  Session session = open_session(config, note);
  const at::Device device = session.device();
  auto* memory = device.is_cuda() ? at::getDeviceAllocator(device.type()) : nullptr;
  if (memory) memory->resetPeakStats(device.index());
  RungTraining result;
  result.parameters = uint64_t(session.model->parameter_count());
  {
    TrainingSteps run(session, /*may_record=*/true);
    run.run(warm);
    result.ms = time_steps(run, steps, device.is_cpu());
  }
  if (memory)
    result.device_bytes = uint64_t(memory->getDeviceStats(device.index()).allocated_bytes[0].peak);
  std::vector<uint32_t> chosen = session.samples(Part::train);
  chosen.resize(std::min<size_t>(chosen.size(), predict));
  result.predicted = predict_samples(session, std::move(chosen), 0).predicted;
  return result;
}

}  // namespace lacuna
