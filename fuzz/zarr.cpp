// A Zarr array of shards, of which one file is damaged: zarr.json, or a shard with its index.
#include "fuzz/damaged.h"
#include "lacuna/store/zarr/zarr_array.h"
#include "lacuna/store/zarr/zarr_chunks.h"
#include "lacuna/store/zarr/zarr_writer.h"

using namespace lacuna;

namespace {

constexpr uint64_t kMostBytes = 1 << 20;

fs::path write_small_array(const fs::path& path) {
  ZarrWriter writer(path, DType::u8, {3, 4}, {.rows_per_chunk = 5, .shard_bytes = 130});
  std::vector<std::byte> rows(23 * 12);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = std::byte(i / 9);
  writer.append(rows);
  writer.close();
  return path;
}

void read_array(const fs::path& path) {
  ZarrArray array(path, 1);
  // What a header asks for is not always there to be had: large arrays are none of ours.
  uint64_t bytes = 1;
  for (const uint64_t extent : array.metadata().shape)
    if (__builtin_mul_overflow(bytes, extent + 1, &bytes) || bytes > kMostBytes) return;
  if (array.metadata().inner_bytes() > kMostBytes) return;
  std::vector<std::byte> out(array.rows() * array.row_bytes());
  array.read_rows(0, array.rows(), out);
  fuzz::touch(out);
}

void read_chunks(const fs::path& path) {
  const ZarrChunks chunks(path);
  if (chunks.chunk_bytes() > kMostBytes) return;
  ZarrChunks::Scratch scratch;
  const uint64_t rows = std::min<uint64_t>(chunks.shape()[0], 64);
  if (chunks.row_bytes() > kMostBytes) return;
  std::vector<std::byte> out(rows * chunks.row_bytes());
  if (out.size() > kMostBytes) return;
  chunks.read_rows(0, rows, out, scratch);
  fuzz::touch(out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::MemoryDirectory memory;
  static const fuzz::Damaged array(write_small_array(memory / "a.zarr"));
  array.read(data, size, [&] {
    fuzz::reads([&] { read_array(array.path()); });
    fuzz::reads([&] { read_chunks(array.path()); });
  });
  return 0;
}
