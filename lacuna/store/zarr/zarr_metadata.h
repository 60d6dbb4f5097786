// What .zarray (Zarr v2) or zarr.json (v3) says of an array: its elements, its grid of chunks, how
// they are packed and what their files are called.
//
// A chunk of the grid is a file. With sharding it holds inner chunks and an index of them; without,
// the inner chunk is the chunk itself. Whoever reads deals with inner chunks alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/system/file.h"
#include "lacuna/store/zarr/element_type.h"
#include "lacuna/store/zarr/zarr_codecs.h"

namespace lacuna {

struct ZarrMetadata {
  fs::path folder;
  int version = 3;  // of the format: 2 or 3
  ElementType type = ElementType::u8;
  Shape shape;                  // at least one dimension
  Shape chunk;                  // of the grid: one file
  Shape inner;                  // what is unpacked at once; divides `chunk`
  ZarrCodecs codecs;            // of an inner chunk
  bool is_sharded = false;      // an index tells where the inner chunks of a file lie
  bool is_index_first = false;  // it stands at the start of the file, not at its end
  bool has_index_crc = true;
  std::vector<std::byte> fill;  // one element, little endian: what a missing chunk holds
  std::string key_prefix;       // "c" in v3's own keys
  char separator = '/';

  uint64_t item_bytes() const { return item_size(type); }
  uint64_t inner_bytes() const;      // unpacked
  uint64_t inner_per_chunk() const;  // 1 without sharding
  Shape grid() const;                // number of chunks along each dimension
  Shape inner_grid() const;          // inner chunks of a chunk along each dimension
  uint64_t index_bytes() const;      // 16 an inner chunk, and the checksum
  fs::path file(std::span<const uint64_t> chunk_at) const;
};

bool is_zarr_array(const fs::path& folder);  // it has .zarray, or zarr.json of an array
bool is_zarr_group(const fs::path& folder);  // it has .zgroup, or zarr.json of a group

// Throws Error that names the folder and the culprit: a codec, filter, data type or grid that we do
// not read, by its name.
ZarrMetadata read_zarr_metadata(const fs::path& folder);

// Where the inner chunks of a shard lie, from the stored bytes of its index; bytes 0: not stored.
struct ShardEntry {
  uint64_t offset = 0, bytes = 0;
};
// file_bytes bounds the places. Throws Error, without a name: "its index is damaged ..".
std::vector<ShardEntry> parse_shard_index(const ZarrMetadata& metadata,
                                          std::span<const std::byte> index, uint64_t file_bytes);

}  // namespace lacuna
