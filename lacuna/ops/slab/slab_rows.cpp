#include "lacuna/ops/slab/slab_making.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

using namespace slab;

constexpr uint32_t kQuarter = 4;        // lines that read together, and classes that they may read
constexpr uint32_t kLongest = 128;      // neighbours a line of a chunk takes before a row is folded
constexpr uint32_t kWindow = 64;        // lines among which a quarter's next one is looked for
constexpr uint32_t kRowTaskSteps = 96;  // a task has about this many, or one chunk
constexpr uint32_t kRowTaskChunks = 8;
constexpr uint32_t kRowStepCost = 5, kRowChunkCost = 16, kRowTaskCost = 8;  // in reads of 128 bytes

struct RowChunk {
  std::vector<uint32_t> lines;  // kLines >> fold, by quarters; kNoLine where there are no more
  uint32_t fold;                // log2 of the chunk's lines that a row takes
  uint32_t steps;
};

uint32_t fold_of(uint32_t count) {
  uint32_t fold = 0;
  while (fold < 4 && count > kLongest << fold) ++fold;
  return fold;
}

using ClassCounts = std::array<uint32_t, kQuarter>;
ClassCounts count_classes(const SlabLines& all, uint32_t line) {
  ClassCounts counts = {};
  const SlabLine& l = all.lines[line];
  for (uint32_t k = l.first; k < l.first + l.count; ++k) {
    ++counts[all.neighbours[k].position % kQuarter];
  }
  return counts;
}

// Chunks of lines [begin, end), which are not folded: the longest line left, then for every quarter
// those of the next few that keep its classes even and are long.
void fill_chunks(const SlabLines& all, uint32_t begin, uint32_t end,
                 std::vector<RowChunk>& chunks) {
  std::vector<ClassCounts> classes;
  for (uint32_t i = begin; i < end; ++i) classes.push_back(count_classes(all, i));
  std::vector<uint32_t> left(end - begin);
  std::iota(left.begin(), left.end(), begin);
  std::reverse(left.begin(), left.end());  // the longest is the last one, where taking is cheap
  while (!left.empty()) {
    RowChunk chunk = {{}, 0, std::max(1u, all.lines[left.back()].count)};
    for (uint32_t q = 0; q < kLines / kQuarter; ++q) {
      ClassCounts filled = {};
      for (uint32_t n = 0; n < kQuarter; ++n) {
        if (left.empty()) {
          chunk.lines.push_back(kNoLine);
          continue;
        }
        size_t best = left.size() - 1;
        double least = 1e30;
        const size_t tried = n == 0 ? 1 : std::min<size_t>(kWindow, left.size());
        for (size_t k = 1; k <= tried; ++k) {
          const uint32_t line = left[left.size() - k];
          uint32_t most = 0;
          for (uint32_t c = 0; c < kQuarter; ++c) {
            most = std::max(most, filled[c] + classes[line - begin][c]);
          }
          const double over = std::max(0.0, most - 0.25 * (n + 1) * chunk.steps);
          const double cost = over - 0.25 * all.lines[line].count;
          if (cost < least) {
            least = cost;
            best = left.size() - k;
          }
        }
        for (uint32_t c = 0; c < kQuarter; ++c) filled[c] += classes[left[best] - begin][c];
        chunk.lines.push_back(left[best]);
        left.erase(left.begin() + std::ptrdiff_t(best));
      }
    }
    chunks.push_back(std::move(chunk));
  }
}

std::vector<RowChunk> make_chunks(const SlabLines& all) {
  std::vector<RowChunk> chunks;
  const uint32_t count = uint32_t(all.lines.size());
  uint32_t i = 0;
  while (i < count && fold_of(all.lines[i].count) > 0) {
    RowChunk chunk = {{}, fold_of(all.lines[i].count), 0};
    const uint32_t parts = 1u << chunk.fold;
    chunk.steps = (all.lines[i].count + parts - 1) / parts;
    while (chunk.lines.size() < kLines >> chunk.fold && i < count &&
           fold_of(all.lines[i].count) == chunk.fold) {
      chunk.lines.push_back(i++);
    }
    chunk.lines.resize(kLines >> chunk.fold, kNoLine);
    chunks.push_back(std::move(chunk));
  }
  fill_chunks(all, i, count, chunks);
  std::stable_sort(chunks.begin(), chunks.end(),
                   [](const RowChunk& a, const RowChunk& b) { return a.steps > b.steps; });
  return chunks;
}

// What one line of a chunk reads, by class.
struct Queue {
  std::vector<SlabNeighbour> of[kQuarter];
  uint32_t left = 0;
};

// The slots of a quarter, step by step: which class each line reads next. Lines and classes that
// have most left go first; no two lines read the same class unless a line must read now and nothing
// else is left for it.
class Quarter {
 public:
  explicit Quarter(Queue* lines) : lines_(lines) {
    for (uint32_t n = 0; n < kQuarter; ++n) {
      for (uint32_t c = 0; c < kQuarter; ++c) left_[c] += uint32_t(lines_[n].of[c].size());
    }
  }
  // For each line a neighbour, or none and the class of the zero row to read.
  struct Slot {
    const SlabNeighbour* neighbour;
    uint32_t zero_class;
  };
  std::array<Slot, kQuarter> next(uint32_t steps_left) {
    std::array<uint32_t, kQuarter> order = {0, 1, 2, 3}, best = order;
    uint64_t most = 0;
    do {
      uint64_t score = 0;
      for (uint32_t n = 0; n < kQuarter; ++n) {
        if (lines_[n].of[order[n]].empty()) continue;
        score += 1 + lines_[n].left + left_[order[n]];
        if (lines_[n].left >= steps_left) score += uint64_t(1) << 32;
      }
      if (score > most) {
        most = score;
        best = order;
      }
    } while (std::next_permutation(order.begin(), order.end()));
    std::array<Slot, kQuarter> slots;
    for (uint32_t n = 0; n < kQuarter; ++n) {
      uint32_t c = best[n];
      if (lines_[n].of[c].empty() && lines_[n].left >= steps_left) {
        for (uint32_t k = 0; k < kQuarter; ++k) {
          if (lines_[n].of[k].size() > lines_[n].of[c].size()) c = k;
        }
      }
      slots[n] = {take(n, c), best[n]};
    }
    return slots;
  }

 private:
  const SlabNeighbour* take(uint32_t n, uint32_t c) {
    auto& list = lines_[n].of[c];
    if (list.empty()) return nullptr;
    taken_[n] = list.back();
    list.pop_back();
    --lines_[n].left;
    --left_[c];
    return &taken_[n];
  }

  Queue* lines_;
  SlabNeighbour taken_[kQuarter];
  uint32_t left_[kQuarter] = {};
};

void write_chunk(const SlabLines& all, const RowChunk& chunk, bool last, uint32_t slab_rows,
                 SlabPanel& panel) {
  Queue queues[kLines];
  const uint32_t parts = 1u << chunk.fold;
  for (uint32_t n = 0; n < kLines; ++n) {
    const uint32_t l = chunk.lines[n / parts];
    const bool first = l != kNoLine && n % parts == 0;
    panel.lines.push_back(first ? all.lines[l].name : kNoLine);
    panel.own.push_back(first ? all.lines[l].own : uint16_t(slab_rows - 1));
    if (!first) continue;
    // A folded row's neighbours are dealt out class by class.
    uint32_t dealt = 0;
    for (uint32_t c = 0; c < kQuarter; ++c) {
      for (uint32_t k = all.lines[l].first; k < all.lines[l].first + all.lines[l].count; ++k) {
        if (all.neighbours[k].position % kQuarter != c) continue;
        Queue& queue = queues[n + dealt++ % parts];
        queue.of[c].push_back(all.neighbours[k]);
        ++queue.left;
      }
    }
  }
  panel.heads.push_back(chunk.steps | chunk.fold << kHeadFoldAt | (last ? kHeadLast : 0));
  const uint32_t units = (chunk.steps + kSteps - 1) / kSteps;
  const size_t at = panel.units.size() / kRowUnitBytes;
  panel.units.resize((at + units) * kRowUnitBytes);
  panel.edges.resize((at + units) * kRowUnitSlots, kNoEdge);
  auto* ids = reinterpret_cast<uint16_t*>(panel.units.data() + at * kRowUnitBytes);
  uint32_t* edges = panel.edges.data() + at * kRowUnitSlots;
  for (uint32_t q = 0; q < kLines / kQuarter; ++q) {
    Quarter quarter(queues + q * kQuarter);
    for (uint32_t s = 0; s < units * kSteps; ++s) {
      const auto slots = quarter.next(s < chunk.steps ? chunk.steps - s : 1);
      for (uint32_t n = 0; n < kQuarter; ++n) {
        const size_t slot =
            size_t(s / kSteps) * kRowUnitSlots + (q * kQuarter + n) * kSteps + s % kSteps;
        const auto [neighbour, zero_class] = slots[n];
        ids[slot] = neighbour ? neighbour->position : uint16_t(slab_rows - kClasses + zero_class);
        if (neighbour) edges[slot] = neighbour->edge;
        LACUNA_ASSERT(neighbour == nullptr || s < chunk.steps);
      }
    }
  }
  panel.cost.back() += kRowStepCost * chunk.steps + kRowChunkCost;
  panel.gathers += uint64_t(kLines) * chunk.steps;
}

SlabPanel write_panel(const SlabLines& all, uint32_t slab_rows) {
  const std::vector<RowChunk> chunks = make_chunks(all);
  std::vector<uint32_t> lengths;
  for (const RowChunk& chunk : chunks) lengths.push_back(chunk.steps + 4);
  SlabPanel panel;
  for (const SlabRun& task : cut_into_tasks(lengths, kRowTaskSteps, kRowTaskChunks)) {
    panel.tasks.push_back(
        {uint32_t(panel.units.size() / kRowUnitBytes), uint32_t(panel.heads.size())});
    panel.cost.push_back(kRowTaskCost);
    for (size_t i = task.begin; i < task.end; ++i) {
      write_chunk(all, chunks[i], i + 1 == task.end, slab_rows, panel);
    }
  }
  return panel;
}

}  // namespace

std::vector<SlabPanel> make_slab_rows(const std::vector<SlabLines>& lines, uint32_t slab_rows,
                                      int threads) {
  std::vector<SlabPanel> panels(lines.size());
  parallel_for(lines.size(), threads,
               [&](uint64_t p) { panels[p] = write_panel(lines[p], slab_rows); });
  return panels;
}

}  // namespace lacuna
