// How well the strongest interactions are found: those that would be followed up.
//
// The tail "lowest" is the 5% of the measured samples with the lowest label, "highest" the 5% with
// the highest (and whoever ties with the last of them). A predictor ranks all samples (ranking.h);
// of its ranking there are
//
//   average precision   the mean, over the samples of the tail, of the share of the tail among all
//                       that rank at least as high
//   precision at k      the share of the tail among the first k, k being the size of the tail
//
// Both are 1 for a perfect ranking and about 0.05 (`chance`) for a random one. Intervals and leads
// come from the draws of bootstrap.h, in which a sample of weight w counts like w copies.
// Neither is defined where ties make all samples the tail.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/run/evaluation/bootstrap.h"

namespace lacuna {

inline constexpr double kTailShare = 0.05;

struct TailScore {
  std::string predictor = {};  // "model", or a baseline's name
  Estimate average_precision = {}, precision_at_k = {};
  Estimate lead = {};      // average precision of the model minus this; not defined for the model
  bool is_member = false;  // of the ensemble that was evaluated, and so no baseline

  // Whether the model is ahead: the interval of the lead lies above 0; behind: below.
  Standing standing() const;
};

struct TailScores {
  std::string tail = {};               // "lowest", "highest"
  double threshold = 0;                // the weakest measured value in it
  uint64_t count = 0;                  // samples in the tail
  uint64_t samples = 0;                // measured
  std::vector<TailScore> scores = {};  // the model first

  double chance() const { return double(count) / double(samples); }
  const TailScore& model() const { return scores.at(0); }
  // The baseline with the highest average precision, or null where none has one.
  const TailScore* best_baseline() const;
  const TailScore* find(std::string_view predictor) const;  // or null
};

// names: of the predictors, the model first. Both tails; none where fewer than 20 samples are
// measured or all have the same value. Without rounds, or of fewer than two units, no intervals; of
// fewer than kFewestUnits none of the leads.
std::vector<TailScores> tail_scores(const std::vector<std::string>& names,
                                    const std::vector<std::vector<float>>& predictors,
                                    std::span<const float> measured, const HeldOutUnits& units,
                                    uint64_t seed, int rounds);

}  // namespace lacuna
