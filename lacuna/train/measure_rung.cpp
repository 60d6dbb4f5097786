#include "lacuna/train/measure_rung.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "lacuna/core/error.h"
#include "lacuna/train/predictor.h"
#include "lacuna/train/training_steps.h"

namespace lacuna {
namespace {

std::vector<float> all_weights(const Model& model) {
  std::vector<float> result;
  for (const at::Tensor& parameter : model.parameters()) {
    const at::Tensor host = parameter.detach().to(at::kCPU, at::kFloat).contiguous();
    const float* data = host.const_data_ptr<float>();
    result.insert(result.end(), data, data + host.numel());
  }
  return result;
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
    result.ms = run.time(steps) / double(steps);
    result.is_recorded = run.is_recorded();
    result.loss = run.last_loss();
  }
  if (memory)
    result.device_bytes = uint64_t(memory->getDeviceStats(device.index()).allocated_bytes[0].peak);
  result.weights = all_weights(*session.model);
  std::vector<uint32_t> chosen = session.samples(Part::train);
  chosen.resize(std::min<size_t>(chosen.size(), predict));
  result.predicted = predict_samples(session, std::move(chosen), 0).predicted;
  return result;
}

}  // namespace lacuna
