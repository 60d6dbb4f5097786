// From the stored bytes of a chunk to its elements: the codecs of Zarr v2 and v3 that we read.
//
// Bytes to bytes: gzip, zlib, zstd, blosc, crc32c. Elements to bytes: little or big endian, and a
// transposition (v2's order "F" is one). Every other codec is refused by its name when the metadata
// are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/text/json.h"

namespace lacuna {

enum class PackedCodec : uint8_t { gzip, zlib, zstd, blosc, crc32c };
std::string_view name(PackedCodec codec);

struct ZarrCodecs {
  bool is_big_endian = false;
  std::vector<uint32_t> axes;        // the array's axes in the order they are stored; empty: as is
  std::vector<PackedCodec> packing;  // in the order of writing

  // Where packing keeps the number of bytes, so that a place in the packed bytes is one in the
  // elements: raw, or checksums alone.
  bool is_raw() const { return !is_big_endian && axes.empty() && packing.empty(); }
};

// Unpacks one chunk: packed bytes to exactly out.size() bytes of elements, little endian, in C
// order of `shape`. `step` is reused memory. Throws Error that says what is wrong with the chunk,
// without its name: "its crc32c is .., .. expected".
void decode_chunk(const ZarrCodecs& codecs, std::span<const std::byte> packed, const Shape& shape,
                  uint64_t item_bytes, std::span<std::byte> out, std::vector<std::byte>& step);

// blosc without shuffle, then crc32c; what ZarrWriter writes. Replaces `packed`.
void encode_chunk(std::span<const std::byte> elements, const std::string& compressor, int level,
                  uint64_t item_bytes, std::vector<std::byte>& packed);

}  // namespace lacuna
