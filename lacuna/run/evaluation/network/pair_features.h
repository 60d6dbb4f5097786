// What gene networks say about the pairs of genes that samples remove: the columns of the network
// baseline (network_baseline.h).
//
// For a pair (a, b) and a network (gene_networks.h), with A, L and the cosine C of two rows of L:
//
//   A[a,b]   L[a,b]   (L L)[a,b]   C[a,b]                      linked, neighbours shared
//   degree[a] degree[b]   log n[a] + log n[b]   log n[a] log n[b]   n: 1 + number of neighbours
//   from(a, b) + from(b, a)                                    propagation
//
//   from(a, b) = sum over n of K[a,n] Z[n,b] / (sum over n of K[a,n] W[n,b] + 0.05)
//
// K[a,n] is C[a,n] squared, 0 where C is not above 0 or n is a. Z[n,b] sums what the gene effects
// leave of the training samples that remove n and b, W their weights. So from(a, b) is what genes
// with a neighbourhood like that of a do together with b.
//
// A sample of more genes has the mean over its pairs. Its own genes are left out of n: what is
// known of its other pairs is known from its own label, too. So no training sample sees its own.
//
// Work: row after row of K, never all of it; for each pair one sum over the training pairs of its
// genes. Memory: about 140 bytes a pair and 32 bytes a network and sample. The same bits for any
// number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/run/evaluation/network/gene_networks.h"
#include "lacuna/run/evaluation/ridge.h"

namespace lacuna {

inline constexpr size_t kColumnsOfNetwork = 8;

// The first samples are those of training.
struct TrainingResiduals {
  std::vector<double> residual;  // [T] label minus gene effects
  std::vector<double> weight;    // [T]
  std::vector<double> effect;    // [N] of each gene
  std::vector<bool> is_seen;     // [N] whether a training sample removes it
};

struct PairFeatures {
  size_t columns = 0;         // kColumnsOfNetwork for each network
  std::vector<float> values;  // [S, columns]; 0 for samples of fewer than two genes
  // [N] for a gene that training never saw and that has a partner here: the effects of genes with
  // neighbourhoods like its own, the mean over networks of (sum of K effect) / (sum of K + 0.05),
  // both over the genes that training saw. 0 for others.
  std::vector<double> neighbours_effect;
};

// sets: [S] genes of each sample, T of them in training. threads 0: all available.
PairFeatures pair_features(std::span<const GeneNetwork> networks, const Indicators& sets,
                           const TrainingResiduals& training, Progress& progress, int threads = 0);

}  // namespace lacuna
