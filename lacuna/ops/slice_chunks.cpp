#include "lacuna/ops/slice_chunks.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/threads.h"

namespace lacuna {
namespace {

using namespace slice;

constexpr uint32_t kPerClass = kSlots / kClasses;  // slots of one class in a step
constexpr uint32_t kTaskGathers = 512;             // a task has about this many, or one chunk
constexpr uint32_t kTaskChunks = 4;
constexpr uint32_t kStepCost = 8, kChunkCost = 24, kTaskCost = 16;  // in reads of 128 bytes
constexpr uint32_t kParts = 16;  // lines of a large panel are chunked in this many lots

// A neighbour of a line: its slab position, and which of its repeats in the line it is (from 0).
struct Neighbour {
  uint16_t position, repeat;
};
struct Line {
  uint32_t name;  // node | type << 16
  uint16_t own;
  uint32_t first, count;  // in PanelLines::neighbours
};
struct PanelLines {
  std::vector<Line> lines;  // longest first
  std::vector<Neighbour> neighbours;
};
struct Chunk {
  std::vector<uint32_t> lines;  // at most 16
  uint32_t steps;
};

// The slab: hubs are dealt to the class that has served the fewest edges so far.
void place_nodes(const GraphPlan& graph, const SliceSource& source, uint32_t slab_rows,
                 SlicePanel& panel) {
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
  panel.node_at.assign(slab_rows, kNoNode);
  panel.place.assign(graph.node_count(), kNoNode);
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
    panel.node_at[position] = uint16_t(v);
    panel.place[v] = uint16_t(position);
  }
}

PanelLines list_lines(const GraphPlan& graph, const SliceSource& source, uint32_t slab_rows,
                      const SlicePanel& panel) {
  PanelLines all;
  const uint32_t first = source.forward ? 0 : source.type;
  const uint32_t last = source.forward ? graph.type_count() : source.type + 1;
  const bool wide = graph.index_bytes() == 4;
  std::vector<uint16_t> row;
  for (uint32_t t = first; t < last; ++t) {
    const CsrView csr = source.forward ? graph.by_target(t) : graph.by_source(t);
    for (uint32_t v = 0; v < graph.node_count(); ++v) {
      row.clear();
      for (uint32_t i = csr.ptr[v]; i < csr.ptr[v + 1]; ++i) {
        const uint32_t u = wide ? static_cast<const uint32_t*>(csr.neighbour)[i]
                                : static_cast<const uint16_t*>(csr.neighbour)[i];
        if (panel.place[u] != kNoNode) row.push_back(panel.place[u]);
      }
      const uint16_t own = panel.place[v] != kNoNode ? panel.place[v] : uint16_t(slab_rows - 1);
      if (row.empty() && panel.place[v] == kNoNode && !source.all_lines) continue;
      std::sort(row.begin(), row.end());
      const uint32_t name = v | (source.forward ? t << 16 : 0);
      all.lines.push_back({name, own, uint32_t(all.neighbours.size()), uint32_t(row.size())});
      for (size_t i = 0; i < row.size(); ++i) {
        const bool again = i > 0 && row[i] == row[i - 1];
        all.neighbours.push_back({row[i], uint16_t(again ? all.neighbours.back().repeat + 1 : 0)});
      }
    }
  }
  std::stable_sort(all.lines.begin(), all.lines.end(),
                   [](const Line& a, const Line& b) { return a.count > b.count; });
  return all;
}

// Chunks of lines [begin, end): the longest line left, then 15 from the next `window` that keep the
// fullest class lowest for the edges they bring.
std::vector<Chunk> fill_chunks(const PanelLines& all, uint32_t begin, uint32_t end, uint32_t window,
                               uint32_t slab_rows) {
  std::vector<Chunk> chunks;
  std::vector<uint32_t> left(end - begin);
  std::iota(left.begin(), left.end(), begin);
  std::vector<uint16_t> have(slab_rows);  // copies of a node that the chunk gathers
  uint32_t start = 0;                     // left[start..] are left, but for those taken (kNoLine)
  while (start < left.size()) {
    Chunk chunk;
    uint32_t filled[kClasses] = {}, edges = 0;
    for (uint32_t n = 0; n < kLines; ++n) {
      while (start < left.size() && left[start] == kNoLine) ++start;
      if (start == left.size()) break;
      uint32_t best = start;
      if (n > 0) {
        double least = 1e30;
        uint32_t tried = 0;
        for (uint32_t i = start; i < left.size() && tried < window; ++i) {
          if (left[i] == kNoLine) continue;
          ++tried;
          const Line& line = all.lines[left[i]];
          uint32_t would[kClasses];
          std::copy(filled, filled + kClasses, would);
          const Neighbour* nb = all.neighbours.data() + line.first;
          for (uint32_t k = 0; k < line.count; ++k) {
            would[nb[k].position & 7] += nb[k].repeat >= have[nb[k].position];
          }
          const double cost = double(*std::max_element(would, would + kClasses)) -
                              double(edges + line.count) / kClasses;
          if (cost < least) {
            least = cost;
            best = i;
          }
        }
      }
      const Line& line = all.lines[left[best]];
      for (uint32_t k = line.first; k < line.first + line.count; ++k) {
        const Neighbour nb = all.neighbours[k];
        if (nb.repeat >= have[nb.position]) {
          have[nb.position] = uint16_t(nb.repeat + 1);
          ++filled[nb.position & 7];
        }
      }
      edges += line.count;
      chunk.lines.push_back(left[best]);
      left[best] = kNoLine;
    }
    for (const uint32_t l : chunk.lines) {
      const Line& line = all.lines[l];
      for (uint32_t k = line.first; k < line.first + line.count; ++k) {
        have[all.neighbours[k].position] = 0;
      }
    }
    const uint32_t most = *std::max_element(filled, filled + kClasses);
    chunk.steps = std::max(1u, (most + kPerClass - 1) / kPerClass);
    chunks.push_back(std::move(chunk));
    // Taken lines near the front are skipped over; keep the list short so that the window is a
    // short walk.
    if (chunks.size() % 64 == 0) {
      left.erase(std::remove(left.begin() + start, left.end(), kNoLine), left.end());
      left.erase(left.begin(), left.begin() + start);
      start = 0;
    }
  }
  return chunks;
}

// Lines of one class alternate between the two halves of a chunk, so that reading their own rows
// meets few bank conflicts.
void arrange_lines(const PanelLines& all, Chunk& chunk) {
  std::stable_sort(chunk.lines.begin(), chunk.lines.end(), [&](uint32_t a, uint32_t b) {
    return (all.lines[a].own & 7) < (all.lines[b].own & 7);
  });
  std::vector<uint32_t> placed(kLines, kNoLine);
  uint32_t filled[2] = {}, seen[kClasses] = {};
  for (const uint32_t l : chunk.lines) {
    uint32_t half = seen[all.lines[l].own & 7]++ & 1;
    if (filled[half] == 8) half ^= 1;
    placed[8 * half + filled[half]++] = l;
  }
  chunk.lines = std::move(placed);
}

// Writes chunks one after another into units.
class Writer {
 public:
  Writer(const PanelLines& all, uint32_t slab_rows, SlicePanel& panel)
      : all_(all), slab_rows_(slab_rows), panel_(panel), copies_(slab_rows) {}

  void begin_task() {
    panel_.tasks.push_back(
        {uint32_t(panel_.units.size() / kUnitBytes), uint32_t(panel_.lines.size() / kLines)});
    panel_.cost.push_back(kTaskCost);
    step_ = 0;
  }

  void write(const Chunk& chunk, bool task_ends) {
    std::vector<Slot> slots[kClasses];
    collect(chunk, slots);
    for (uint32_t s = 0; s < chunk.steps; ++s) {
      const uint32_t in = step_++ % kSteps;
      if (in == 0) panel_.units.resize(panel_.units.size() + kUnitBytes);
      std::byte* unit = panel_.units.data() + panel_.units.size() - kUnitBytes;
      const bool ends = s + 1 == chunk.steps;
      const uint32_t flags = ends ? kChunkEnds | (task_ends ? kTaskEnds : 0) : 0;
      for (uint32_t k = 0; k < kSlots; ++k) write_slot(unit, in, k, flags, slots[k & 7], s);
    }
    panel_.cost.back() += kStepCost * chunk.steps + kChunkCost;
    panel_.gathers += uint64_t(kSlots) * chunk.steps;
  }

 private:
  struct Slot {
    uint16_t position;
    uint16_t lines;  // bit n: line n has it
  };

  // The chunk's neighbours, by class: copy z of a node serves the lines that have it more than z
  // times.
  void collect(const Chunk& chunk, std::vector<Slot> (&slots)[kClasses]) {
    std::vector<uint16_t> touched;
    for (const uint32_t l : chunk.lines) {
      panel_.lines.push_back(l == kNoLine ? kNoLine : all_.lines[l].name);
      panel_.own.push_back(l == kNoLine ? uint16_t(slab_rows_ - 1) : all_.lines[l].own);
      if (l == kNoLine) continue;
      for (uint32_t k = all_.lines[l].first; k < all_.lines[l].first + all_.lines[l].count; ++k) {
        const Neighbour nb = all_.neighbours[k];
        if (copies_[nb.position] == 0) touched.push_back(nb.position);
        copies_[nb.position] = std::max<uint32_t>(copies_[nb.position], nb.repeat + 1u);
      }
    }
    std::sort(touched.begin(), touched.end());
    for (const uint16_t position : touched) {
      auto& list = slots[position & 7];
      const uint32_t count = copies_[position];
      copies_[position] = uint32_t(list.size());  // from now on: where its copies stand
      for (uint32_t z = 0; z < count; ++z) list.push_back({position, 0});
    }
    for (uint32_t n = 0; n < kLines; ++n) {
      if (chunk.lines[n] == kNoLine) continue;
      const Line& line = all_.lines[chunk.lines[n]];
      for (uint32_t k = line.first; k < line.first + line.count; ++k) {
        const Neighbour nb = all_.neighbours[k];
        slots[nb.position & 7][copies_[nb.position] + nb.repeat].lines |= uint16_t(1u << n);
      }
    }
    for (const uint16_t position : touched) copies_[position] = 0;
  }

  // Slot k of step `in` of a unit. A lane of the kernel holds the bits of lines lane / 4 and lane /
  // 4 + 8, slots with the same (k & 7) / 2 as lane & 3, in the order in which the tensor core wants
  // them.
  void write_slot(std::byte* unit, uint32_t in, uint32_t k, uint32_t flags,
                  const std::vector<Slot>& list, uint32_t step) {
    auto* ids = reinterpret_cast<uint16_t*>(unit);
    auto* bits = reinterpret_cast<uint32_t*>(unit + kSlots * kSteps * 2);
    const size_t e = size_t(kPerClass) * step + (k >> 3);
    const uint32_t position = e < list.size() ? list[e].position : slab_rows_ - kClasses + (k & 7);
    ids[k * kSteps + in] = uint16_t(position / kClasses | flags);
    if (e >= list.size()) return;
    for (uint32_t n = 0; n < kLines; ++n) {
      if ((list[e].lines >> n & 1) == 0) continue;
      const uint32_t lane = (n & 7) * 4 + (k & 7) / 2, word = (n >> 3) + 2 * (k >> 3 & 1);
      bits[lane * 4 + word] |= 1u << (15 - 2 * in - (k >> 4) + (k & 1) * 16);
    }
  }

  const PanelLines& all_;
  uint32_t slab_rows_;
  SlicePanel& panel_;
  std::vector<uint32_t> copies_;
  uint32_t step_ = 0;
};

// Tasks: runs of chunks; long ones first, the others in shuffled order, so that short chunks spread
// over time.
void write_tasks(const PanelLines& all, std::vector<Chunk>& chunks, uint32_t slab_rows,
                 SlicePanel& panel) {
  std::stable_sort(chunks.begin(), chunks.end(),
                   [](const Chunk& a, const Chunk& b) { return a.steps > b.steps; });
  struct Run {
    size_t begin, end;
  };
  std::vector<Run> tasks;
  size_t alone = 0;
  for (size_t i = 0; i < chunks.size();) {
    uint32_t gathers = 0;
    size_t k = i;
    while (k < chunks.size() && gathers < kTaskGathers && k < i + kTaskChunks) {
      gathers += chunks[k++].steps * kSlots + 2 * kSlots;
    }
    if (k == i + 1 && alone == tasks.size()) ++alone;
    tasks.push_back({i, k});
    i = k;
  }
  Random random(7);
  for (size_t i = tasks.size(); i > alone + 1; --i) {
    std::swap(tasks[i - 1], tasks[alone + random.below(i - alone)]);
  }
  Writer writer(all, slab_rows, panel);
  for (const Run& task : tasks) {
    writer.begin_task();
    for (size_t i = task.begin; i < task.end; ++i) {
      arrange_lines(all, chunks[i]);
      writer.write(chunks[i], i + 1 == task.end);
    }
  }
}

}  // namespace

void order_backward_panels(const GraphPlan& graph, std::vector<SliceSource>& sources) {
  std::stable_sort(sources.begin(), sources.end(), [&](const SliceSource& a, const SliceSource& b) {
    return graph.edge_count(a.type) < graph.edge_count(b.type);
  });
  if (sources.size() > 4) {
    std::rotate(sources.begin() + sources.size() / 3, sources.begin() + sources.size() / 3 + 1,
                sources.end());
  }
  if (sources.empty()) sources.push_back({false, 0, 0, 0, true});
  sources.front().all_lines = sources.back().all_lines = true;
}

std::vector<SlicePanel> make_slice_panels(const GraphPlan& graph,
                                          const std::vector<SliceSource>& sources,
                                          uint32_t slab_rows, int threads) {
  std::vector<SlicePanel> panels(sources.size());
  std::vector<PanelLines> lines(sources.size());
  parallel_for(sources.size(), threads, [&](uint64_t p) {
    if (graph.type_count() == 0) {
      panels[p].node_at.assign(slab_rows, kNoNode);
      panels[p].place.assign(graph.node_count(), kNoNode);
      return;
    }
    place_nodes(graph, sources[p], slab_rows, panels[p]);
    lines[p] = list_lines(graph, sources[p], slab_rows, panels[p]);
    panels[p].edges = lines[p].neighbours.size();
  });
  // Chunks, in lots of about equally many edges.
  struct Lot {
    size_t panel;
    uint32_t begin, end;
  };
  std::vector<Lot> lots;
  uint64_t edges = 0;
  for (size_t p = 0; p < sources.size(); ++p) {
    const auto& all = lines[p].lines;
    const uint64_t share = lines[p].neighbours.size() / kParts + 4096;
    edges += lines[p].neighbours.size();
    uint32_t begin = 0;
    uint64_t in_lot = 0;
    for (uint32_t i = 0; i < all.size(); ++i) {
      in_lot += all[i].count;
      if ((in_lot >= share && (i + 1 - begin) % kLines == 0) || i + 1 == all.size()) {
        lots.push_back({p, begin, i + 1});
        begin = i + 1;
        in_lot = 0;
      }
    }
  }
  const uint32_t window =
      uint32_t(std::clamp<uint64_t>(1'500'000'000 / std::max<uint64_t>(edges, 1), 64, 512));
  std::vector<std::vector<Chunk>> made(lots.size());
  parallel_for(lots.size(), threads, [&](uint64_t i) {
    made[i] = fill_chunks(lines[lots[i].panel], lots[i].begin, lots[i].end, window, slab_rows);
  });
  parallel_for(sources.size(), threads, [&](uint64_t p) {
    std::vector<Chunk> chunks;
    for (size_t i = 0; i < lots.size(); ++i) {
      if (lots[i].panel != p) continue;
      std::move(made[i].begin(), made[i].end(), std::back_inserter(chunks));
    }
    write_tasks(lines[p], chunks, slab_rows, panels[p]);
  });
  return panels;
}

}  // namespace lacuna
