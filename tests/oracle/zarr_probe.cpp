// What tests/test_zarr.py holds against zarr-python: our Zarr writer and readers, with .npy files
// on the other side.
//
//   zarr_probe write IN.npy OUT.zarr ROWS_PER_CHUNK SHARD_BYTES COMPRESSOR
//   zarr_probe read IN.zarr OUT.npy ROWS_AT_ONCE     any array, in the dtype that it is held as
//   zarr_probe chunks IN.zarr OUT.npy ROWS_AT_ONCE   by ZarrChunks
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/store/npy.h"
#include "lacuna/store/zarr/zarr_array.h"
#include "lacuna/store/zarr/zarr_chunks.h"
#include "lacuna/store/zarr/zarr_writer.h"

namespace lacuna {
namespace {

uint64_t count_of(const std::string& word) { return std::strtoull(word.c_str(), nullptr, 10); }

void write(const std::vector<std::string>& words) {
  const Array array = read_npy(words.at(1));
  const Shape row_shape(array.shape().begin() + 1, array.shape().end());
  ZarrWriter writer(words.at(2), array.dtype(), row_shape,
                    {.rows_per_chunk = count_of(words.at(3)),
                     .shard_bytes = count_of(words.at(4)),
                     .compressor = words.at(5)});
  writer.append(array.bytes());
  writer.close();
}

void read(const std::vector<std::string>& words) {
  ZarrArray array(words.at(1));
  const ElementType type = array.metadata().type;
  const Shape& shape = array.metadata().shape;
  NpyWriter file(words.at(2), held_as(type), Shape(shape.begin() + 1, shape.end()));
  const uint64_t step = count_of(words.at(3));
  for (uint64_t begin = 0; begin < array.rows(); begin += step) {
    const uint64_t end = std::min(begin + step, array.rows());
    std::vector<std::byte> raw((end - begin) * array.row_bytes());
    array.read_rows(begin, end, raw);
    std::vector<std::byte> held(raw.size() / item_size(type) * item_size(held_as(type)));
    convert(type, raw, held);
    file.append(std::span<const std::byte>(held));
  }
  file.close();
}

void read_chunks(const std::vector<std::string>& words) {
  const ZarrChunks array(words.at(1));
  const Shape& shape = array.shape();
  NpyWriter file(words.at(2), array.dtype(), Shape(shape.begin() + 1, shape.end()));
  ZarrChunks::Scratch scratch;
  const uint64_t step = count_of(words.at(3));
  for (uint64_t begin = 0; begin < shape[0]; begin += step) {
    std::vector<std::byte> rows((std::min(begin + step, shape[0]) - begin) * array.row_bytes());
    array.read_rows(begin, std::min(begin + step, shape[0]), rows, scratch);
    file.append(std::span<const std::byte>(rows));
  }
  file.close();
}

}  // namespace
}  // namespace lacuna

int main(int count, char** values) {
  const std::vector<std::string> words(values + 1, values + count);
  try {
    if (words.at(0) == "write") lacuna::write(words);
    if (words.at(0) == "read") lacuna::read(words);
    if (words.at(0) == "chunks") lacuna::read_chunks(words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
