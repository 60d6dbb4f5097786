#include "lacuna/train/auto_batch.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/system/memory.h"
#include "lacuna/core/text/text.h"
#include "lacuna/train/loop.h"
#include "lacuna/train/predictor.h"
#include "lacuna/train/screen_task.h"
#include "lacuna/train/step.h"

namespace lacuna {
namespace {

// Not of one sample: batch norm, which modules of Python may have, has no spread of that.
constexpr int64_t kSmall = 2, kLarge = 4, kMost = 512;
constexpr double kShare = 0.8;
// The first batch that is timed. "As good as" leaves room for the noise of a few steps.
constexpr int64_t kFirstTimed = 8;
constexpr double kAsGood = 1.05;

// Bytes at the peak of what body() allocates, beyond what was there before.
template <class Body>
uint64_t peak_of(at::Device device, const Body& body) {
  if (device.is_cpu()) {
    give_back_freed_memory();  // else it is used again, and does not show
    reset_peak_memory();
    const uint64_t before = used_memory();
    body();
    const uint64_t peak = peak_memory();
    return peak > before ? peak - before : 0;
  }
  auto* allocator = at::getDeviceAllocator(device.type());
  allocator->resetPeakStats(device.index());
  const auto before = allocator->getDeviceStats(device.index()).allocated_bytes[0].current;
  body();
  const auto peak = allocator->getDeviceStats(device.index()).allocated_bytes[0].peak;
  return uint64_t(std::max<int64_t>(peak - before, 0));
}

uint64_t free_bytes(at::Device device) {
  if (device.is_cpu()) {
    give_back_freed_memory();  // the trial's
    return available_memory();
  }
  return at::getDeviceAllocator(device.type())->getMemoryInfo(device.index()).first;
}

// `count` times the sample that removes the most genes: as wide as any batch can be.
std::vector<uint32_t> widest_batch(const ScreenSession& session, uint64_t count) {
  const RemovedReader reader(session.screen.samples());
  const auto training = session.samples(Part::train);
  return std::vector<uint32_t>(count, *std::ranges::max_element(training, {}, [&](uint32_t sample) {
                                 return reader.count(sample);
                               }));
}

void trial_step(const ScreenSession& session, int64_t batch) {
  const RungSource source(session.screen, session.masks, uint64_t(batch),
                          {.selection = widest_batch(session, uint64_t(batch))});
  Loader loader(source, {.order = {.global_batch = uint64_t(batch)}, .threads = 0});
  BatchFeed feed(loader, session.labels,
                 {.device = session.device(),
                  .batch = batch,
                  .widest = widest_removal(session.screen.samples())});
  ScreenTask task(session);
  task.session().group = &Group::alone();
  add_gradient(task, *feed.next(), 0).item<double>();  // waits for the device
  session.model->zero_grad();
}

// As the validation does it behind a step of that batch.
void trial_prediction(const ScreenSession& session, int64_t batch) {
  const uint64_t count = prediction_batch(batch);
  ScreenSession here = session;
  here.group = &Group::alone();
  predict_samples(here, widest_batch(session, count), count);
}

// What the optimiser will hold from its first step on: two moments of every parameter.
uint64_t moment_bytes(const Model& model) {
  uint64_t bytes = 0;
  for (const at::Tensor& parameter : model.parameters()) bytes += 2 * parameter.nbytes();
  return bytes;
}

// A recorded step keeps its memory, so what a prediction needs comes on top.
uint64_t bytes_of(const ScreenSession& session, int64_t batch) {
  return moment_bytes(*session.model) +
         peak_of(session.device(), [&] { trial_step(session, batch); }) +
         peak_of(session.device(), [&] { trial_prediction(session, batch); });
}

// Milliseconds of a step of the trainer over training batches: on a GPU of a recorded one, behind
// those that come before the recording. A learning rate of 0 leaves the weights as they are.
double step_ms(const ScreenSession& session, int64_t batch) {
  ScreenTask task(session);
  task.session().group = &Group::alone();
  task.config().train.batch = batch;
  task.config().train.lr = 0;
  task.config().train.accumulate = 1;
  Loop loop(task);
  const bool is_cpu = session.device().is_cpu();
  loop.run(is_cpu ? 1 : 8);
  const uint64_t steps = is_cpu ? 2 : 10;
  return loop.time(steps) / double(steps);
}

}  // namespace

FittingBatch fitting_batch(uint64_t small, uint64_t large, uint64_t free, uint64_t samples) {
  const double a_sample = std::max(1.0, (double(large) - double(small)) / double(kLarge - kSmall));
  const double besides = std::max(0.0, double(small) - a_sample * double(kSmall));
  const double room = kShare * double(free);
  const auto text = [](double bytes) { return format_bytes(uint64_t(bytes)); };
  const auto fits = int64_t((room - besides) / a_sample);
  if (fits < 1)
    throw Error(
        "a training step of one sample and the validation beside it need {}, and {} may be used "
        "({:.0f}% of what is free); "
        "choose a smaller model (model.width, model.layers), or model.merge=sum",
        text(besides + a_sample), text(room), 100 * kShare);
  const int64_t batch = std::min({fits, kMost, int64_t(samples)});
  // Of small models not all of this shows: memory comes in pages.
  const std::string for_all = besides >= 1 ? text(besides) + " and " : "";
  const std::string for_each =
      large > small ? text(a_sample) + " a sample" : "too little a sample to be measured";
  return {batch,
          fmt::format("batch {}: a step and the validation beside it need {}{}, {} may be used",
                      batch, for_all, for_each, text(room))};
}

TimedBatch fastest_batch(int64_t most, const std::function<double(int64_t batch)>& step_ms) {
  struct Timed {
    int64_t batch;
    double ms_a_sample;
  };
  std::vector<Timed> timed;
  double best = std::numeric_limits<double>::infinity();
  std::string words;
  int no_better = 0;
  for (int64_t batch = std::min(kFirstTimed, most); no_better < 2;) {
    const double ms = step_ms(batch) / double(batch);
    words += fmt::format("{}{}: {:.3g}{}", timed.empty() ? "" : ", ", batch, ms,
                         timed.empty() ? " ms a sample" : "");
    no_better = ms < best ? 0 : no_better + 1;
    best = std::min(best, ms);
    timed.push_back({batch, ms});
    if (batch == most) break;
    batch = std::min(2 * batch, most);
  }
  const auto taken = std::ranges::find_if(
      timed, [&](const Timed& one) { return one.ms_a_sample <= kAsGood * best; });
  return {taken->batch, fmt::format("{}; batch {} is taken", words, taken->batch)};
}

int64_t without_a_single_last(int64_t batch, int64_t samples) {
  while (batch > 2 && samples % batch == 1) --batch;
  return batch;
}

void find_batch(ScreenSession& session, const Note& note) {
  session.model->train();
  std::vector<at::Tensor> buffers;  // running statistics, which these steps must not change
  for (const at::Tensor& buffer : session.model->buffers()) buffers.push_back(buffer.clone());
  bytes_of(session, kSmall);  // libraries take their share once
  const uint64_t small = bytes_of(session, kSmall), large = bytes_of(session, kLarge);
  // Each rank finds what fits beside the others, and rank 0 decides for all.
  const int64_t world = session.group->world();
  const int64_t sharing = session.device().is_cpu() ? world : 1;  // the memory of one host
  const auto samples = std::max<int64_t>(1, int64_t(session.samples(Part::train).size()) / world);
  const FittingBatch found = fitting_batch(
      small, large, free_bytes(session.device()) / uint64_t(sharing), uint64_t(samples));
  note("train.batch: auto: at most " + found.words);
  const auto all = int64_t(session.samples(Part::train).size());
  const bool is_module = session.config.model["name"].as<std::string>() == "module";
  const auto allowed = [&](int64_t batch) {
    return is_module ? without_a_single_last(batch, all) : batch;
  };
  const TimedBatch taken =
      fastest_batch(found.batch, [&](int64_t batch) { return step_ms(session, allowed(batch)); });
  note("train.batch: auto: steps of " + taken.words);
  for (size_t i = 0; i < buffers.size(); ++i) session.model->buffers()[i].copy_(buffers[i]);
  const int64_t batch = session.group->first_says(taken.batch * world);
  session.config.train.batch = allowed(batch);
  if (session.config.train.batch != batch)
    note(fmt::format("train.batch: auto: {} instead, so that no epoch ends in a single sample",
                     session.config.train.batch));
  session.config.resolved["train"]["batch"] = session.config.train.batch;
}

}  // namespace lacuna
