#include "lacuna/measure/measure_step.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include <chrono>

#include "lacuna/core/error.h"
#include "lacuna/measure/one_batch.h"
#include "lacuna/measure/peak_memory.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/loop.h"
#include "lacuna/train/screen_task.h"

namespace lacuna {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

DeviceBatch first_samples(const ScreenSession& session, uint64_t count) {
  std::vector<uint32_t> chosen = session.samples(Part::train);
  if (chosen.size() < count)
    throw Error("a batch of {} samples needs more than the {} training samples of {}", count,
                chosen.size(), session.screen.path().string());
  chosen.resize(count);
  const RungSource source(session.screen, session.masks, count, {.selection = std::move(chosen)});
  Loader loader(source, {.order = {.global_batch = count}, .threads = 0});
  FeedOptions options = feed_options(session);
  options.batch = int64_t(count);
  options.weights.reset();
  BatchFeed feed(loader, session.labels, options);
  DeviceBatch batch = clone(*feed.next());
  batch.labels.sum().item<float>();  // waits: the feed's buffers end here
  return batch;
}

std::vector<float> to_vector(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().cpu().to(at::kFloat).contiguous();
  return {host.const_data_ptr<float>(), host.const_data_ptr<float>() + host.numel()};
}

void describe(const ScreenSession& session, const DeviceBatch& batch, StepMeasurement& result) {
  const RemovedReader reader(session.screen.samples());
  for (const uint64_t sample : batch.samples) {
    result.removed.emplace_back();
    reader.read(sample, result.removed.back());
  }
  result.labels = to_vector(batch.labels);
  session.model->eval();
  const at::NoGradGuard guard;
  result.predicted = to_vector(session.model->forward(batch.input));
  session.model->compute_in(std::nullopt);
  result.predicted_in_f32 = to_vector(session.model->forward(batch.input));
  if (session.config.train.precision == "bf16") session.model->compute_in(at::kBFloat16);
}

void take_steps(Task& task, std::unique_ptr<Feed> feed, const StepCounts& counts,
                StepMeasurement& result) {
  Loop loop(task, /*may_record=*/true, std::move(feed));
  for (uint64_t i = 0; i < counts.warm + counts.steps; ++i) {
    const auto start = Clock::now();
    loop.step();
    if (loop.stepper().first_bad_step() >= 0)  // waits for the device
      throw Error("the loss is not finite at step {}; try a smaller train.lr", i);
    if (i >= counts.warm) result.ms.push_back(ms_since(start));
  }
  result.recorded = loop.stepper().is_recorded();
}

// memory: made before the session.
void measure(ScreenTask& task, const StepCounts& counts, PeakMemory& memory,
             StepMeasurement& result) {
  memory.restart();
  task.config().train.batch = int64_t(result.batch);
  DeviceBatch batch = first_samples(task.session(), result.batch);
  describe(task.session(), batch, result);
  const std::vector<uint64_t> samples = batch.samples;
  take_steps(task, std::make_unique<OneBatch>(std::make_unique<DeviceBatch>(batch), samples),
             counts, result);
  result.peak_bytes = memory.bytes();
}

// Of a recording: the first training batch, and only its times.
StepMeasurement measure_windows(const Config& asked, uint64_t batch, const StepCounts& counts,
                                PeakMemory& memory,
                                const std::function<void(const std::string&)>& note) {
  StepMeasurement result;
  result.batch = batch;
  memory.restart();
  Config config = asked;
  config.train.batch = int64_t(batch);
  const auto task = open_task({.config = config, .note = note});
  try {
    take_steps(*task, ready_batch(*task), counts, result);
    result.peak_bytes = memory.bytes();
  } catch (const c10::OutOfMemoryError&) {
    result = StepMeasurement();
    result.batch = batch;
    result.fits = false;
  }
  return result;
}

Safetensors weights_of(const Model& model) {
  Safetensors contents;
  for (const auto& parameter : model.named_parameters())
    contents.arrays[parameter.key()] = to_array(parameter.value().detach().clone());
  return contents;
}

}  // namespace

std::vector<StepMeasurement> measure_steps(const Config& config, std::span<const uint64_t> batches,
                                           const StepCounts& counts, const fs::path& weights,
                                           const std::function<void(const std::string&)>& note) {
  PeakMemory memory(choose_device(config.train.device, [](const std::string&) {}));
  if (config.kind() == DataKind::recording) {
    if (!weights.empty())
      throw Error("the weights of a recording's model are not written here: `lacuna train` does");
    std::vector<StepMeasurement> results;
    for (const uint64_t batch : batches)
      results.push_back(measure_windows(config, batch, counts, memory, note));
    return results;
  }
  ScreenTask task(open_session(config, note));
  const ScreenSession& session = task.session();
  const Safetensors start = weights_of(*session.model);
  if (!weights.empty()) write_safetensors(weights, start);
  std::vector<StepMeasurement> results;
  for (const uint64_t batch : batches) {
    StepMeasurement result;
    result.batch = batch;
    try {
      load_weights(start, weights, *session.model);
      measure(task, counts, memory, result);
    } catch (const c10::OutOfMemoryError&) {
      result = StepMeasurement();
      result.batch = batch;
      result.fits = false;
    }
    session.model->zero_grad();
    if (!session.device().is_cpu()) at::getDeviceAllocator(session.device().type())->emptyCache();
    results.push_back(std::move(result));
  }
  return results;
}

Json to_json(const StepMeasurement& measurement) {
  return {{"batch", measurement.batch},
          {"fits", measurement.fits},
          {"recorded", measurement.recorded},
          {"ms", measurement.ms},
          {"peak_bytes", measurement.peak_bytes},
          {"removed", measurement.removed},
          {"labels", measurement.labels},
          {"predicted", measurement.predicted},
          {"predicted_in_f32", measurement.predicted_in_f32}};
}

}  // namespace lacuna
