#include "lacuna/ops/aggregate/removed_sets.h"

#include <algorithm>

namespace lacuna {

bool RemovedSets::contains(int64_t sample, uint32_t asked) const {
  const auto nodes = of(sample);
  return std::binary_search(nodes.begin(), nodes.end(), asked);
}

void RemovedSets::add_sample(std::vector<uint32_t> nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  node.insert(node.end(), nodes.begin(), nodes.end());
  ptr.push_back(int64_t(node.size()));
}

RemovedSets removed_sets(const RemovedView& removed) {
  RemovedSets sets;
  for (int64_t b = 0; b < removed.batch(); ++b)
    sets.add_sample({removed.index.begin() + removed.ptr[size_t(b)],
                     removed.index.begin() + removed.ptr[size_t(b) + 1]});
  return sets;
}

}  // namespace lacuna
