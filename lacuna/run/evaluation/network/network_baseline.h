// The baseline `network`: what a linear model reads out of the gene networks, also for genes that
// training never removed.
//
//   prediction = ridge (column_ridge.h) on the columns
//     offsets      sum of an effect a removed gene: those of the baseline `ridge`, and for a gene
//                  that training never saw those of genes with like neighbourhoods
//     pairs        for each network, pair_features.h: topology and propagation
//
// in units of the label's standard deviation, in which the offsets keep their scale. The strength
// is the one of kNetworkStrengths with the highest Pearson correlation on the validation samples
// that remove at least two genes (of equals, the strongest), or kDefaultNetworkStrength where none
// has one. Samples of fewer than two genes have no pair: their prediction is that of `ridge`, and
// they take part in the effects of genes alone.
//
// Only training samples are fitted, weighted as in baselines.h. No training sample sees its own
// label in the columns of pairs; the offsets apart, which are fitted to all of them together.
//
// The same bits for any number of threads. 332,313 samples of three of 6,607 genes, nine networks
// of 2.5 million edges: docs/evaluation.md has the time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/run/evaluation/baselines.h"
#include "lacuna/run/evaluation/network/gene_networks.h"

namespace lacuna {

inline constexpr std::array<double, 13> kNetworkStrengths = {1e6, 3e5, 1e5, 3e4, 1e4, 3e3, 1e3,
                                                             300, 100, 30,  10,  3,   1};
inline constexpr double kDefaultNetworkStrength = 1000;
inline constexpr uint64_t kMostNetworkPairs = 10'000'000;  // of all samples together

struct NetworkRequest {
  std::span<const GeneNetwork> networks;  // at least one
  const Samples& samples;                 // to fit on, with split, label and weights
  const Split& split;
  uint64_t label = 0;
  const Column* weights = nullptr;
  const Baseline& ridge;  // fitted to the same
  // To predict: these of these, which may be another screen's with the same genes.
  const Samples& others;
  std::vector<std::span<const uint64_t>> chosen;
};

struct NetworkPredictions {
  std::string note;                           // how it was fitted
  std::vector<std::vector<float>> predicted;  // for each of `chosen`, in label units
};

// Nothing where the samples have more than `most_pairs` pairs; `note` hears it. threads 0: all.
std::optional<NetworkPredictions> network_baseline(const NetworkRequest& request,
                                                   const BaselineNote& note, Progress& progress,
                                                   uint64_t most_pairs = kMostNetworkPairs,
                                                   int threads = 0);

}  // namespace lacuna
