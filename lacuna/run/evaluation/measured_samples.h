// What a baseline is fitted on: the samples of a part that have a label, and the genes they remove.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/run/evaluation/ridge.h"
#include "lacuna/screen/samples.h"

namespace lacuna {

struct MeasuredSamples {
  std::vector<uint64_t> samples;  // [n] ascending
  std::vector<double> labels;     // [n] finite
  std::vector<double> weights;    // [n] of mean 1, above 0; empty: all 1

  double weight(uint64_t i) const { return weights.empty() ? 1.0 : weights[i]; }
};
// weights: a column of numbers from 0 on, or none; samples of weight 0 are left out. Throws Error
// for a label that is infinite.
MeasuredSamples measured_in(const Samples& samples, const Split& split, Part part, uint64_t label,
                            const Column* weights);

// The sets of genes that the chosen samples remove, ascending. Throws Error that names sample and
// gene for an index that is not below gene_count.
Indicators gene_indicators(const Samples& samples, uint32_t gene_count,
                           std::span<const uint64_t> chosen);

// k (k - 1) / 2 for each sample of k genes, summed up.
uint64_t count_pairs(const Indicators& genes);

}  // namespace lacuna
