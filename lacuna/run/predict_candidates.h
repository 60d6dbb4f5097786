// Asks a predictor about candidates, batch by batch, and writes what it says: all of it, or the
// best. Knows no model, so that any function can stand in for one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/screen/candidates.h"

namespace lacuna {

// Predictions [B, L] of B samples; sample b removes the genes removed[ptr[b] .. ptr[b + 1]).
using BatchPredictor = std::function<std::vector<float>(std::span<const int32_t> removed,
                                                        std::span<const int32_t> ptr)>;

// Only the best: see best_predictions.h.
struct TopOptions {
  uint64_t count;
  uint64_t label = 0;
  bool lowest = false;
};

struct PredictionTask {
  fs::path out;  // see prediction_file.h
  const Names& genes;
  std::vector<std::string> labels;     // [L]
  uint64_t batch;                      // samples that the predictor is given at a time
  std::optional<TopOptions> top = {};  // not set: every sample, in order
};

// Returns how many samples the file holds. When it throws there is no file; where it was stopped
// (core/stop.h), the Error says how far it was.
uint64_t predict_candidates(Candidates& candidates, const BatchPredictor& predict,
                            const PredictionTask& task, Progress& progress = Progress::none());

}  // namespace lacuna
