// Writes a Zarr v3 array that grows along time: shards of about a gigabyte, inner chunks of a few
// rows, blosc without shuffle and crc32c. zarr-python opens it, and ZarrChunks reads it chunk by
// chunk.
//
//   ZarrWriter writer(path, DType::u8, {51, 51}, {.rows_per_chunk = 33});
//   writer.append(rows);  // any number of whole rows, as often as needed
//   writer.close();       // zarr.json is written last: without it there is no array
//
// An array that fits into one shard has one of its own length.
//
// On disk: path/zarr.json, and path/c/0/0/0, path/c/1/0/0, ..: one shard each, its chunks one after
// another in the order of time, then their index. A chunk of a window therefore lies beside the
// next one, and both come by one read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/system/file.h"

namespace lacuna {

struct ZarrWriterSettings {
  uint64_t rows_per_chunk = 33;
  uint64_t shard_bytes = uint64_t(1) << 30;  // about, before compression
  std::string compressor = "lz4";            // blosc's: lz4, lz4hc, zstd, zlib, blosclz
  int level = 5;                             // 1 to 9
  int threads = 1;                           // that compress; 0: all
};

class ZarrWriter {
 public:
  // The folder must not exist yet. Throws Error for settings that make no sense.
  ZarrWriter(const fs::path& path, DType dtype, Shape row_shape,
             const ZarrWriterSettings& settings = {});
  ~ZarrWriter();  // without close() what was written stays, for the caller to remove
  ZarrWriter(const ZarrWriter&) = delete;
  ZarrWriter& operator=(const ZarrWriter&) = delete;

  void append(std::span<const std::byte> rows);
  void close();                                   // durable afterwards
  uint64_t rows() const;                          // so far
  uint64_t packed_bytes() const;                  // of the chunks written so far
  const std::vector<std::string>& files() const;  // relative to path, complete after close()

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lacuna
