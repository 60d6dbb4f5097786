#include "lacuna/ops/aggregate/kept_degree.h"

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

}  // namespace

double degree_scale(Reduce reduce, double degree) {
  if (degree == 0) return 0;
  if (reduce == Reduce::mean) return 1 / degree;
  if (reduce == Reduce::gcn) return 1 / std::sqrt(degree);
  return 1;
}

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

std::vector<std::vector<double>> degree_scales(const GraphPlan& graph, Reduce reduce,
                                               const RemovedSets& removed, int64_t batch,
                                               int threads) {
  std::vector<std::vector<double>> scales(graph.type_count());
  if (reduce == Reduce::sum) return scales;
  parallel_for(graph.type_count(), threads, [&](uint64_t type) {
    std::vector<double>& scale = scales[type];
    scale = kept_in_degrees(graph, uint32_t(type), removed, batch);
    for (double& element : scale) element = degree_scale(reduce, element);
    if (reduce == Reduce::max)
      for (int64_t b = 0; b < batch; ++b)
        for (const uint32_t node : removed.of(b))
          scale[size_t(node) * size_t(batch) + size_t(b)] = 0;
  });
  return scales;
}

}  // namespace lacuna
