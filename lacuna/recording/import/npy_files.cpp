// .npy files and raw maps: elements as they are, behind a header or with one beside them.
#include <algorithm>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/recording/import/raw_array.h"
#include "lacuna/recording/import/sources.h"
#include "lacuna/store/npy_header.h"
#include "lacuna/store/zip_reader.h"

namespace lacuna {
namespace {

[[noreturn]] void refuse_type(const std::string& where, std::string_view type) {
  const bool is_object = type.find('O') != type.npos;
  throw Error("{}: its element type '{}' is not read here{}", where, type,
              is_object ? " (Python objects); save an array of numbers"
                        : "; bool, integers and floats of 16, 32 and 64 bits are");
}

// ---- NAME_meta.npz
// The text of a 0-dimensional or 1-element array of str or bytes.
std::string text_in_npy(const std::string& file, const std::string& where) {
  const NpyHeader header = parse_npy_header(file);
  const std::string_view data = std::string_view(file).substr(header.data);
  const std::string_view kind = header.description;
  if (kind.find('O') != kind.npos)
    throw Error("{}: its dtype is a pickled object, which is not opened; save str(array.dtype)",
                where);
  std::string text;
  if (kind.starts_with("<U"))
    for (size_t i = 0; i + 4 <= data.size(); i += 4) text += data[i];
  else if (kind.starts_with("|S"))
    text = data;
  else
    throw Error("{}: its dtype is no text such as 'uint8'", where);
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

std::vector<uint64_t> counts_in_npy(const std::string& file, const std::string& where) {
  const NpyHeader header = parse_npy_header(file);
  bool is_big_endian = false;
  const auto type = element_type_from_description(header.description, is_big_endian);
  if (!type ||
      (*type != ElementType::i64 && *type != ElementType::i32 && *type != ElementType::u64 &&
       *type != ElementType::u32) ||
      is_big_endian)
    throw Error("{}: its shape is '{}', not whole numbers", where, header.description);
  const uint64_t item = item_size(*type);
  std::vector<uint64_t> counts;
  for (uint64_t at = header.data; at + item <= file.size(); at += item) {
    uint64_t count = 0;
    std::memcpy(&count, file.data() + at, item);
    if (count >> (item * 8 - 1)) throw Error("{}: its shape holds a negative number", where);
    counts.push_back(count);
  }
  return counts;
}

ElementType type_named(const std::string& name, bool& is_big_endian, const std::string& where) {
  is_big_endian = false;
  if (const auto type = element_type_from_name(name)) return *type;
  if (const auto type = element_type_from_description(name, is_big_endian)) return *type;
  if (const auto type = element_type_from_description("<" + name, is_big_endian)) return *type;
  // str(numpy.uint8) is "<class 'numpy.uint8'>"
  constexpr std::string_view kClass = "<class 'numpy.";
  if (name.starts_with(kClass) && name.ends_with("'>"))
    if (const auto type = element_type_from_name(
            std::string_view(name).substr(kClass.size(), name.size() - kClass.size() - 2)))
      return *type;
  refuse_type(where, name);
}

}  // namespace

ForeignSource open_npy(const fs::path& path) {
  const NpyHeader header = read_npy_header(path);
  RawArray::Layout layout;
  layout.offset = header.data;
  const auto type = element_type_from_description(header.description, layout.is_big_endian);
  if (!type) refuse_type(path.string(), header.description);
  if (header.shape.empty()) throw Error("{}: one number, without a time axis", path.string());
  if (header.is_fortran_order) layout.strides = fortran_strides(header.shape);
  ForeignSource source;
  source.arrays.push_back(std::make_unique<RawArray>(path, path.stem().string(), path.string(),
                                                     *type, header.shape, std::move(layout)));
  return source;
}

ForeignSource open_raw_map(const fs::path& path) {
  const fs::path beside = path.parent_path() / (path.stem().string() + "_meta.npz");
  if (!fs::exists(beside))
    throw Error(
        "{}: {} is not there, which says its shape and dtype; write it with "
        "numpy.savez({}, shape=array.shape, dtype=str(array.dtype))",
        path.string(), beside.filename().string(), beside.filename().string());
  const ZipReader meta(beside);
  for (const char* name : {"shape", "dtype"})
    if (!meta.has(std::string(name) + ".npy"))
      throw Error("{}: it has no '{}'", beside.string(), name);
  Shape shape;
  RawArray::Layout layout;
  ElementType type = ElementType::u8;
  try {
    shape = counts_in_npy(meta.read("shape.npy"), beside.string());
    type = type_named(text_in_npy(meta.read("dtype.npy"), beside.string()), layout.is_big_endian,
                      beside.string());
    if (meta.has("offset.npy"))
      layout.offset = counts_in_npy(meta.read("offset.npy"), beside.string()).at(0);
  } catch (const std::out_of_range&) {
    throw Error("{}: its offset is empty", beside.string());
  }
  if (shape.empty()) throw Error("{}: its shape is empty", beside.string());
  uint64_t bytes = item_size(type);
  for (const uint64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      throw Error("{}: its shape is beyond 64 bits", beside.string());
  if (fs::is_regular_file(path) && fs::file_size(path) != layout.offset + bytes)
    throw Error("{}: {} bytes, but {} says {} ({} of [{}]); one of them is of another array",
                path.string(), fs::file_size(path), beside.filename().string(),
                layout.offset + bytes, name(type), fmt::join(shape, ", "));
  ForeignSource source;
  source.arrays.push_back(
      std::make_unique<RawArray>(path, path.stem().string(), path.string(), type, shape, layout));
  return source;
}

}  // namespace lacuna
