#include "lacuna/train/predictor.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "lacuna/core/system/stop.h"
#include "lacuna/ladder/rung_source.h"
#include "lacuna/load/loader.h"
#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/train/batch_feed.h"

namespace lacuna {
namespace {

// Samples first to first + count of an input on the host.
ModelInput some_samples(const ModelInput& input, int64_t first, int64_t count) {
  if (first == 0 && count == input.batch()) return input;
  const at::Tensor ptr = input.ptr.narrow(0, first, count + 1);
  const int64_t begin = ptr[0].item<int32_t>(), end = ptr[count].item<int32_t>();
  ModelInput some = {input.removed.narrow(0, begin, end - begin), ptr - begin,
                     input.sets.narrow(0, first, count)};
  if (input.masks.defined())
    some.masks =
        at::cat({input.masks.narrow(0, first, count), input.masks.narrow(0, input.batch(), 1)});
  return some;
}

// What torch says on the CPU is no OutOfMemoryError.
bool is_out_of_memory(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         error.msg().find("can't allocate memory") != std::string::npos;
}

ModelInput input_of(const RungBatch& batch, const RungMasks& masks) {
  ModelInput input = make_input(batch.samples().removed(), batch.samples().ptr());
  input.masks = mask_tensor(batch, masks);
  return input;
}

}  // namespace

uint64_t prediction_batch(int64_t training_batch) {
  return 2 * uint64_t(std::max<int64_t>(1, training_batch));
}
uint64_t prediction_batch(const ScreenSession& session) {
  const uint64_t usual = prediction_batch(session.config.train.batch);
  // Masks in memory are planned for no more than these.
  if (session.device().is_cpu() || session.masks.loads_masks()) return usual;
  return std::max(usual, uint64_t(session.model->samples_at_a_time()));
}

Predictor::Predictor(ScreenSession& session, Note note)
    : session_(session),
      note_(std::move(note)),
      was_training_(session.model->is_training()),
      at_a_time_(session.model->samples_at_a_time()) {
  session_.model->eval();
  session_.model->keep_wild_type(true);
}

Predictor::~Predictor() {
  session_.model->keep_wild_type(false);
  session_.model->train(was_training_);
}

// [count, L] on the host
at::Tensor Predictor::forward(const ModelInput& host, int64_t first, int64_t count) {
  const ModelInput input = to_device(some_samples(host, first, count), session_.device());
  return session_.model->forward(input).to(at::kCPU, at::kFloat).contiguous();
}

std::vector<float> Predictor::predict(const ModelInput& host) {
  const at::NoGradGuard guard;
  const uint64_t labels = session_.labels.size();
  std::vector<float> predicted;  // [B, L]
  predicted.reserve(size_t(host.batch()) * labels);
  for (int64_t first = 0; first < host.batch();) {
    throw_if_stopped();
    const int64_t left = host.batch() - first;
    const int64_t count = at_a_time_ > 0 ? std::min(at_a_time_, left) : left;
    at::Tensor out;
    try {
      out = forward(host, first, count);
    } catch (const c10::Error& error) {
      if (count == 1 || !is_out_of_memory(error)) throw;
      at_a_time_ = count / 2;
      if (note_)
        note_(fmt::format("memory is short for {} samples at a time: {} from here on", count,
                          at_a_time_));
      continue;
    }
    predicted.insert(predicted.end(), out.const_data_ptr<float>(),
                     out.const_data_ptr<float>() + out.numel());
    first += count;
  }
  for (uint64_t i = 0; i < predicted.size(); ++i)
    predicted[i] = session_.labels.restore(i % labels, predicted[i]);
  return predicted;
}

std::vector<float> Predictor::predict(std::span<const int32_t> removed,
                                      std::span<const int32_t> ptr) {
  return predict(make_input(removed, ptr));
}

Predictions predict_samples(ScreenSession& session, std::vector<uint32_t> samples, uint64_t batch,
                            Progress& progress, const Note& note) {
  Predictions result;
  if (samples.empty()) return result;
  if (batch == 0) batch = prediction_batch(session);
  result.samples.assign(samples.begin(), samples.end());
  result.measured =
      measured_labels(session.screen.samples(), session.labels.columns, result.samples);
  result.predicted.resize(samples.size() * session.labels.size());
  Group& group = *session.group;
  const uint64_t first = samples.size() * group.rank() / group.world();
  const uint64_t end = samples.size() * (group.rank() + 1) / group.world();
  progress.begin("predicting", end - first, "samples");
  if (first < end) {
    std::vector<uint32_t> share(samples.begin() + int64_t(first), samples.begin() + int64_t(end));
    const RungMasks& masks = session.masks;
    const RungSource source(session.screen, masks, batch, {.selection = std::move(share)});
    Loader loader(source, {.order = {.global_batch = batch, .shuffled = false},
                           .threads = 1,
                           .prefetch = masks.prefetch_to_predict()});
    Predictor predictor(session, note);
    uint64_t done = 0;
    while (const auto next = loader.next()) {
      throw_if_stopped();
      std::ranges::copy(predictor.predict(input_of(*next, masks)),
                        result.predicted.begin() + int64_t((first + done) * session.labels.size()));
      progress.advance(done += next->size());
    }
  }
  progress.end();
  if (!group.is_alone())  // the others' are 0 here
    group.sum(at::from_blob(result.predicted.data(), int64_t(result.predicted.size())));
  return result;
}

}  // namespace lacuna
