#include "lacuna/ops/slab/slab_making.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

using namespace slab;

constexpr uint32_t kPerClass = kSlots / kClasses;  // slots of one class in a step
constexpr uint32_t kTaskGathers = 1024;            // a task has about this many, or one chunk
constexpr uint32_t kTaskChunks = 4;
constexpr uint32_t kStepCost = 8, kChunkCost = 24, kTaskCost = 16;  // in reads of 128 bytes
constexpr uint32_t kParts = 16;  // lines of a large panel are chunked in this many lots

struct Chunk {
  std::vector<uint32_t> lines;  // at most 16
  uint32_t steps;
};

// Chunks of lines [begin, end): the longest line left, then 15 from the next `window` that keep the
// fullest class lowest for the edges they bring.
std::vector<Chunk> fill_chunks(const SlabLines& all, uint32_t begin, uint32_t end, uint32_t window,
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
          const SlabLine& line = all.lines[left[i]];
          uint32_t would[kClasses];
          std::copy(filled, filled + kClasses, would);
          const SlabNeighbour* nb = all.neighbours.data() + line.first;
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
      const SlabLine& line = all.lines[left[best]];
      for (uint32_t k = line.first; k < line.first + line.count; ++k) {
        const SlabNeighbour nb = all.neighbours[k];
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
      const SlabLine& line = all.lines[l];
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
void arrange_lines(const SlabLines& all, Chunk& chunk) {
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

// Writes chunks one after another.
class Writer {
 public:
  Writer(const SlabLines& all, uint32_t slab_rows, SlabPanel& panel)
      : all_(all), slab_rows_(slab_rows), panel_(panel), copies_(slab_rows) {}

  void begin_task() {
    panel_.tasks.push_back(
        {uint32_t(panel_.units.size() / kUnitBytes), uint32_t(panel_.lines.size() / kLines)});
    panel_.cost.push_back(kTaskCost);
  }

  void write(const Chunk& chunk, bool last) {
    std::vector<Slot> slots[kClasses];
    collect(chunk, slots);
    panel_.heads.push_back(chunk.steps | (last ? kHeadLast : 0));
    const size_t first = panel_.units.size(), units = (chunk.steps + kSteps - 1) / kSteps;
    panel_.units.resize(first + units * kUnitBytes);
    for (uint32_t s = 0; s < units * kSteps; ++s) {
      std::byte* unit = panel_.units.data() + first + s / kSteps * kUnitBytes;
      for (uint32_t k = 0; k < kSlots; ++k) write_slot(unit, s % kSteps, k, slots[k & 7], s);
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
        const SlabNeighbour nb = all_.neighbours[k];
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
      const SlabLine& line = all_.lines[chunk.lines[n]];
      for (uint32_t k = line.first; k < line.first + line.count; ++k) {
        const SlabNeighbour nb = all_.neighbours[k];
        slots[nb.position & 7][copies_[nb.position] + nb.repeat].lines |= uint16_t(1u << n);
      }
    }
    for (const uint16_t position : touched) copies_[position] = 0;
  }

  // Slot k of step `in` of a unit. A lane of the kernel holds the bits of lines lane / 4 and lane /
  // 4 + 8, slots with the same (k & 7) / 2 as lane & 3, in the order in which the tensor core wants
  // them.
  void write_slot(std::byte* unit, uint32_t in, uint32_t k, const std::vector<Slot>& list,
                  uint32_t step) {
    auto* ids = reinterpret_cast<uint16_t*>(unit);
    auto* bits = reinterpret_cast<uint32_t*>(unit + kSlots * kSteps * 2);
    const size_t e = size_t(kPerClass) * step + (k >> 3);
    const uint32_t position = e < list.size() ? list[e].position : slab_rows_ - kClasses + (k & 7);
    ids[k * kSteps + in] = uint16_t(position / kClasses);
    if (e >= list.size()) return;
    for (uint32_t n = 0; n < kLines; ++n) {
      if ((list[e].lines >> n & 1) == 0) continue;
      const uint32_t lane = (n & 7) * 4 + (k & 7) / 2, word = (n >> 3) + 2 * (k >> 3 & 1);
      bits[lane * 4 + word] |= 1u << (15 - 2 * in - (k >> 4) + (k & 1) * 16);
    }
  }

  const SlabLines& all_;
  uint32_t slab_rows_;
  SlabPanel& panel_;
  std::vector<uint32_t> copies_;
};

// Longest chunks first.
SlabPanel write_chunks(const SlabLines& all, std::vector<Chunk>& chunks, uint32_t slab_rows) {
  std::stable_sort(chunks.begin(), chunks.end(),
                   [](const Chunk& a, const Chunk& b) { return a.steps > b.steps; });
  std::vector<uint32_t> lengths;
  for (const Chunk& chunk : chunks) lengths.push_back((chunk.steps + 2) * kSlots);
  SlabPanel panel;
  Writer writer(all, slab_rows, panel);
  for (const SlabRun& task : cut_into_tasks(lengths, kTaskGathers, kTaskChunks)) {
    writer.begin_task();
    for (size_t i = task.begin; i < task.end; ++i) {
      arrange_lines(all, chunks[i]);
      writer.write(chunks[i], i + 1 == task.end);
    }
  }
  return panel;
}

}  // namespace

std::vector<SlabPanel> make_slab_chunks(const std::vector<SlabLines>& lines, uint32_t slab_rows,
                                        int threads) {
  // Chunks, in lots of about equally many edges.
  struct Lot {
    size_t panel;
    uint32_t begin, end;
  };
  std::vector<Lot> lots;
  uint64_t edges = 0;
  for (size_t p = 0; p < lines.size(); ++p) {
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
  std::vector<SlabPanel> panels(lines.size());
  parallel_for(lines.size(), threads, [&](uint64_t p) {
    std::vector<Chunk> chunks;
    for (size_t i = 0; i < lots.size(); ++i) {
      if (lots[i].panel != p) continue;
      std::move(made[i].begin(), made[i].end(), std::back_inserter(chunks));
    }
    panels[p] = write_chunks(lines[p], chunks, slab_rows);
  });
  return panels;
}

}  // namespace lacuna
