#include "lacuna/store/safetensors.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/text/json.h"

namespace lacuna {
namespace {

constexpr const char* kChecksum = "xxh3";
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kAlignment = 64;  // of the data's start, so that mapped arrays are aligned

struct Word {
  DType dtype;
  const char* name;
};
constexpr Word kWords[] = {{DType::u8, "U8"},     {DType::u16, "U16"}, {DType::u32, "U32"},
                           {DType::u64, "U64"},   {DType::i32, "I32"}, {DType::i64, "I64"},
                           {DType::bf16, "BF16"}, {DType::f32, "F32"}, {DType::f64, "F64"}};

const char* word_of(DType dtype) {
  for (const Word& word : kWords)
    if (word.dtype == dtype) return word.name;
  LACUNA_ASSERT(false);
  return "";
}

DType dtype_of_word(const std::string& text, const fs::path& path, const std::string& name) {
  for (const Word& word : kWords)
    if (text == word.name) return word.dtype;
  throw Error("{}: array '{}' has type '{}', which is not supported", path.string(), name, text);
}

std::string checksum_of(const Safetensors& contents) {
  Hasher hasher;
  for (const auto& [name, array] : contents.arrays) {
    hasher.add(name);
    hasher.add(array.bytes());
  }
  for (const auto& [key, text] : contents.metadata)
    if (key != kChecksum) hasher.add(text);
  return hex(hasher.value());
}

uint64_t padded(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string header_of(const Safetensors& contents) {
  Json header = Json::object();  // also of a file that holds nothing
  if (!contents.metadata.empty()) header["__metadata__"] = contents.metadata;
  uint64_t offset = 0;
  for (const auto& [name, array] : contents.arrays) {
    const uint64_t end = offset + array.bytes().size();
    header[name] = {{"dtype", word_of(array.dtype())},
                    {"shape", array.shape()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize(padded(kLengthBytes + text.size()) - kLengthBytes, ' ');  // spaces may end a header
  return text;
}

// The elements of a shape, or an Error when the product does not fit.
uint64_t checked_size(const Shape& shape, const fs::path& path, const std::string& name) {
  unsigned __int128 size = 1;
  for (const uint64_t extent : shape) {
    size *= extent;
    if (size > UINT64_MAX / 8)
      throw Error("{}: array '{}' has an impossible shape; the file is damaged", path.string(),
                  name);
  }
  return uint64_t(size);
}

// A list of counts; nlohmann's own reading takes -1 for 2^64 - 1 and 2.5 for 2.
std::vector<uint64_t> counts_of(const Json& list, const fs::path& path, const std::string& name) {
  const bool are_counts = list.is_array() && std::ranges::all_of(list, [](const Json& entry) {
                            return entry.is_number_unsigned();
                          });
  if (!are_counts)
    throw Error("{}: array '{}' has a malformed shape or place; the file is damaged", path.string(),
                name);
  return list.get<std::vector<uint64_t>>();
}

// Where an array lies in the data.
struct Place {
  uint64_t begin, end;
  bool operator<(const Place& other) const {
    return begin != other.begin ? begin < other.begin : end < other.end;
  }
};

Array read_entry(const fs::path& path, const std::string& name, const Json& entry,
                 std::span<const std::byte> data, const std::shared_ptr<const void>& owner,
                 std::vector<Place>& places) {
  const DType dtype = dtype_of_word(entry.at("dtype").get<std::string>(), path, name);
  const Shape shape = counts_of(entry.at("shape"), path, name);
  const auto offsets = counts_of(entry.at("data_offsets"), path, name);
  if (offsets.size() != 2)
    throw Error("{}: array '{}' has no place in the file; it is damaged", path.string(), name);
  const uint64_t begin = offsets[0], end = offsets[1];
  places.push_back({begin, end});
  const uint64_t bytes = checked_size(shape, path, name) * item_size(dtype);
  if (begin > end || end > data.size() || end - begin != bytes)
    throw Error("{}: array '{}' does not lie inside the file; it is cut short or damaged",
                path.string(), name);
  if (reinterpret_cast<uintptr_t>(data.data() + begin) % item_size(dtype) != 0) {
    auto copy = std::make_shared<std::vector<std::byte>>(data.begin() + int64_t(begin),
                                                         data.begin() + int64_t(end));
    const std::byte* start = copy->data();
    return Array(dtype, shape, start, std::move(copy));
  }
  return Array(dtype, shape, data.data() + begin, owner);
}

// Arrays fill the data without gaps, and none lies in another.
void check_places(std::vector<Place> places, uint64_t data_bytes, const fs::path& path) {
  std::sort(places.begin(), places.end());
  uint64_t filled = 0;
  for (const Place& place : places) {
    if (place.begin != filled)
      throw Error("{}: its arrays do not lie side by side (byte {} of its data); it is damaged",
                  path.string(), std::min(filled, place.begin));
    filled = place.end;
  }
  if (filled != data_bytes)
    throw Error("{}: {} bytes behind its arrays; it is damaged, or two files in one", path.string(),
                data_bytes - filled);
}

}  // namespace

void write_safetensors(const fs::path& path, const Safetensors& contents) {
  const std::string header = header_of(contents);
  const uint64_t length = header.size();
  AtomicFile whole(path);
  FileWriter file(whole.temporary());
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const auto& [name, array] : contents.arrays) file.write(array.bytes());
  file.close();
  whole.commit();
}

Safetensors read_safetensors(const fs::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  uint64_t length = 0;
  if (bytes.size() >= kLengthBytes) std::memcpy(&length, bytes.data(), kLengthBytes);
  if (bytes.size() < kLengthBytes || length > bytes.size() - kLengthBytes)
    throw Error("{}: not a safetensors file, or cut short", path.string());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const auto data = bytes.subspan(kLengthBytes + length);
  const Json header = parse_json(text, path.string() + ": its header");
  if (!header.is_object())
    throw Error("{}: its header is not what safetensors asks for; the file is damaged",
                path.string());
  Safetensors contents;
  std::vector<Place> places;
  try {
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__")
        contents.metadata = entry.get<std::map<std::string, std::string>>();
      else
        contents.arrays[name] = read_entry(path, name, entry, data, file.owner(), places);
    }
  } catch (const Json::exception&) {
    throw Error("{}: its header is not what safetensors asks for; the file is damaged",
                path.string());
  }
  check_places(std::move(places), data.size(), path);
  return contents;
}

void add_checksum(Safetensors& contents) { contents.metadata[kChecksum] = checksum_of(contents); }

Seal seal_of(const Safetensors& contents) {
  const auto found = contents.metadata.find(kChecksum);
  if (found == contents.metadata.end()) return Seal::none;
  return found->second == checksum_of(contents) ? Seal::intact : Seal::broken;
}

}  // namespace lacuna
