// Where a gene stands in a network, as a few numbers: the largest singular vectors of the network's
// normalised adjacency. Genes with the same neighbours get the same numbers, so a model that reads
// them can speak for a gene that it has no samples of.
//
//   A[v, u] = w(u -> v) / sqrt(leaving(u) arriving(v)),   A = U diag(s) V^T
//
// leaving and arriving are sums of |w| over the edges that leave u and arrive at v; repeated edges
// add up. Of a symmetric network that is D^-1/2 W D^-1/2, and U are its eigenvectors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

struct WeightedEdges {
  uint32_t nodes = 0;
  std::span<const uint32_t> sources, targets;  // [E]
  std::span<const float> weights = {};         // [E], finite; empty: 1
};

// The K largest singular values in descending order and their left vectors, each of length 1 and
// with its largest entry (the first of those) positive. Where the network has a smaller rank, the
// rest are zeros.
struct SingularPairs {
  std::vector<double> values;   // [K]
  std::vector<double> vectors;  // [K, N]
};

// By repeated Krylov spaces of A A^T, in double and in a fixed order: the same bits on every run.
// Residuals |A A^T u - s^2 u| are below 1e-9 s_1^2; where many values are nearly equal, as in a
// network of many small parts, below 1e-3: vectors of such values are mixtures of each other, the
// same ones on every run. Values below 1e-7 s_1 count as 0. Throws Error where K is 0 or more than
// N, a weight is not finite, or the search does not end.
SingularPairs largest_singular_pairs(const WeightedEdges& edges, uint32_t count);

}  // namespace lacuna
