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
#include "lacuna/run/predict/prediction_shard.h"
#include "lacuna/screen/candidates.h"

namespace lacuna {

// Predictions [B, L] of B samples; sample b removes the genes removed[ptr[b] .. ptr[b + 1]).
using BatchPredictor = std::function<std::vector<float>(std::span<const int32_t> removed,
                                                        std::span<const int32_t> ptr)>;

// Only the best: see BestPredictions.
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
  // Where the candidates are a shard of more; rows, and what is about the top, are filled in.
  std::optional<PredictionShard> shard = {};
};

// Returns how many samples the file holds. When it throws there is no file; where it was stopped
// (core/system/stop.h), the Error says how far it was.
uint64_t predict_candidates(Candidates& candidates, const BatchPredictor& predict,
                            const PredictionTask& task, Progress& progress = Progress::none());

struct BestSample {
  uint64_t number;               // its place among all that were met
  std::vector<uint32_t> genes;   // removed
  std::vector<float> predicted;  // [L]
};

// The K largest (or most negative) of many predictions that come one by one, in memory for K.
class BestPredictions {
 public:
  // Ranked by label number `label`; `lowest`: the most negative come first.
  BestPredictions(uint64_t count, uint64_t label, bool lowest);

  void add(std::span<const uint32_t> genes, std::span<const float> predicted);
  // The best first; of equal ones the first met. A NaN is worse than any number. Leaves this empty.
  std::vector<BestSample> take();

 private:
  bool is_better(float a, uint64_t a_number, float b, uint64_t b_number) const;

  uint64_t count_, label_;
  bool lowest_;
  uint64_t met_ = 0;
  std::vector<BestSample> heap_;  // the worst of them at the front
};

}  // namespace lacuna
