#include "lacuna/store/zarr/zarr_writer.h"

#include <blosc.h>

#include <algorithm>
#include <cstring>

#include "lacuna/core/crc32c.h"
#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/core/text/json.h"
#include "lacuna/store/zarr/zarr_codecs.h"
#include "lacuna/store/zarr/zarr_metadata.h"

namespace lacuna {
namespace {

constexpr uint64_t kPackedTogether = 8 << 20;  // bytes of chunks that are packed side by side

std::string_view zarr_name(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return "uint8";
    case DType::u16:
    case DType::bf16:  // as in .npy files: whoever refers to the array knows
      return "uint16";
    case DType::u32:
      return "uint32";
    case DType::u64:
      return "uint64";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
  }
  LACUNA_ASSERT(false);
  return {};
}

void put_u64(std::vector<std::byte>& bytes, uint64_t value) {
  for (int i = 0; i < 8; ++i) bytes.push_back(std::byte(value >> (8 * i)));
}

}  // namespace

struct ZarrWriter::State {
  fs::path path;
  DType dtype;
  Shape row_shape;
  ZarrWriterSettings settings;
  uint64_t row_bytes = 0, chunk_bytes = 0, chunks_per_shard = 0;
  uint64_t rows = 0, packed_bytes = 0, shards = 0;
  bool is_closed = false;
  std::vector<std::byte> waiting;              // rows that are not packed yet
  std::vector<std::vector<std::byte>> packed;  // reused
  std::unique_ptr<FileWriter> shard;
  std::vector<ShardEntry> entries;  // of the open shard
  std::vector<std::string> files;

  Json bytes_codec(uint64_t item_bytes) const {
    Json codec = {{"name", "bytes"}};
    if (item_bytes > 1) codec["configuration"] = {{"endian", "little"}};
    return codec;
  }

  Json metadata() const {
    Shape shape = {rows}, shard_shape = {settings.rows_per_chunk * chunks_per_shard},
          inner = {settings.rows_per_chunk};
    for (Shape* all : {&shape, &shard_shape, &inner})
      all->insert(all->end(), row_shape.begin(), row_shape.end());
    const uint64_t item = item_size(dtype);
    const Json blosc = {{"name", "blosc"},
                        {"configuration",
                         {{"typesize", item},
                          {"cname", settings.compressor},
                          {"clevel", settings.level},
                          {"shuffle", "noshuffle"},
                          {"blocksize", 0}}}};
    const Json crc = {{"name", "crc32c"}};
    const Json sharding = {{"name", "sharding_indexed"},
                           {"configuration",
                            {{"chunk_shape", inner},
                             {"codecs", Json::array({bytes_codec(item), blosc, crc})},
                             {"index_codecs", Json::array({bytes_codec(8), crc})},
                             {"index_location", "end"}}}};
    return {
        {"zarr_format", 3},
        {"node_type", "array"},
        {"shape", shape},
        {"data_type", zarr_name(dtype)},
        {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", shard_shape}}}}},
        {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
        {"fill_value", 0},
        {"codecs", Json::array({sharding})},
        {"attributes", Json::object()},
        {"storage_transformers", Json::array()}};
  }

  void open_shard() {
    std::string name = fmt::format("c/{}", shards++);
    for (size_t i = 0; i < row_shape.size(); ++i) name += "/0";
    fs::create_directories((path / name).parent_path());
    shard = std::make_unique<FileWriter>(path / name);
    files.push_back(name);
    entries.clear();
  }

  void close_shard() {
    if (!shard) return;
    entries.resize(chunks_per_shard, {~uint64_t(0), ~uint64_t(0)});
    std::vector<std::byte> index;
    for (const ShardEntry& entry : entries) {
      put_u64(index, entry.offset);
      put_u64(index, entry.bytes);
    }
    const uint32_t crc = crc32c(index);
    for (int i = 0; i < 4; ++i) index.push_back(std::byte(crc >> (8 * i)));
    shard->write(index);
    shard->close();
    for (fs::path folder = shard->path().parent_path(); folder != path;
         folder = folder.parent_path())
      sync_directory(folder);
    shard.reset();
  }

  void put(const std::vector<std::byte>& chunk) {
    if (!shard) open_shard();
    entries.push_back({shard->size(), chunk.size()});
    shard->write(chunk);
    packed_bytes += chunk.size();
    if (entries.size() == chunks_per_shard) close_shard();
  }

  // Packs the whole chunks that wait, all at once on the threads, and writes them in order.
  void flush() {
    const uint64_t count = waiting.size() / chunk_bytes;
    if (packed.size() < count) packed.resize(count);
    parallel_for(count, settings.threads, [&](uint64_t i) {
      encode_chunk(std::span(waiting).subspan(i * chunk_bytes, chunk_bytes), settings.compressor,
                   settings.level, item_size(dtype), packed[i]);
    });
    for (uint64_t i = 0; i < count; ++i) put(packed[i]);
    waiting.erase(waiting.begin(), waiting.begin() + ptrdiff_t(count * chunk_bytes));
  }
};

ZarrWriter::ZarrWriter(const fs::path& path, DType dtype, Shape row_shape,
                       const ZarrWriterSettings& settings)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.path = path, s.dtype = dtype, s.row_shape = std::move(row_shape), s.settings = settings;
  s.row_bytes = item_size(dtype);
  for (const uint64_t extent : s.row_shape) s.row_bytes *= extent;
  if (s.row_bytes == 0 || settings.rows_per_chunk == 0)
    throw Error("{}: chunks of {} rows of {} bytes cannot be written", path.string(),
                settings.rows_per_chunk, s.row_bytes);
  if (::blosc_compname_to_compcode(settings.compressor.c_str()) < 0)
    throw Error("{}: blosc has no compressor '{}'; lz4 and zstd are there", path.string(),
                settings.compressor);
  s.chunk_bytes = s.row_bytes * settings.rows_per_chunk;
  if (s.chunk_bytes > BLOSC_MAX_BUFFERSIZE)
    throw Error("{}: chunks of {} bytes are beyond blosc's {}; take fewer rows a chunk",
                path.string(), s.chunk_bytes, BLOSC_MAX_BUFFERSIZE);
  s.chunks_per_shard = std::max<uint64_t>(1, settings.shard_bytes / s.chunk_bytes);
  if (fs::exists(path)) throw Error("{}: exists already; remove it first", path.string());
  fs::create_directories(path);
}

ZarrWriter::~ZarrWriter() = default;

void ZarrWriter::append(std::span<const std::byte> rows) {
  State& s = *state_;
  LACUNA_ASSERT(!s.is_closed && rows.size() % s.row_bytes == 0);
  s.rows += rows.size() / s.row_bytes;
  const uint64_t most = std::max(kPackedTogether / s.chunk_bytes, uint64_t(1)) * s.chunk_bytes;
  while (!rows.empty()) {
    const auto now = rows.first(std::min<size_t>(rows.size(), most - s.waiting.size()));
    s.waiting.insert(s.waiting.end(), now.begin(), now.end());
    rows = rows.subspan(now.size());
    if (s.waiting.size() == most) s.flush();
  }
}

void ZarrWriter::close() {
  State& s = *state_;
  LACUNA_ASSERT(!s.is_closed);
  const uint64_t rest = s.waiting.size() % s.chunk_bytes;
  if (rest != 0) s.waiting.resize(s.waiting.size() + s.chunk_bytes - rest);  // the fill value
  s.flush();
  // One shard is as long as what there is: an index for a gigabyte may be larger than the movie.
  if (s.shards == 1 && s.shard) s.chunks_per_shard = s.entries.size();
  s.close_shard();
  write_text_atomically(s.path / "zarr.json", s.metadata().dump(2));
  s.files.push_back("zarr.json");
  sync_directory(s.path);
  s.is_closed = true;
}

uint64_t ZarrWriter::rows() const { return state_->rows; }
uint64_t ZarrWriter::packed_bytes() const { return state_->packed_bytes; }
const std::vector<std::string>& ZarrWriter::files() const { return state_->files; }

}  // namespace lacuna
