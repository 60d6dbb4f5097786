// Simple predictors without a graph, reported beside every model.
//
// All have one form, with the set of genes that a sample removes:
//
//   prediction = intercept + sum of an effect a removed gene + effects of pairs of removed genes
//
//   mean         the mean of the training labels
//   gene         additive effect of each gene: the ridge below on gene indicators with strength 1,
//                as if each gene had one more sample, without an effect. Fitted jointly, so that
//                genes that always come together share their effect and do not count it twice.
//   pair         gene, and an offset for the recurring pair of a sample: of its pairs, the one that
//                the most training samples remove together, at least two (of equals, the pair of
//                the lowest indices). The offset is the sum of what gene leaves of the samples that
//                have it as their recurring pair, divided by their number plus one.
//   ridge        ridge (ridge.h) on gene indicators
//   ridge_pairs  ridge on gene indicators and on indicators of all pairs that at least two training
//                samples remove together
//
// A gene or a pair without training samples has effect 0; the wild type gets the intercept. The
// strength of ridge and ridge_pairs is the one of kRidgeStrengths with the lowest MSE on the
// validation part (of equals, the strongest), or kDefaultRidgeStrength where no validation sample
// has the label; Baseline::note says which. Only training samples are fitted, also when validation
// is there. Samples without the label are left out.
//
// Weights: where the model's loss weighs the training samples, so do all fits. They are scaled to
// mean 1 over the training samples that have the label, so that their unit means nothing, as in
// the loss; a sample of weight 0 is not fitted. Above, "number of samples" is then the sum of their
// weights, but which pairs recur is counted in samples. The strength is chosen as a model's best
// epoch is, and as all are judged: on validation, unweighted.
//
// Deterministic, on one thread. 332,313 samples of three of 6,607 genes: 3 to 5 seconds. Memory:
// about 150 bytes a training sample of three genes. A sample of k genes has k (k - 1) / 2 pairs, so
// where samples remove hundreds of genes the pairs are too many (BaselineLimits): pair and
// ridge_pairs are then left out. So is a ridge that does not settle; of several strengths, only
// those that do not.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lacuna/run/evaluation/ridge.h"
#include "lacuna/screen/samples.h"

namespace lacuna {

inline constexpr std::array<double, 11> kRidgeStrengths = {10000, 3000, 1000, 300, 100, 30,
                                                           10,    3,    1,    0.3, 0.1};
inline constexpr double kDefaultRidgeStrength = 10;

struct PairEffect {
  uint32_t first = 0, second = 0;  // genes, first < second
  uint32_t samples = 0;            // that remove both, in training
  double effect = 0;
};

struct Baseline {
  std::string name;       // as above
  std::string note = {};  // how it was fitted: "strength 10, the best of 11 on validation"
  double intercept = 0;
  std::vector<double> genes = {};      // [N], or empty: no effects
  std::vector<PairEffect> pairs = {};  // ascending by first, then second
  bool only_recurring_pair = false;    // add the effect of that one, not those of all pairs

  // A prediction for each of the chosen samples, in label units: [chosen]. Throws Error that names
  // sample and gene for an index that is not below N.
  std::vector<float> predict(const Samples& samples, std::span<const uint64_t> chosen) const;
};

struct BaselineLimits {
  uint64_t pairs = 100'000'000;     // of all training samples together; 8 bytes each while counted
  uint64_t recurring = 10'000'000;  // different ones; 24 bytes each in every fit
  int ridge_steps = kRidgeSteps;
};
// Hears which baselines are left out, and why.
using BaselineNote = std::function<void(const std::string&)>;

// The five of them, in the order above, without those that are left out. weights: a column of
// numbers, from 0 on for all training samples. Throws Error where no training sample has the label
// (and a weight above 0), or where a label is infinite.
std::vector<Baseline> fit_baselines(const Samples& samples, uint32_t gene_count, const Split& split,
                                    uint64_t label, const BaselineNote& note = {},
                                    const BaselineLimits& limits = {},
                                    const Column* weights = nullptr);

}  // namespace lacuna
