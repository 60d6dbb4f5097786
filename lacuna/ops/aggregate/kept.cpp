#include "lacuna/ops/aggregate/kept.h"

#include <algorithm>
#include <cmath>

#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

template <class Index>
void take_away_removed(const CsrView& by_source, const RemovedSets& removed, int64_t batch,
                       std::vector<double>& degree) {
  const auto* neighbour = static_cast<const Index*>(by_source.neighbour);
  for (int64_t b = 0; b < batch; ++b)
    for (const uint32_t node : removed.of(b))
      for (uint32_t k = by_source.ptr[node]; k < by_source.ptr[node + 1]; ++k)
        degree[size_t(neighbour[k]) * size_t(batch) + size_t(b)] -= 1;
}

// In-edges of the type whose source is kept. (A removed node has some too; nothing reads them.)
std::vector<double> kept_in_degrees(const GraphPlan& graph, uint32_t type,
                                    const RemovedSets& removed, int64_t batch) {
  const CsrView by_target = graph.by_target(type), by_source = graph.by_source(type);
  std::vector<double> degree(size_t(graph.node_count()) * size_t(batch));
  for (uint32_t node = 0; node < graph.node_count(); ++node)
    for (int64_t b = 0; b < batch; ++b)
      degree[size_t(node) * size_t(batch) + size_t(b)] =
          double(by_target.ptr[node + 1] - by_target.ptr[node]);
  graph.index_bytes() == 2 ? take_away_removed<uint16_t>(by_source, removed, batch, degree)
                           : take_away_removed<uint32_t>(by_source, removed, batch, degree);
  return degree;
}

// In-edges of the type whose mask is on.
std::vector<double> masked_in_degrees(const GraphPlan& graph, uint32_t type,
                                      const MaskView& masks) {
  const CsrView csr = graph.by_target(type);
  const size_t batch = size_t(masks.batch());
  std::vector<double> degree(graph.node_count() * batch);
  for (size_t b = 0; b < batch; ++b) {
    const uint8_t* mask = masks.records.data() + b * masks.stride + masks.edge_offsets[type];
    for (uint32_t node = 0; node < graph.node_count(); ++node) {
      double on = 0;
      for (uint32_t k = csr.ptr[node]; k < csr.ptr[node + 1]; ++k) on += mask[csr.edge[k]] != 0;
      degree[node * batch + b] = on;
    }
  }
  return degree;
}

}  // namespace

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

double degree_scale(Reduce reduce, double degree) {
  if (degree == 0) return 0;
  if (reduce == Reduce::mean) return 1 / degree;
  if (reduce == Reduce::gcn) return 1 / std::sqrt(degree);
  return 1;
}

std::vector<std::vector<double>> degree_scales(const GraphPlan& graph, Reduce reduce,
                                               const Keep& keep, const RemovedSets& removed,
                                               int threads) {
  std::vector<std::vector<double>> scales(graph.type_count());
  if (reduce == Reduce::sum) return scales;
  const int64_t batch = keep.batch();
  parallel_for(graph.type_count(), threads, [&](uint64_t type) {
    std::vector<double>& scale = scales[type];
    scale = keep.masked ? masked_in_degrees(graph, uint32_t(type), keep.masks)
                        : kept_in_degrees(graph, uint32_t(type), removed, batch);
    for (double& element : scale) element = degree_scale(reduce, element);
    if (reduce == Reduce::max)
      for (int64_t b = 0; b < batch; ++b)
        for (const uint32_t node : removed.of(b))
          scale[size_t(node) * size_t(batch) + size_t(b)] = 0;
  });
  return scales;
}

}  // namespace lacuna
