#include "lacuna/store/zarr/zarr_metadata.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "lacuna/core/crc32c.h"
#include "lacuna/core/error.h"
#include "lacuna/core/text/json.h"

namespace lacuna {
namespace {

constexpr size_t kMostZarrDimensions = 32;
constexpr uint64_t kMostChunkBytes = uint64_t(1) << 31;  // blosc's own limit
constexpr uint64_t kMostInnerChunks = uint64_t(1) << 27;
constexpr const char* kCodecsRead = "bytes, transpose, gzip, zlib, zstd, blosc, crc32c, sharding";

const Json& member(const Json& json, const char* key) {
  if (!json.is_object() || !json.contains(key)) throw Error("it lacks '{}'", key);
  return json.at(key);
}

std::string text_of(const Json& json, const char* what) {
  if (!json.is_string()) throw Error("its {} is no text", what);
  return json.get<std::string>();
}

Shape shape_of(const Json& json, const char* what, bool may_be_zero) {
  if (!json.is_array() || json.empty() || json.size() > kMostZarrDimensions)
    throw Error("its {} is no list of 1 to {} counts", what, kMostZarrDimensions);
  Shape shape;
  for (const Json& extent : json) {
    if (!extent.is_number_unsigned() || (!may_be_zero && extent.get<uint64_t>() == 0))
      throw Error("its {} holds {}, which is no count", what, extent.dump());
    shape.push_back(extent.get<uint64_t>());
  }
  return shape;
}

uint64_t checked_product(const Shape& shape, uint64_t first, const char* what) {
  uint64_t product = first;
  for (const uint64_t extent : shape)
    if (__builtin_mul_overflow(product, std::max<uint64_t>(extent, 1), &product))
      throw Error("its {} is beyond 64 bits", what);
  return product;
}

// ---- the fill value
template <class T>
std::vector<std::byte> element_bytes(T value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

uint16_t half_of(double value) {  // exact for what a fill value is in practice
  if (std::isnan(value)) return 0x7e00;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::abs(value);
  if (size == 0) return sign;
  if (std::isinf(size) || size >= 65520) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(size, &exponent);
  exponent = std::max(exponent - 1, -14);
  const auto units = uint32_t(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return uint16_t(sign | (units + (uint32_t(exponent + 14) << 10)));
}

std::vector<std::byte> number_bytes(ElementType type, double value) {
  switch (type) {
    case ElementType::f16:
      return element_bytes(half_of(value));
    case ElementType::bf16:
      return element_bytes(BFloat16(float(value)).bits);
    case ElementType::f32:
      return element_bytes(float(value));
    default:
      return element_bytes(value);
  }
}

std::vector<std::byte> whole_number_bytes(const Json& json, uint64_t size) {
  if (!json.is_number_integer() && !json.is_boolean() &&
      !(json.is_number_float() && json.get<double>() == std::floor(json.get<double>()) &&
        std::abs(json.get<double>()) < 0x1p53))
    throw Error("its fill value {} does not fit its data type", json.dump());
  const uint64_t bits = json.is_boolean()           ? uint64_t(json.get<bool>())
                        : json.is_number_unsigned() ? json.get<uint64_t>()
                        : json.is_number_float()    ? uint64_t(int64_t(json.get<double>()))
                                                    : uint64_t(json.get<int64_t>());
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), &bits, size);
  return bytes;
}

std::vector<std::byte> hex_bytes(std::string_view text, uint64_t size) {
  uint64_t bits = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  if (error != std::errc() || rest != text.data() + text.size())
    throw Error("its fill value '0x{}' is no number", text);
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), &bits, size);
  return bytes;
}

std::vector<std::byte> fill_of(const Json& json, ElementType type) {
  const uint64_t size = item_size(type);
  if (json.is_null()) return std::vector<std::byte>(size);
  const bool is_float = type >= ElementType::f16;
  if (json.is_string()) {
    const std::string text = json.get<std::string>();
    if (text.starts_with("0x")) return hex_bytes(std::string_view(text).substr(2), size);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (is_float && text == "NaN") return number_bytes(type, std::nan(""));
    if (is_float && text == "Infinity") return number_bytes(type, kInfinity);
    if (is_float && text == "-Infinity") return number_bytes(type, -kInfinity);
    throw Error("its fill value '{}' is not known", text);
  }
  if (!is_float) return whole_number_bytes(json, size);
  if (!json.is_number()) throw Error("its fill value {} is no number", json.dump());
  return number_bytes(type, json.get<double>());
}

// ---- codecs
PackedCodec packed_codec(const std::string& name) {
  for (const PackedCodec codec : {PackedCodec::gzip, PackedCodec::zlib, PackedCodec::zstd,
                                  PackedCodec::blosc, PackedCodec::crc32c})
    if (name == lacuna::name(codec)) return codec;
  throw Error("its codec '{}' is not one that is read here ({}); write it again with one of these",
              name, kCodecsRead);
}

std::string codec_name(const Json& codec) {
  return codec.is_string() ? codec.get<std::string>() : text_of(member(codec, "name"), "codec");
}

Json configuration_of(const Json& codec) {
  if (!codec.is_object() || !codec.contains("configuration")) return Json::object();
  return codec.at("configuration");
}

std::vector<uint32_t> axes_of(const Json& order, size_t dimensions) {
  std::vector<uint32_t> axes;
  std::vector<bool> is_used(dimensions, false);
  if (order.is_array())
    for (const Json& axis : order) {
      if (!axis.is_number_unsigned() || axis.get<uint64_t>() >= dimensions) break;
      if (is_used[axis.get<size_t>()]) break;
      is_used[axis.get<size_t>()] = true;
      axes.push_back(axis.get<uint32_t>());
    }
  if (axes.size() != dimensions)
    throw Error("its transpose order {} is no order of {} axes", order.dump(), dimensions);
  return axes;
}

bool is_big_endian(const Json& configuration) {
  const std::string endian =
      configuration.is_object() ? configuration.value("endian", std::string("little")) : "little";
  if (endian != "little" && endian != "big") throw Error("its endian '{}' is not known", endian);
  return endian == "big";
}

void read_codecs(const Json& list, ZarrMetadata& metadata, bool is_inner);

void read_sharding(const Json& configuration, ZarrMetadata& metadata) {
  metadata.is_sharded = true;
  metadata.inner = shape_of(member(configuration, "chunk_shape"), "inner chunk shape", false);
  if (metadata.inner.size() != metadata.chunk.size())
    throw Error("its inner chunks have {} dimensions, its shards {}", metadata.inner.size(),
                metadata.chunk.size());
  for (size_t i = 0; i < metadata.chunk.size(); ++i)
    if (metadata.chunk[i] % metadata.inner[i] != 0)
      throw Error("its inner chunks of {} do not divide its shards of {} along dimension {}",
                  metadata.inner[i], metadata.chunk[i], i);
  const std::string location = configuration.contains("index_location")
                                   ? text_of(configuration.at("index_location"), "index_location")
                                   : "end";
  if (location != "end" && location != "start")
    throw Error("its index_location '{}' is not known", location);
  metadata.is_index_first = location == "start";
  metadata.has_index_crc = false;
  for (const Json& codec : member(configuration, "index_codecs")) {
    const std::string name = codec_name(codec);
    if (name == "crc32c" && !metadata.has_index_crc)
      metadata.has_index_crc = true;
    else if (name != "bytes" || is_big_endian(configuration_of(codec)))
      throw Error("its shard index has the codec '{}'; bytes (little endian) and crc32c are read",
                  name);
  }
  read_codecs(member(configuration, "codecs"), metadata, true);
}

void read_codecs(const Json& list, ZarrMetadata& metadata, bool is_inner) {
  if (!list.is_array()) throw Error("its codecs are no list");
  bool has_bytes = false;
  for (const Json& codec : list) {
    const std::string name = codec_name(codec);
    if (metadata.is_sharded && !is_inner)
      throw Error(
          "its codec '{}' packs whole shards, which is not read here; write it again with "
          "the codecs inside the shards",
          name);
    if (name == "sharding_indexed") {
      if (is_inner) throw Error("it has shards inside shards, which is not read here");
      if (!metadata.codecs.axes.empty() || has_bytes)
        throw Error("it has codecs before sharding, which is not read here");
      read_sharding(configuration_of(codec), metadata);
      has_bytes = true;
    } else if (name == "transpose" && !has_bytes && metadata.codecs.axes.empty()) {
      metadata.codecs.axes =
          axes_of(member(configuration_of(codec), "order"), metadata.shape.size());
    } else if (name == "bytes" && !has_bytes) {
      metadata.codecs.is_big_endian = is_big_endian(configuration_of(codec));
      has_bytes = true;
    } else {
      const PackedCodec packed = packed_codec(name);
      if (!has_bytes) throw Error("its codec '{}' stands before 'bytes'", name);
      if (metadata.codecs.packing.size() == 8) throw Error("it has more than 8 codecs");
      metadata.codecs.packing.push_back(packed);
    }
  }
  if (!has_bytes) throw Error("its codecs lack 'bytes'");
}

// ---- version 3
void read_key_encoding(const Json& json, ZarrMetadata& metadata) {
  const std::string name = text_of(member(json, "name"), "chunk_key_encoding");
  if (name != "default" && name != "v2")
    throw Error("its chunk_key_encoding '{}' is not known; 'default' and 'v2' are", name);
  metadata.key_prefix = name == "default" ? "c" : "";
  const Json configuration = configuration_of(json);
  const std::string separator = configuration.is_object() && configuration.contains("separator")
                                    ? text_of(configuration.at("separator"), "separator")
                                    : (name == "default" ? "/" : ".");
  if (separator != "/" && separator != ".")
    throw Error("its separator '{}' is not known", separator);
  metadata.separator = separator[0];
}

void refuse_what_must_be_understood(const Json& json) {
  for (const auto& [key, value] : json.items()) {
    constexpr std::string_view kKnown =
        " zarr_format node_type shape data_type chunk_grid chunk_key_encoding fill_value codecs "
        "attributes dimension_names storage_transformers ";
    if (kKnown.find(" " + key + " ") != kKnown.npos) continue;
    if (value.is_object() && value.contains("must_understand") &&
        value.at("must_understand") == Json(false))
      continue;
    throw Error("it has '{}', which this version does not know", key);
  }
  if (json.contains("storage_transformers") && !json.at("storage_transformers").empty())
    throw Error("it has storage transformers, which are not read here");
}

ZarrMetadata parse_version_3(const Json& json) {
  ZarrMetadata metadata;
  if (member(json, "node_type") != Json("array")) throw Error("it is a group, not an array");
  refuse_what_must_be_understood(json);
  const Json& type = member(json, "data_type");
  const std::string type_name =
      type.is_object() ? text_of(member(type, "name"), "data_type") : text_of(type, "data_type");
  const auto known = element_type_from_name(type_name);
  if (!known || type.is_object())
    throw Error("its data type '{}' is not one that is read here (bool, integers, floats)",
                type_name);
  metadata.type = *known;
  metadata.shape = shape_of(member(json, "shape"), "shape", true);
  const Json& grid = member(json, "chunk_grid");
  const std::string grid_name = text_of(member(grid, "name"), "chunk_grid");
  if (grid_name != "regular")
    throw Error("its chunk grid is '{}'; only regular ones are read here", grid_name);
  metadata.chunk = shape_of(member(configuration_of(grid), "chunk_shape"), "chunk shape", false);
  read_key_encoding(member(json, "chunk_key_encoding"), metadata);
  metadata.fill = fill_of(member(json, "fill_value"), metadata.type);
  metadata.inner = metadata.chunk;
  read_codecs(member(json, "codecs"), metadata, false);
  return metadata;
}

// ---- version 2
void read_compressor(const Json& json, ZarrMetadata& metadata) {
  if (json.is_null()) return;
  metadata.codecs.packing.push_back(packed_codec(text_of(member(json, "id"), "compressor")));
}

ZarrMetadata parse_version_2(const Json& json) {
  ZarrMetadata metadata;
  metadata.version = 2;
  const Json& type = member(json, "dtype");
  if (!type.is_string())
    throw Error("its elements are structures; write each field as its own array");
  const auto known =
      element_type_from_description(type.get<std::string>(), metadata.codecs.is_big_endian);
  if (!known)
    throw Error("its dtype '{}' is not one that is read here (bool, integers, floats)",
                type.get<std::string>());
  metadata.type = *known;
  metadata.shape = shape_of(member(json, "shape"), "shape", true);
  metadata.chunk = metadata.inner = shape_of(member(json, "chunks"), "chunk shape", false);
  metadata.fill = fill_of(member(json, "fill_value"), metadata.type);
  metadata.separator = '.';
  if (json.contains("dimension_separator") && json.at("dimension_separator") == Json("/"))
    metadata.separator = '/';
  const std::string order = text_of(member(json, "order"), "order");
  if (order != "C" && order != "F") throw Error("its order '{}' is not known", order);
  if (order == "F" && metadata.shape.size() > 1)
    for (size_t axis = metadata.shape.size(); axis-- > 0;)
      metadata.codecs.axes.push_back(uint32_t(axis));
  if (json.contains("filters") && json.at("filters").is_array())
    for (const Json& filter : json.at("filters")) {
      const std::string name = text_of(member(filter, "id"), "filter");
      if (name != "crc32c")
        throw Error("its filter '{}' is not one that is read here; write it again without filters",
                    name);
      metadata.codecs.packing.push_back(PackedCodec::crc32c);
    }
  read_compressor(member(json, "compressor"), metadata);
  return metadata;
}

void check_sizes(const ZarrMetadata& metadata) {
  if (metadata.chunk.size() != metadata.shape.size())
    throw Error("its chunks have {} dimensions, it has {}", metadata.chunk.size(),
                metadata.shape.size());
  checked_product(metadata.shape, metadata.item_bytes(), "shape");
  checked_product(metadata.chunk, metadata.item_bytes(), "chunk shape");
  if (metadata.inner_bytes() > kMostChunkBytes)
    throw Error(
        "its chunks have {} bytes each, more than the {} that are read at once; write it "
        "again in smaller chunks",
        metadata.inner_bytes(), kMostChunkBytes);
  if (metadata.inner_per_chunk() > kMostInnerChunks)
    throw Error("its shards have {} inner chunks each, more than {}", metadata.inner_per_chunk(),
                kMostInnerChunks);
}

uint64_t product(const Shape& shape) {
  uint64_t result = 1;
  for (const uint64_t extent : shape) result *= extent;
  return result;
}

bool is_node(const fs::path& folder, const char* old_name, const char* type) {
  if (fs::is_regular_file(folder / old_name)) return true;
  if (!fs::is_regular_file(folder / "zarr.json")) return false;
  const Json json = read_json(folder / "zarr.json");
  return json.is_object() && json.contains("node_type") && json.at("node_type") == Json(type);
}

}  // namespace

uint64_t ZarrMetadata::inner_bytes() const { return product(inner) * item_bytes(); }
uint64_t ZarrMetadata::inner_per_chunk() const { return product(inner_grid()); }
uint64_t ZarrMetadata::index_bytes() const { return inner_per_chunk() * 16 + 4 * has_index_crc; }

Shape ZarrMetadata::grid() const {
  Shape counts;
  for (size_t i = 0; i < shape.size(); ++i)
    counts.push_back(shape[i] / chunk[i] + (shape[i] % chunk[i] != 0));
  return counts;
}

Shape ZarrMetadata::inner_grid() const {
  Shape counts;
  for (size_t i = 0; i < shape.size(); ++i) counts.push_back(chunk[i] / inner[i]);
  return counts;
}

fs::path ZarrMetadata::file(std::span<const uint64_t> chunk_at) const {
  std::string key = key_prefix;
  for (const uint64_t at : chunk_at) {
    if (!key.empty()) key += separator;
    key += std::to_string(at);
  }
  return folder / key;
}

bool is_zarr_array(const fs::path& folder) { return is_node(folder, ".zarray", "array"); }
bool is_zarr_group(const fs::path& folder) { return is_node(folder, ".zgroup", "group"); }

ZarrMetadata read_zarr_metadata(const fs::path& folder) {
  const bool is_old = fs::is_regular_file(folder / ".zarray");
  const fs::path file = folder / (is_old ? ".zarray" : "zarr.json");
  if (!fs::is_regular_file(file))
    throw Error("{}: no Zarr array: neither .zarray nor zarr.json is there", folder.string());
  const Json json = read_json(file);
  try {
    const int format = is_old ? 2 : 3;
    if (member(json, "zarr_format") != Json(format))
      throw Error("its zarr_format is {}, {} expected", json.at("zarr_format").dump(), format);
    ZarrMetadata metadata = is_old ? parse_version_2(json) : parse_version_3(json);
    metadata.folder = folder;
    check_sizes(metadata);
    return metadata;
  } catch (const Json::exception& error) {
    throw Error("{}: {}", file.string(), error.what());
  } catch (const Error& error) {
    throw Error("{}: {}", file.string(), error.what());
  }
}

std::vector<ShardEntry> parse_shard_index(const ZarrMetadata& metadata,
                                          std::span<const std::byte> index, uint64_t file_bytes) {
  LACUNA_ASSERT(index.size() == metadata.index_bytes());
  const uint64_t count = metadata.inner_per_chunk();
  if (metadata.has_index_crc) {
    uint32_t stored;
    std::memcpy(&stored, index.data() + count * 16, 4);
    const uint32_t found = crc32c(index.first(count * 16));
    if (stored != found)
      throw Error("the crc32c of its index is {:08x}, {:08x} expected", found, stored);
  }
  std::vector<ShardEntry> entries(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t words[2];
    std::memcpy(words, index.data() + i * 16, 16);
    if (words[0] == ~uint64_t(0) && words[1] == ~uint64_t(0)) continue;
    if (words[1] == 0 || words[0] > file_bytes || words[1] > file_bytes - words[0])
      throw Error(
          "its index is damaged: inner chunk {} lies at byte {} with {} bytes, the file has "
          "{}",
          i, words[0], words[1], file_bytes);
    entries[i] = {words[0], words[1]};
  }
  return entries;
}

}  // namespace lacuna
