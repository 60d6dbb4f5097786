// A Zarr array whose chunks hold whole rows, as ZarrWriter writes it, read window by window:
// whatever neighbouring chunks a range of rows touches come by one pread (two where the range
// crosses into the next shard), are checked against their crc32c and unpacked.
//
//   const ZarrChunks frames(path);
//   ZarrChunks::Scratch scratch;                  // one a thread
//   frames.read_rows(begin, end, out, scratch);   // out: (end - begin) rows
//
// The same bytes may lie in memory (ram:chunks): then `fetch` hands them out instead of a read:
//
//   frames.read_rows(begin, end, out, scratch,
//                    [&](uint32_t shard, uint64_t offset, uint64_t bytes) { return ...; });
//
// Opening reads zarr.json and the index at the end of each shard, 16 bytes a chunk, which stay in
// memory. All functions may be called by several threads at once. Throws Error that names shard,
// chunk and rows for a chunk that fails its checksum or does not unpack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/system/file.h"

namespace lacuna {

class ZarrChunks {
 public:
  // Where the packed bytes of a chunk lie; bytes 0: it is not stored, and is all fill value.
  struct Place {
    uint32_t shard = 0;
    uint64_t offset = 0, bytes = 0;
  };
  // Reused memory of one thread.
  struct Scratch {
    std::vector<std::byte> packed, chunk, step;
  };
  // The stored bytes [offset, offset + bytes) of a shard; valid until the next call.
  using Fetch =
      std::function<std::span<const std::byte>(uint32_t shard, uint64_t offset, uint64_t bytes)>;

  explicit ZarrChunks(const fs::path& folder);

  const fs::path& path() const;
  DType dtype() const;
  const Shape& shape() const;  // [T, ...]
  uint64_t row_bytes() const;
  uint64_t rows_per_chunk() const;
  uint64_t chunks() const;       // the last may reach beyond the last row
  uint64_t chunk_bytes() const;  // unpacked
  Place place(uint64_t chunk) const;
  uint64_t packed_bytes() const;  // of all chunks
  uint64_t memory_bytes() const;  // that the index takes
  // Of the chunks that hold rows begin .. end - 1: what a cold read of them has to move.
  uint64_t packed_bytes(uint64_t begin, uint64_t end) const;

  uint32_t shards() const;
  fs::path shard_file(uint32_t shard) const;
  uint64_t shard_bytes(uint32_t shard) const;  // of the file; 0: there is none

  void read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out, Scratch& scratch) const;
  void read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out, Scratch& scratch,
                 const Fetch& fetch) const;
  // One chunk, its packed bytes given, into chunk_bytes() of out. Empty `packed`: the fill value.
  void decode(uint64_t chunk, std::span<const std::byte> packed, std::span<std::byte> out,
              Scratch& scratch) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace lacuna
