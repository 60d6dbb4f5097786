// Beside these, tests/test_zarr.py holds writer and readers against zarr-python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "lacuna/core/text/json.h"
#include "lacuna/store/testing.h"
#include "lacuna/store/zarr/zarr_array.h"
#include "lacuna/store/zarr/zarr_chunks.h"
#include "lacuna/store/zarr/zarr_writer.h"

namespace lacuna {
namespace {

using testing::HasSubstr;

std::vector<std::byte> random_rows(uint64_t rows, uint64_t row_bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(rows * row_bytes);
  for (std::byte& byte : bytes) byte = std::byte(random() % 7);  // packs
  return bytes;
}

void write_zarr(const fs::path& path, std::span<const std::byte> rows, const Shape& row_shape,
                const ZarrWriterSettings& settings) {
  ZarrWriter writer(path, DType::u8, row_shape, settings);
  writer.append(rows);
  writer.close();
}

TEST(ZarrWriter, AnyPiecesGiveTheSameFiles) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const auto rows = random_rows(1000, 12, seed);
  const ZarrWriterSettings settings = {.rows_per_chunk = 7, .shard_bytes = 3000, .threads = 2};
  write_zarr(folder / "whole", rows, {3, 4}, settings);
  std::mt19937_64 random(seed);
  ZarrWriter writer(folder / "pieces", DType::u8, {3, 4}, settings);
  for (uint64_t row = 0; row < 1000;) {
    const uint64_t count = std::min<uint64_t>(random() % 90, 1000 - row);
    writer.append(std::span(rows).subspan(row * 12, count * 12));
    row += count;
  }
  writer.close();
  ASSERT_GT(writer.files().size(), 3u);
  for (const std::string& file : writer.files())
    EXPECT_EQ(read_text(folder / "whole" / file), read_text(folder / "pieces" / file)) << file;
}

// A short movie has no index for a gigabyte.
TEST(ZarrWriter, AShardIsNoLongerThanWhatThereIs) {
  const TemporaryDirectory folder;
  const auto written = random_rows(100, 10, 1);
  write_zarr(folder / "a", written, {10}, {.rows_per_chunk = 8});
  EXPECT_LT(fs::file_size(folder / "a/c/0/0"), 2500);  // 13 chunks of 80 bytes and what each has
  std::vector<std::byte> out(1000);
  ZarrChunks::Scratch scratch;
  ZarrChunks(folder / "a").read_rows(0, 100, out, scratch);
  EXPECT_TRUE(std::ranges::equal(out, written));
}

TEST(ZarrChunks, EveryRangeOfRowsIsAsWritten) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  const uint64_t rows = 100, row_bytes = 10;
  const auto written = random_rows(rows, row_bytes, seed);
  write_zarr(folder / "a", written, {10}, {.rows_per_chunk = 8, .shard_bytes = 250});
  const ZarrChunks chunks(folder / "a");
  EXPECT_EQ(chunks.shape(), (Shape{100, 10}));
  EXPECT_EQ(chunks.chunks(), 13u);
  EXPECT_EQ(chunks.shards(), 5u);
  ZarrArray array(folder / "a");
  ZarrChunks::Scratch scratch;
  for (uint64_t begin = 0; begin <= rows; ++begin)
    for (uint64_t end = begin; end <= rows; end += 9) {
      std::vector<std::byte> out((end - begin) * row_bytes, std::byte(99)), other = out;
      chunks.read_rows(begin, end, out, scratch);
      array.read_rows(begin, end, other);
      const auto expected = std::span(written).subspan(begin * row_bytes, out.size());
      ASSERT_TRUE(std::ranges::equal(out, expected)) << begin << " " << end;
      ASSERT_TRUE(std::ranges::equal(other, expected)) << begin << " " << end;
    }
}

TEST(ZarrChunks, NeighboursComeByOneFetchAndNoMoreThanTheirBytes) {
  const TemporaryDirectory folder;
  write_zarr(folder / "a", random_rows(320, 100, 1), {100},
             {.rows_per_chunk = 32, .shard_bytes = 5 * 3200});
  const ZarrChunks chunks(folder / "a");
  ZarrChunks::Scratch scratch;
  for (uint64_t begin = 0; begin + 33 <= 320; ++begin) {
    uint64_t fetches = 0, bytes = 0;
    std::vector<std::byte> out(33 * 100), shard;
    chunks.read_rows(begin, begin + 33, out, scratch,
                     [&](uint32_t number, uint64_t offset, uint64_t count) {
                       ++fetches, bytes += count;
                       const std::string text = read_text(chunks.shard_file(number));
                       shard.resize(count);
                       std::memcpy(shard.data(), text.data() + offset, count);
                       return std::span<const std::byte>(shard);
                     });
    const bool crosses = begin / 160 != (begin + 32) / 160;  // into the next shard
    EXPECT_EQ(fetches, crosses ? 2u : 1u) << begin;
    EXPECT_EQ(bytes, chunks.packed_bytes(begin, begin + 33)) << begin;
  }
}

TEST(ZarrChunks, EveryFlippedBitOfAShardIsSeen) {
  const TemporaryDirectory folder;
  write_zarr(folder / "a", random_rows(40, 6, 1), {6}, {.rows_per_chunk = 10, .shard_bytes = 1000});
  const fs::path shard = folder / "a" / "c/0/0";
  const uint64_t bytes = fs::file_size(shard);
  uint64_t seen = 0;
  for (uint64_t byte = 0; byte < bytes; ++byte) {
    flip(shard, byte, unsigned(byte % 8));
    try {
      const ZarrChunks chunks(folder / "a");
      ZarrChunks::Scratch scratch;
      std::vector<std::byte> out(40 * 6);
      chunks.read_rows(0, 40, out, scratch);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("c/0/0"));
      EXPECT_THAT(error.what(), HasSubstr("again"));
      ++seen;
    }
    flip(shard, byte, unsigned(byte % 8));
  }
  EXPECT_EQ(seen, bytes);
}

TEST(ZarrChunks, MessageNamesChunkAndRows) {
  const TemporaryDirectory folder;
  write_zarr(folder / "a", random_rows(40, 6, 1), {6}, {.rows_per_chunk = 10, .shard_bytes = 1000});
  const ZarrChunks chunks(folder / "a");
  flip(folder / "a" / "c/0/0", chunks.place(2).offset + 20);
  ZarrChunks::Scratch scratch;
  std::vector<std::byte> out(6);
  chunks.read_rows(19, 20, out, scratch);
  EXPECT_ERROR(chunks.read_rows(20, 21, out, scratch), "chunk 2 (rows 20 to 29");
}

// An array by hand: what the metadata say is all that counts.
void write_array(const fs::path& folder, const Json& metadata, const std::string& chunk = {}) {
  fs::create_directories(folder / "c");
  write_file(folder / "zarr.json", metadata.dump());
  if (!chunk.empty()) write_file(folder / "c" / "0", chunk);
}

Json plain_metadata() {
  return Json::parse(R"({"zarr_format": 3, "node_type": "array", "shape": [6], "data_type": "uint8",
      "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
      "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
      "fill_value": 7, "codecs": [{"name": "bytes"}], "attributes": {}})");
}

TEST(ZarrArray, ChunkByHandAndAMissingOne) {
  const TemporaryDirectory folder;
  write_array(folder / "a", plain_metadata(), "\x01\x02\x03\x04");
  ZarrArray array(folder / "a");
  std::vector<std::byte> out(6);
  array.read_rows(0, 6, out);
  const std::vector<std::byte> expected = {std::byte(1), std::byte(2), std::byte(3),
                                           std::byte(4), std::byte(7), std::byte(7)};
  EXPECT_EQ(out, expected);
}

TEST(ZarrArray, WhatIsNotReadIsRefusedByName) {
  const TemporaryDirectory folder;
  const auto refused = [&](const std::function<void(Json&)>& change) {
    Json metadata = plain_metadata();
    change(metadata);
    write_array(folder / "a", metadata);
    return error_of([&] { ZarrArray array(folder / "a"); });
  };
  EXPECT_THAT(refused([](Json& m) {
                m["codecs"].push_back({{"name", "lz77"}});
              }),
              HasSubstr("codec 'lz77'"));
  EXPECT_THAT(refused([](Json& m) { m["data_type"] = "complex64"; }), HasSubstr("'complex64'"));
  EXPECT_THAT(refused([](Json& m) { m["chunk_grid"]["name"] = "rectilinear"; }),
              HasSubstr("'rectilinear'"));
  EXPECT_THAT(refused([](Json& m) { m["chunk_key_encoding"]["name"] = "odd"; }),
              HasSubstr("'odd'"));
  EXPECT_THAT(refused([](Json& m) {
                m["novelty"] = {{"must_understand", true}};
              }),
              HasSubstr("'novelty'"));
  EXPECT_THAT(refused([](Json& m) { m["shape"] = {-3}; }), HasSubstr("no count"));
  EXPECT_THAT(refused([](Json& m) { m["chunk_grid"]["configuration"]["chunk_shape"] = {0}; }),
              HasSubstr("no count"));
  EXPECT_THAT(refused([](Json& m) { m["fill_value"] = 0.5; }), HasSubstr("fill value"));
  EXPECT_THAT(refused([](Json& m) { m.erase("codecs"); }), HasSubstr("'codecs'"));
}

TEST(ElementType, HalvesWidenExactly) {
  const std::vector<uint16_t> halves = {0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff, 0x0001,
                                        0x03ff, 0x0400, 0x7c00, 0xfc00, 0x3555};
  const std::vector<float> expected = {0.f,      -0.f,      1.f,          -2.f,
                                       65504.f,  0x1p-24f,  0x1.ff8p-15f, 0x1p-14f,
                                       INFINITY, -INFINITY, 0x1.554p-2f};
  std::vector<float> floats(halves.size());
  convert(ElementType::f16, std::as_bytes(std::span(halves)),
          std::as_writable_bytes(std::span(floats)));
  EXPECT_EQ(std::memcmp(floats.data(), expected.data(), expected.size() * 4), 0);
}

}  // namespace
}  // namespace lacuna
