#include "lacuna/train/predictor.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "lacuna/core/system/stop.h"
#include "lacuna/ladder/rung_source.h"
#include "lacuna/load/loader.h"
#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/train/batch_feed.h"

namespace lacuna {
namespace {

// Sets the model to predicting, and back to what it was.
class Predicting {
 public:
  explicit Predicting(Model& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~Predicting() { model_.train(was_training_); }

 private:
  Model& model_;
  bool was_training_;
  at::NoGradGuard guard_;
};

std::vector<float> predict_input(ScreenSession& session, const ModelInput& host) {
  const Predicting predicting(*session.model);
  const ModelInput input = to_device(host, session.device());
  const at::Tensor out = session.model->forward(input).to(at::kCPU, at::kFloat).contiguous();
  std::vector<float> predicted(out.const_data_ptr<float>(),
                               out.const_data_ptr<float>() + out.numel());
  const uint64_t labels = session.labels.size();
  for (uint64_t i = 0; i < predicted.size(); ++i)
    predicted[i] = session.labels.restore(i % labels, predicted[i]);
  return predicted;
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
  return prediction_batch(session.config.train.batch);
}

std::vector<float> predict_batch(ScreenSession& session, std::span<const int32_t> removed,
                                 std::span<const int32_t> ptr) {
  return predict_input(session, make_input(removed, ptr));
}

Predictions predict_samples(ScreenSession& session, std::vector<uint32_t> samples, uint64_t batch,
                            Progress& progress) {
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
    uint64_t done = 0;
    while (const auto next = loader.next()) {
      throw_if_stopped();
      std::ranges::copy(predict_input(session, input_of(*next, masks)),
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
