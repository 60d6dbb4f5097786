#include "lacuna/ops/slab/slab_making.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lacuna/core/random.h"

namespace lacuna {
namespace {

using namespace slab;

// The slab: hubs are dealt to the class that has served the fewest edges so far.
void place_nodes(const GraphPlan& graph, const SlabSource& source, uint32_t slab_rows,
                 SlabLines& all) {
  std::vector<uint64_t> uses(graph.node_count());
  for (uint32_t t = 0; t < graph.type_count(); ++t) {
    if (!source.forward && t != source.type) continue;
    const uint32_t* ptr = (source.forward ? graph.by_source(t) : graph.by_target(t)).ptr;
    for (uint32_t v = source.begin; v < source.end; ++v) uses[v] += ptr[v + 1] - ptr[v];
  }
  std::vector<uint32_t> order(source.end - source.begin);
  std::iota(order.begin(), order.end(), source.begin);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return uses[a] > uses[b]; });
  uint64_t load[kClasses] = {};
  uint32_t used[kClasses] = {};
  const uint32_t room = slab_rows / kClasses - 1;
  for (const uint32_t v : order) {
    uint32_t best = kClasses;
    for (uint32_t c = 0; c < kClasses; ++c) {
      if (used[c] == room) continue;
      if (best == kClasses || load[c] < load[best] ||
          (load[c] == load[best] && used[c] < used[best])) {
        best = c;
      }
    }
    const uint32_t position = kClasses * used[best]++ + best;
    load[best] += uses[v];
    all.node_at[position] = uint16_t(v);
    all.place[v] = uint16_t(position);
  }
}

}  // namespace

void order_backward_panels(const GraphPlan& graph, std::vector<SlabSource>& sources) {
  std::stable_sort(sources.begin(), sources.end(), [&](const SlabSource& a, const SlabSource& b) {
    return graph.edge_count(a.type) < graph.edge_count(b.type);
  });
  if (sources.size() > 4) {
    std::rotate(sources.begin() + sources.size() / 3, sources.begin() + sources.size() / 3 + 1,
                sources.end());
  }
  if (sources.empty()) sources.push_back({false, 0, 0, 0, true});
  sources.front().all_lines = sources.back().all_lines = true;
}

SlabLines list_slab_lines(const GraphPlan& graph, const SlabSource& source, uint32_t slab_rows) {
  SlabLines all;
  all.node_at.assign(slab_rows, kNoNode);
  all.place.assign(graph.node_count(), kNoNode);
  if (graph.type_count() == 0) return all;
  place_nodes(graph, source, slab_rows, all);
  const uint32_t first = source.forward ? 0 : source.type;
  const uint32_t last = source.forward ? graph.type_count() : source.type + 1;
  const bool wide = graph.index_bytes() == 4;
  std::vector<std::pair<uint16_t, uint32_t>> row;  // position, edge
  for (uint32_t t = first; t < last; ++t) {
    const CsrView csr = source.forward ? graph.by_target(t) : graph.by_source(t);
    for (uint32_t v = 0; v < graph.node_count(); ++v) {
      row.clear();
      for (uint32_t i = csr.ptr[v]; i < csr.ptr[v + 1]; ++i) {
        const uint32_t u = wide ? static_cast<const uint32_t*>(csr.neighbour)[i]
                                : static_cast<const uint16_t*>(csr.neighbour)[i];
        if (all.place[u] == kNoNode) continue;
        row.emplace_back(all.place[u], uint32_t(graph.first_edge(t) + csr.edge[i]));
      }
      const uint16_t own = all.place[v] != kNoNode ? all.place[v] : uint16_t(slab_rows - 1);
      if (row.empty() && all.place[v] == kNoNode && !source.all_lines) continue;
      std::sort(row.begin(), row.end());
      const uint32_t name = v | (source.forward ? t << 16 : 0);
      all.lines.push_back({name, own, uint32_t(all.neighbours.size()), uint32_t(row.size())});
      for (size_t i = 0; i < row.size(); ++i) {
        const bool again = i > 0 && row[i].first == row[i - 1].first;
        const auto repeat = uint16_t(again ? all.neighbours.back().repeat + 1 : 0);
        all.neighbours.push_back({row[i].first, repeat, row[i].second});
      }
    }
  }
  std::stable_sort(all.lines.begin(), all.lines.end(),
                   [](const SlabLine& a, const SlabLine& b) { return a.count > b.count; });
  return all;
}

std::vector<SlabRun> cut_into_tasks(const std::vector<uint32_t>& lengths, uint32_t length,
                                    uint32_t most) {
  std::vector<SlabRun> tasks;
  size_t alone = 0;
  for (size_t i = 0; i < lengths.size();) {
    uint32_t sum = 0;
    size_t k = i;
    while (k < lengths.size() && sum < length && k < i + most) sum += lengths[k++];
    if (k == i + 1 && alone == tasks.size()) ++alone;
    tasks.push_back({i, k});
    i = k;
  }
  Random random(7);
  for (size_t i = tasks.size(); i > alone + 1; --i) {
    std::swap(tasks[i - 1], tasks[alone + random.below(i - alone)]);
  }
  return tasks;
}

}  // namespace lacuna
