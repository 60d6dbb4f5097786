#include "lacuna/store/zarr/zarr_chunks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/store/zarr/read_at.h"
#include "lacuna/store/zarr/zarr_metadata.h"

namespace lacuna {
namespace {

constexpr uint64_t kMostShards = uint64_t(1) << 20;

// A shard, open as long as its array is; no file: all of it is fill value.
struct Shard {
  OpenFile file;
  std::vector<ShardEntry> entries;  // by inner chunk
};

Shard open_shard(const ZarrMetadata& metadata, const fs::path& path) {
  Shard shard;
  if (!fs::exists(path)) return shard;
  shard.file = OpenFile(path);
  shard.file.expect_random_reads();
  shard.entries = read_shard_index(metadata, shard.file);
  return shard;
}

}  // namespace

struct ZarrChunks::State {
  ZarrMetadata metadata;
  std::vector<Shard> shards;
  uint64_t rows_per_chunk = 0, chunks_per_shard = 0, chunks = 0;
  uint64_t row_bytes = 0, chunk_bytes = 0;
};

ZarrChunks::ZarrChunks(const fs::path& folder) {
  auto state = std::make_shared<State>();
  state->metadata = read_zarr_metadata(folder);
  const ZarrMetadata& metadata = state->metadata;
  bool has_whole_rows = metadata.is_sharded;
  for (size_t i = 1; i < metadata.shape.size(); ++i)
    has_whole_rows &=
        metadata.chunk[i] == metadata.shape[i] && metadata.inner[i] == metadata.chunk[i];
  if (!has_whole_rows)
    throw Error("{}: its inner chunks do not hold whole rows; import it, then prepare it",
                folder.string());
  if (!is_same_bytes(metadata.type))
    throw Error("{}: elements of {} are not read in place; import it", folder.string(),
                name(metadata.type));
  if (metadata.grid()[0] > kMostShards)
    throw Error("{}: {} shards, more than {}; write it again in larger ones", folder.string(),
                metadata.grid()[0], kMostShards);
  state->rows_per_chunk = metadata.inner[0];
  state->chunks_per_shard = metadata.inner_per_chunk();
  state->chunk_bytes = metadata.inner_bytes();
  state->row_bytes = state->chunk_bytes / state->rows_per_chunk;
  state->chunks = (metadata.shape[0] + state->rows_per_chunk - 1) / state->rows_per_chunk;
  Shape at(metadata.shape.size(), 0);
  for (; at[0] < metadata.grid()[0]; ++at[0])
    state->shards.push_back(open_shard(metadata, metadata.file(at)));
  state_ = std::move(state);
}

const fs::path& ZarrChunks::path() const { return state_->metadata.folder; }
DType ZarrChunks::dtype() const { return held_as(state_->metadata.type); }
const Shape& ZarrChunks::shape() const { return state_->metadata.shape; }
uint64_t ZarrChunks::row_bytes() const { return state_->row_bytes; }
uint64_t ZarrChunks::rows_per_chunk() const { return state_->rows_per_chunk; }
uint64_t ZarrChunks::chunks() const { return state_->chunks; }
uint64_t ZarrChunks::chunk_bytes() const { return state_->chunk_bytes; }
uint32_t ZarrChunks::shards() const { return uint32_t(state_->shards.size()); }

ZarrChunks::Place ZarrChunks::place(uint64_t chunk) const {
  LACUNA_ASSERT(chunk < state_->chunks);
  const auto shard = uint32_t(chunk / state_->chunks_per_shard);
  const auto& entries = state_->shards[shard].entries;
  if (entries.empty()) return {.shard = shard};
  const ShardEntry entry = entries[chunk % state_->chunks_per_shard];
  return {.shard = shard, .offset = entry.offset, .bytes = entry.bytes};
}

uint64_t ZarrChunks::packed_bytes() const { return packed_bytes(0, state_->metadata.shape[0]); }

uint64_t ZarrChunks::packed_bytes(uint64_t begin, uint64_t end) const {
  LACUNA_ASSERT(begin <= end && end <= state_->metadata.shape[0]);
  uint64_t bytes = 0;
  for (uint64_t chunk = begin / state_->rows_per_chunk; chunk * state_->rows_per_chunk < end;
       ++chunk)
    bytes += place(chunk).bytes;
  return bytes;
}

uint64_t ZarrChunks::memory_bytes() const {
  uint64_t bytes = 0;
  for (const Shard& shard : state_->shards) bytes += shard.entries.size() * sizeof(ShardEntry);
  return bytes;
}

fs::path ZarrChunks::shard_file(uint32_t shard) const {
  Shape at(state_->metadata.shape.size(), 0);
  at[0] = shard;
  return state_->metadata.file(at);
}

uint64_t ZarrChunks::shard_bytes(uint32_t shard) const {
  return state_->shards.at(shard).file.bytes();
}

void ZarrChunks::decode(uint64_t chunk, std::span<const std::byte> packed, std::span<std::byte> out,
                        Scratch& scratch) const {
  const ZarrMetadata& metadata = state_->metadata;
  LACUNA_ASSERT(out.size() == state_->chunk_bytes);
  if (packed.empty()) return fill_with(metadata.fill, out);
  try {
    decode_chunk(metadata.codecs, packed, metadata.inner, metadata.item_bytes(), out, scratch.step);
  } catch (const Error& error) {
    const Place at = place(chunk);
    const uint64_t first = chunk * state_->rows_per_chunk;
    const uint64_t last = std::min(first + state_->rows_per_chunk, metadata.shape[0]) - 1;
    throw Error("{}: chunk {} (rows {} to {}, at byte {}) is damaged: {}; write the array again",
                shard_file(at.shard).string(), chunk, first, last, at.offset, error.what());
  }
}

void ZarrChunks::read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out,
                           Scratch& scratch) const {
  read_rows(begin, end, out, scratch, [&](uint32_t shard, uint64_t offset, uint64_t bytes) {
    if (scratch.packed.size() < bytes) scratch.packed.resize(bytes);
    const std::span<std::byte> into(scratch.packed.data(), bytes);
    state_->shards[shard].file.read(offset, into);
    return std::span<const std::byte>(into);
  });
}

void ZarrChunks::read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out, Scratch& scratch,
                           const Fetch& fetch) const {
  const State& state = *state_;
  LACUNA_ASSERT(begin <= end && end <= state.metadata.shape[0]);
  LACUNA_ASSERT(out.size() == (end - begin) * state.row_bytes);
  if (begin == end) return;
  const auto unpack = [&](uint64_t chunk, std::span<const std::byte> packed) {
    const uint64_t first = chunk * state.rows_per_chunk;
    const uint64_t from = std::max(begin, first), to = std::min(end, first + state.rows_per_chunk);
    const auto rows = out.subspan((from - begin) * state.row_bytes, (to - from) * state.row_bytes);
    if (rows.size() == state.chunk_bytes) return decode(chunk, packed, rows, scratch);
    scratch.chunk.resize(state.chunk_bytes);
    decode(chunk, packed, scratch.chunk, scratch);
    std::memcpy(rows.data(), scratch.chunk.data() + (from - first) * state.row_bytes, rows.size());
  };
  const uint64_t last = (end - 1) / state.rows_per_chunk + 1;
  for (uint64_t chunk = begin / state.rows_per_chunk; chunk < last;) {
    // The neighbours that follow each other in the file come together.
    const Place first = place(chunk);
    uint64_t bytes = first.bytes, next = chunk + 1;
    for (; next < last && first.bytes > 0; ++next) {
      const Place beside = place(next);
      if (beside.shard != first.shard || beside.bytes == 0 || beside.offset != first.offset + bytes)
        break;
      bytes += beside.bytes;
    }
    const auto packed =
        bytes ? fetch(first.shard, first.offset, bytes) : std::span<const std::byte>();
    LACUNA_ASSERT(packed.size() == bytes);
    for (; chunk < next; ++chunk) {
      const Place at = place(chunk);
      unpack(chunk, packed.subspan(at.bytes ? at.offset - first.offset : 0, at.bytes));
    }
  }
}

}  // namespace lacuna
