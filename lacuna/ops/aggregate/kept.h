// What each sample of a batch keeps: its removed nodes as sets, and the in-degrees that are left.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

// The removed nodes of each sample, every node once, in ascending order.
struct RemovedSets {
  std::vector<uint32_t> node;      // [ptr[B]]
  std::vector<int64_t> ptr = {0};  // [B + 1]

  std::span<const uint32_t> of(int64_t sample) const {
    return {node.data() + ptr[size_t(sample)],
            size_t(ptr[size_t(sample) + 1] - ptr[size_t(sample)])};
  }
  bool contains(int64_t sample, uint32_t asked) const;
  void add_sample(std::vector<uint32_t> nodes);  // in any order, repeats allowed
};

RemovedSets removed_sets(const RemovedView& removed);  // assumes checked input

// What a degree is made into: mean 1/d, gcn 1/sqrt(d), max 1; 0 where it is 0.
double degree_scale(Reduce reduce, double degree);

// [T][N, B]: the scales of the in-degrees that a sample keeps, repeats counted (max: 0 at removed
// nodes too); empty for sum. `removed`: those of `keep`, where it has no masks.
std::vector<std::vector<double>> degree_scales(const GraphPlan& graph, Reduce reduce,
                                               const Keep& keep, const RemovedSets& removed,
                                               int threads);

}  // namespace lacuna
