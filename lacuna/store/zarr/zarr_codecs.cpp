#include "lacuna/store/zarr/zarr_codecs.h"

#include <blosc.h>
#include <libdeflate.h>
#include <zstd.h>

#include <array>
#include <cstring>
#include <memory>

#include "lacuna/core/crc32c.h"
#include "lacuna/core/error.h"
#include "lacuna/store/zarr/element_type.h"

namespace lacuna {
namespace {

constexpr size_t kCrcBytes = 4;

uint32_t little_u32(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t(bytes[i]) << (8 * i);
  return value;
}

std::span<const std::byte> take_crc(std::span<const std::byte> packed) {
  if (packed.size() < kCrcBytes) throw Error("it is shorter than its checksum");
  const auto body = packed.first(packed.size() - kCrcBytes);
  const uint32_t stored = little_u32(packed.last(kCrcBytes)), found = crc32c(body);
  if (stored != found) throw Error("its crc32c is {:08x}, {:08x} expected", found, stored);
  return body;
}

void unpack_blosc(std::span<const std::byte> packed, std::span<std::byte> out) {
  size_t bytes = 0;
  if (packed.size() < BLOSC_MIN_HEADER_LENGTH ||
      ::blosc_cbuffer_validate(packed.data(), packed.size(), &bytes) != 0)
    throw Error("its blosc header is damaged");
  if (bytes != out.size()) throw Error("it unpacks to {} bytes, {} expected", bytes, out.size());
  if (out.empty()) return;
  const int got = ::blosc_decompress_ctx(packed.data(), out.data(), out.size(), 1);
  if (got < 0 || size_t(got) != out.size()) throw Error("blosc cannot unpack it");
}

void unpack_zstd(std::span<const std::byte> packed, std::span<std::byte> out) {
  const size_t got = ::ZSTD_decompress(out.data(), out.size(), packed.data(), packed.size());
  if (::ZSTD_isError(got)) throw Error("zstd cannot unpack it ({})", ::ZSTD_getErrorName(got));
  if (got != out.size()) throw Error("it unpacks to {} bytes, {} expected", got, out.size());
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* it) const { ::libdeflate_free_decompressor(it); }
};

void unpack_deflate(PackedCodec codec, std::span<const std::byte> packed,
                    std::span<std::byte> out) {
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor(
      ::libdeflate_alloc_decompressor());
  if (!decompressor) throw Error("no memory for unpacking it");
  const auto unpack =
      codec == PackedCodec::gzip ? &::libdeflate_gzip_decompress : &::libdeflate_zlib_decompress;
  size_t got = 0;
  const libdeflate_result result =
      unpack(decompressor.get(), packed.data(), packed.size(), out.data(), out.size(), &got);
  if (result == LIBDEFLATE_INSUFFICIENT_SPACE || (result == 0 && got != out.size()))
    throw Error("it does not unpack to {} bytes", out.size());
  if (result != LIBDEFLATE_SUCCESS) throw Error("{} cannot unpack it", name(codec));
}

// The number of bytes that come out where another codec follows, and only this one knows.
size_t unpacked_bytes(PackedCodec codec, std::span<const std::byte> packed, size_t most) {
  size_t bytes = 0;
  if (codec == PackedCodec::blosc) {
    if (packed.size() < BLOSC_MIN_HEADER_LENGTH ||
        ::blosc_cbuffer_validate(packed.data(), packed.size(), &bytes) != 0)
      throw Error("its blosc header is damaged");
  } else if (codec == PackedCodec::zstd) {
    const auto size = ::ZSTD_getFrameContentSize(packed.data(), packed.size());
    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR)
      throw Error("its zstd frame does not tell its size, and another codec follows");
    bytes = size;
  } else {
    if (packed.size() < 4 || codec == PackedCodec::zlib)
      throw Error("{} before another codec is not read", name(codec));
    bytes = little_u32(packed.last(4));
  }
  if (bytes > most) throw Error("it unpacks to {} bytes between its codecs", bytes);
  return bytes;
}

void unpack_one(PackedCodec codec, std::span<const std::byte> packed, std::span<std::byte> out) {
  if (codec == PackedCodec::blosc) return unpack_blosc(packed, out);
  if (codec == PackedCodec::zstd) return unpack_zstd(packed, out);
  unpack_deflate(codec, packed, out);
}

void unpack_all(std::span<const PackedCodec> packing, std::span<const std::byte> packed,
                std::span<std::byte> out, std::vector<std::byte>& step) {
  std::vector<std::byte> other;
  while (!packing.empty() && packing.back() == PackedCodec::crc32c) {
    packed = take_crc(packed);
    packing = packing.first(packing.size() - 1);
  }
  for (; packing.size() > 1; packing = packing.first(packing.size() - 1)) {
    if (packing.back() == PackedCodec::crc32c) {
      packed = take_crc(packed);
      continue;
    }
    std::vector<std::byte>& into = packed.data() == step.data() ? other : step;
    // A codec may add a little to what it cannot compress.
    into.resize(unpacked_bytes(packing.back(), packed, out.size() * 2 + (1 << 16)));
    unpack_one(packing.back(), packed, into);
    packed = into;
  }
  if (!packing.empty() && packing.front() == PackedCodec::crc32c) {
    packed = take_crc(packed);
    packing = {};
  }
  if (!packing.empty()) return unpack_one(packing.front(), packed, out);
  if (packed.size() != out.size())
    throw Error("it has {} bytes, {} expected", packed.size(), out.size());
  if (!out.empty()) std::memcpy(out.data(), packed.data(), out.size());
}

// Elements stored with their axes in another order, into C order of `shape`.
void untranspose(std::span<const std::byte> stored, const Shape& shape,
                 std::span<const uint32_t> axes, uint64_t item_bytes, std::span<std::byte> out) {
  const size_t dimensions = shape.size();
  std::vector<uint64_t> stride(dimensions), step(dimensions), at(dimensions, 0);
  uint64_t elements = 1;
  for (size_t i = dimensions; i-- > 0; elements *= shape[i]) stride[i] = elements;
  for (size_t i = 0; i < dimensions; ++i) step[i] = stride[axes[i]];  // in out, of stored axis i
  uint64_t place = 0;
  for (uint64_t i = 0; i < elements; ++i) {
    std::memcpy(out.data() + place * item_bytes, stored.data() + i * item_bytes, item_bytes);
    for (size_t axis = dimensions; axis-- > 0;) {  // counts up in the stored order
      place += step[axis];
      if (++at[axis] < shape[axes[axis]]) break;
      place -= step[axis] * at[axis];
      at[axis] = 0;
    }
  }
}

}  // namespace

std::string_view name(PackedCodec codec) {
  constexpr std::array<std::string_view, 5> kNames = {"gzip", "zlib", "zstd", "blosc", "crc32c"};
  return kNames.at(size_t(codec));
}

void decode_chunk(const ZarrCodecs& codecs, std::span<const std::byte> packed, const Shape& shape,
                  uint64_t item_bytes, std::span<std::byte> out, std::vector<std::byte>& step) {
  if (codecs.axes.empty()) {
    unpack_all(codecs.packing, packed, out, step);
  } else {
    std::vector<std::byte> stored(out.size());
    unpack_all(codecs.packing, packed, stored, step);
    untranspose(stored, shape, codecs.axes, item_bytes, out);
  }
  if (codecs.is_big_endian) swap_bytes(out, item_bytes);
}

void encode_chunk(std::span<const std::byte> elements, const std::string& compressor, int level,
                  uint64_t item_bytes, std::vector<std::byte>& packed) {
  packed.resize(elements.size() + BLOSC_MAX_OVERHEAD + kCrcBytes);
  const int bytes =
      ::blosc_compress_ctx(level, BLOSC_NOSHUFFLE, item_bytes, elements.size(), elements.data(),
                           packed.data(), packed.size() - kCrcBytes, compressor.c_str(), 0, 1);
  if (bytes <= 0) throw Error("blosc cannot pack {} bytes with {}", elements.size(), compressor);
  const uint32_t crc = crc32c(std::span(packed).first(size_t(bytes)));
  packed.resize(size_t(bytes) + kCrcBytes);
  for (size_t i = 0; i < kCrcBytes; ++i) packed[size_t(bytes) + i] = std::byte(crc >> (8 * i));
}

}  // namespace lacuna
