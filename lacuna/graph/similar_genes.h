// Which genes are alike in a network: those with the same neighbours. Two genes of one complex need
// not touch each other to do the same; what is known of one says something about the other.
//
//   r_v[u] = w(u -> v), repeated edges added up
//   likeness(v, x) = (r_v . r_x / (|r_v| |r_x|))^2
//
// A self loop counts like any other edge: with it a gene is a neighbour of its own, and two genes
// that are linked have that in common.
#pragma once

#include <cstdint>
#include <vector>

#include "lacuna/graph/spectral.h"

namespace lacuna {

// A network of its own, sorted by target, then source. Weights are normalised: likeness /
// sqrt(d(source) d(target)), where d adds up the likenesses of what arrives at a gene; it is at
// least the likeness itself.
struct SimilarGenes {
  std::vector<uint32_t> sources, targets;  // [E]
  std::vector<float> weights;              // [E]
};

// Every gene hears the `count` others that are most like it (of equal ones those with smaller
// numbers) and share a neighbour with it, and the genes of which it is one of these. Genes of
// `silent`, [N] or empty, are heard by nobody: those of which nothing is known, in whose place
// others are chosen. The same bits for every number of threads; 0: all available.
SimilarGenes similar_genes(const WeightedEdges& edges, uint32_t count,
                           const std::vector<bool>& silent = {}, int threads = 0);

}  // namespace lacuna
