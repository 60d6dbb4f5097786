#include "lacuna/store/zarr/zarr_array.h"

#include <algorithm>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

// Calls f(at) for every place of a box, first <= at < last, the last axis fastest.
template <class F>
void for_each_place(const Shape& first, const Shape& last, F&& f) {
  for (size_t i = 0; i < first.size(); ++i)
    if (first[i] >= last[i]) return;
  Shape at = first;
  for (;;) {
    f(at);
    size_t axis = at.size();
    while (axis-- > 0) {
      if (++at[axis] < last[axis]) break;
      at[axis] = first[axis];
    }
    if (axis == size_t(-1)) return;
  }
}

uint64_t number_of(const Shape& at, const Shape& grid) {
  uint64_t number = 0;
  for (size_t i = 0; i < at.size(); ++i) number = number * grid[i] + at[i];
  return number;
}

}  // namespace

// One inner chunk and the part of it that is wanted.
struct ZarrArray::Block {
  const Chunk* chunk;
  uint64_t entry;      // in chunk->entries
  Shape begin;         // of the inner chunk, in the array
  Shape first, last;   // the part, in the array
  uint64_t first_row;  // of out
};

ZarrArray::ZarrArray(const fs::path& folder, int threads)
    : metadata_(read_zarr_metadata(folder)), threads_(threads) {}

uint64_t ZarrArray::row_bytes() const {
  uint64_t bytes = metadata_.item_bytes();
  for (size_t i = 1; i < metadata_.shape.size(); ++i) bytes *= metadata_.shape[i];
  return bytes;
}

const ZarrArray::Chunk& ZarrArray::find_chunk(const Shape& at) {
  const auto [place, is_new] = chunks_.try_emplace(at);
  Chunk& chunk = place->second;
  if (!is_new) return chunk;
  chunk.file = metadata_.file(at);
  if (!fs::exists(chunk.file)) return chunk;
  if (metadata_.is_sharded)
    chunk.entries = read_shard_index(metadata_, OpenFile(chunk.file));
  else
    chunk.entries = {{0, fs::file_size(chunk.file)}};
  return chunk;
}

void ZarrArray::read_block(const Block& block, std::span<std::byte> out) const {
  const size_t dimensions = metadata_.shape.size();
  const uint64_t item = metadata_.item_bytes();
  thread_local std::vector<std::byte> packed, elements, step;
  elements.resize(metadata_.inner_bytes());
  const auto& entries = block.chunk->entries;
  const ShardEntry entry = entries.empty() ? ShardEntry() : entries[block.entry];
  if (entries.empty() || (metadata_.is_sharded && entry.bytes == 0)) {
    fill_with(metadata_.fill, elements);
  } else {
    const OpenFile file(block.chunk->file);
    packed.resize(entry.bytes);
    file.read(entry.offset, packed);
    try {
      decode_chunk(metadata_.codecs, packed, metadata_.inner, item, elements, step);
    } catch (const Error& error) {
      throw Error(
          "{}: the chunk of rows {} to {}{} does not unpack: {}; it was damaged or cut "
          "short: copy it again",
          file.path().string(), block.begin[0],
          std::min(block.begin[0] + metadata_.inner[0], metadata_.shape[0]) - 1,
          metadata_.is_sharded ? fmt::format(" (inner chunk {})", block.entry) : "", error.what());
    }
  }
  // Line by line along the last axis.
  Shape last = block.last;
  last[dimensions - 1] = block.first[dimensions - 1] + 1;
  const uint64_t line = (block.last[dimensions - 1] - block.first[dimensions - 1]) * item;
  for_each_place(block.first, last, [&](const Shape& at) {
    uint64_t from = 0, to = at[0] - block.first_row;
    for (size_t i = 0; i < dimensions; ++i) {
      from = from * metadata_.inner[i] + at[i] - block.begin[i];
      if (i > 0) to = to * metadata_.shape[i] + at[i];
    }
    std::memcpy(out.data() + to * item, elements.data() + from * item, line);
  });
}

void ZarrArray::read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out) {
  LACUNA_ASSERT(begin <= end && end <= rows() && out.size() == (end - begin) * row_bytes());
  if (out.empty()) return;
  const Shape& inner = metadata_.inner;
  const Shape inner_grid = metadata_.inner_grid();
  std::erase_if(chunks_,
                [&](const auto& chunk) { return chunk.first[0] != begin / metadata_.chunk[0]; });
  Shape wanted_first(metadata_.shape.size(), 0), wanted_last = metadata_.shape;
  wanted_first[0] = begin, wanted_last[0] = end;
  Shape first = wanted_first, last = wanted_last;
  for (size_t i = 0; i < inner.size(); ++i) {
    first[i] /= inner[i];
    last[i] = (last[i] - 1) / inner[i] + 1;
  }
  std::vector<Block> blocks;
  for_each_place(first, last, [&](const Shape& at) {
    Block block = {
        .chunk = nullptr, .entry = 0, .begin = at, .first = at, .last = at, .first_row = begin};
    Shape chunk_at = at, within = at;
    for (size_t i = 0; i < at.size(); ++i) {
      chunk_at[i] = at[i] / inner_grid[i];
      within[i] = at[i] % inner_grid[i];
      block.begin[i] = at[i] * inner[i];
      block.first[i] = std::max(block.begin[i], wanted_first[i]);
      block.last[i] = std::min(block.begin[i] + inner[i], wanted_last[i]);
    }
    block.chunk = &find_chunk(chunk_at);
    block.entry = number_of(within, inner_grid);
    blocks.push_back(std::move(block));
  });
  parallel_for(blocks.size(), threads_, [&](uint64_t i) { read_block(blocks[i], out); });
}

}  // namespace lacuna
