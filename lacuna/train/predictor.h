// What a model predicts for samples, in the labels' own units.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/train/session.h"

namespace lacuna {

// Samples at a time: twice those of training, since nothing is kept for a backward pass; of a
// session on a GPU that loads no masks as many as its model predicts best, where that is more.
uint64_t prediction_batch(int64_t training_batch);
uint64_t prediction_batch(const ScreenSession& session);

// A session's model for as long as its weights stay as they are: dropout is off, no gradient is
// recorded, and a model that reads the wild type computes it once (Model::keep_wild_type). A batch
// goes through the model as many samples at a time as that takes best (Model::samples_at_a_time);
// where memory is short, half as many from then on, and a note says so. On the CPU a sample's
// prediction has the same bits whatever stands beside it and for every number of threads, but for
// models that couple the samples of a batch (norm: batch_graph).
class Predictor {
 public:
  // The session outlives it; its model is trained on as before afterwards.
  explicit Predictor(ScreenSession& session, Note note = {});
  ~Predictor();
  Predictor(const Predictor&) = delete;

  // [B, L] in the labels' own units; removed and ptr as in aggregate.h.
  std::vector<float> predict(std::span<const int32_t> removed, std::span<const int32_t> ptr);
  std::vector<float> predict(const ModelInput& host);

 private:
  at::Tensor forward(const ModelInput& host, int64_t first, int64_t count);

  ScreenSession& session_;
  Note note_;
  bool was_training_;
  int64_t at_a_time_;  // 0: all
};

struct Predictions {
  std::vector<uint64_t> samples;  // [S] numbers in the screen
  std::vector<float> predicted;   // [S, L]
  std::vector<float> measured;    // [S, L] NaN = not measured
};
// Of samples of the session's screen, in their order. batch 0: prediction_batch(). Every rank of
// the session's group predicts its share, and gets all.
Predictions predict_samples(ScreenSession& session, std::vector<uint32_t> samples, uint64_t batch,
                            Progress& progress = Progress::none(), const Note& note = {});

}  // namespace lacuna
