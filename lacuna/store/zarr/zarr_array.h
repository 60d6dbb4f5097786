// A Zarr array of anybody's, version 2 or 3, read as a stream of rows (its first dimension is
// time).
//
//   ZarrArray array(folder);
//   array.read_rows(0, 600, out);
//
// Any regular grid, chunks tiled in space too, with or without shards; a chunk that is not there
// holds the fill value. Reading rows in order by a multiple of rows_together() unpacks every chunk
// once. Not for several threads at once; it uses several of its own.
//
// Throws Error that names the file: a codec that is not read (zarr_metadata.h), a chunk that does
// not unpack or fails its checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "lacuna/store/zarr/read_at.h"
#include "lacuna/store/zarr/zarr_metadata.h"

namespace lacuna {

class ZarrArray {
 public:
  explicit ZarrArray(const fs::path& folder, int threads = 0);

  const ZarrMetadata& metadata() const { return metadata_; }
  uint64_t rows() const { return metadata_.shape[0]; }
  uint64_t row_bytes() const;                                    // of elements as they are
  uint64_t rows_together() const { return metadata_.inner[0]; }  // of one inner chunk
  // Elements little endian, in C order: (end - begin) rows.
  void read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out);

 private:
  struct Chunk {
    fs::path file;
    std::vector<ShardEntry> entries;  // by inner chunk; none: the chunk is not stored
  };
  struct Block;
  const Chunk& find_chunk(const Shape& at);
  void read_block(const Block& block, std::span<std::byte> out) const;

  ZarrMetadata metadata_;
  int threads_;
  std::map<Shape, Chunk> chunks_;  // those of the last rows; none stays open: there may be many
};

}  // namespace lacuna
