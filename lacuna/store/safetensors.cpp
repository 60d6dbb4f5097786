#include "lacuna/store/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;
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

uint64_t padded(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string header_of(const Safetensors& contents) {
  Json header;
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

Array read_entry(const fs::path& path, const std::string& name, const Json& entry,
                 std::span<const std::byte> data, const std::shared_ptr<const void>& owner) {
  const DType dtype = dtype_of_word(entry.at("dtype").get<std::string>(), path, name);
  const auto shape = entry.at("shape").get<Shape>();
  const auto [begin, end] = entry.at("data_offsets").get<std::pair<uint64_t, uint64_t>>();
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
  const char* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  Safetensors contents;
  try {
    const Json header = Json::parse(text, text + length);
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__")
        contents.metadata = entry.get<std::map<std::string, std::string>>();
      else
        contents.arrays[name] =
            read_entry(path, name, entry, bytes.subspan(kLengthBytes + length), file.owner());
    }
  } catch (const Json::exception&) {
    throw Error("{}: its header is not what safetensors asks for; the file is damaged",
                path.string());
  }
  return contents;
}

}  // namespace lacuna
