// What a model predicts for samples, in the labels' own units.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/train/session.h"

namespace lacuna {

// Samples at a time: twice those of training, since nothing is kept for a backward pass.
uint64_t prediction_batch(int64_t training_batch);
uint64_t prediction_batch(const ScreenSession& session);

// Predictions of a batch of gene sets, [B, L]; removed and ptr as in aggregate.h. Dropout is off.
std::vector<float> predict_batch(ScreenSession& session, std::span<const int32_t> removed,
                                 std::span<const int32_t> ptr);

struct Predictions {
  std::vector<uint64_t> samples;  // [S] numbers in the screen
  std::vector<float> predicted;   // [S, L]
  std::vector<float> measured;    // [S, L] NaN = not measured
};
// Of samples of the session's screen, in their order. batch 0: prediction_batch(). Every rank of
// the session's group predicts its share, and gets all.
Predictions predict_samples(ScreenSession& session, std::vector<uint32_t> samples, uint64_t batch,
                            Progress& progress = Progress::none());

}  // namespace lacuna
