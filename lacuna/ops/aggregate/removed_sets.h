// The removed nodes of each sample, every node once, in ascending order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

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

}  // namespace lacuna
