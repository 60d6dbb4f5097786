#include "lacuna/store/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/store/npy_header.h"

namespace lacuna {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kNpyAlignment = 64;
constexpr size_t kMaxDimensions = 32;  // what NumPy itself allows

struct Description {
  std::string_view npy;
  DType dtype;
};
// bf16 has no name in NumPy; it is written as <u2, so u16 must come first when reading.
constexpr std::array<Description, 10> kDescriptions = {{{"|u1", DType::u8},
                                                        {"<u2", DType::u16},
                                                        {"<u4", DType::u32},
                                                        {"<u8", DType::u64},
                                                        {"<i4", DType::i32},
                                                        {"<i8", DType::i64},
                                                        {"<f4", DType::f32},
                                                        {"<f8", DType::f64},
                                                        {"|b1", DType::u8},
                                                        {"<u2", DType::bf16}}};

// For messages: a header may hold anything, and a message is one line.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

struct Header {
  std::string_view descr;
  bool fortran_order = false;
  Shape shape;
};

// The header is a Python dictionary of three entries, in any order:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = string();
      expect(':');
      bool* const seen = key == "descr"           ? &has_descr
                         : key == "fortran_order" ? &has_order
                         : key == "shape"         ? &has_shape
                                                  : nullptr;
      if (!seen) throw Error("its header has an unknown entry '{}'", printable(key));
      if (std::exchange(*seen, true))
        throw Error("its header has two entries '{}'", printable(key));
      if (key == "descr") header.descr = description();
      if (key == "fortran_order") header.fortran_order = boolean();
      if (key == "shape") header.shape = shape();
      if (!take(',') && peek() != '}') throw Error("its header is damaged");
    }
    peek();
    if (at_ != text_.size()) throw Error("its header is damaged");
    if (!has_descr || !has_order || !has_shape)
      throw Error("its header lacks descr, fortran_order or shape");
    return header;
  }

 private:
  // The next character that is not blank; '\0' at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) throw Error("its header is damaged ('{}' expected)", wanted);
  }
  bool take_word(std::string_view word) {
    peek();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') throw Error("its header is damaged (a name expected)");
    const size_t end = text_.find(quote, ++at_);
    if (end == text_.npos) throw Error("its header is damaged (a name without an end)");
    const std::string_view value = text_.substr(at_, end - at_);
    at_ = end + 1;
    return value;
  }

  std::string_view description() {
    if (peek() == '[') throw Error("its elements are structures; save each field as its own array");
    return string();
  }

  bool boolean() {
    if (take_word("True")) return true;
    if (take_word("False")) return false;
    throw Error("its header is damaged (True or False expected)");
  }

  Shape shape() {
    Shape shape;
    expect('(');
    while (!take(')')) {
      if (shape.size() == kMaxDimensions)
        throw Error("it has more than {} dimensions", kMaxDimensions);
      shape.push_back(number());
      if (!take(',') && peek() != ')') throw Error("its header is damaged (a shape expected)");
    }
    return shape;
  }

  uint64_t number() {
    peek();
    uint64_t value = 0;
    const char* const end = text_.data() + text_.size();
    const auto [rest, error] = std::from_chars(text_.data() + at_, end, value);
    if (error == std::errc::result_out_of_range) throw Error("its shape is beyond 64 bits");
    if (error != std::errc()) throw Error("its shape holds something other than a count");
    at_ = size_t(rest - text_.data());
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
};

DType dtype_of_description(std::string_view descr) {
  for (const auto& entry : kDescriptions)
    if (entry.npy == descr) return entry.dtype;
  if (descr.starts_with('>'))
    throw Error("its elements are big endian ('{}'); save it as little endian", printable(descr));
  if (descr.find('O') != descr.npos)
    throw Error("it holds Python objects; save it as an array of numbers");
  throw Error("its element type '{}' is not one of u1, u2, u4, u8, i4, i8, f4, f8, b1",
              printable(descr));
}

// Throws when the product does not fit; a dimension of zero does not excuse the others.
uint64_t checked_bytes(const Shape& shape, uint64_t item_bytes) {
  uint64_t bytes = item_bytes;
  bool empty = false;
  for (const uint64_t extent : shape) {
    if (extent == 0)
      empty = true;
    else if (__builtin_mul_overflow(bytes, extent, &bytes))
      throw Error("its shape is beyond 64 bits");
  }
  return empty ? 0 : bytes;
}

// Where the header text starts and the data starts; versions 1, 2 and 3 differ in the length field
// alone.
struct Layout {
  size_t text, data;
};
Layout read_layout(std::string_view file) {
  if (file.empty()) throw Error("the file is empty");
  if (!file.starts_with(kNpyMagic)) throw Error("not a .npy file");
  if (file.size() < kNpyMagic.size() + 2) throw Error("the file ends inside its header");
  const int version = uint8_t(file[kNpyMagic.size()]);
  if (version < 1 || version > 3)
    throw Error("version {} of .npy is not known; save it as version 1", version);
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t text = kNpyMagic.size() + 2 + length_bytes;
  if (file.size() < text) throw Error("the file ends inside its header");
  uint64_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    length |= uint64_t(uint8_t(file[kNpyMagic.size() + 2 + i])) << (8 * i);
  if (length > file.size() - text) throw Error("the file ends inside its header");
  return {text, text + size_t(length)};
}

Array parse_npy(const MappedFile& mapped) {
  const auto bytes = mapped.bytes();
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Layout layout = read_layout(file);
  Header header = HeaderParser(file.substr(layout.text, layout.data - layout.text)).parse();
  const DType dtype = dtype_of_description(header.descr);
  if (header.fortran_order && header.shape.size() > 1)
    throw Error("its elements are in Fortran order; save numpy.ascontiguousarray of it");
  const uint64_t expected = checked_bytes(header.shape, item_size(dtype));
  const uint64_t present = bytes.size() - layout.data;
  if (present < expected)
    throw Error("the file is truncated: {} bytes of data, {} expected", present, expected);
  if (present > expected)
    throw Error("the file holds {} bytes after its array; it was damaged or is two arrays",
                present - expected);
  if (layout.data % item_size(dtype) != 0)
    throw Error("its data starts at byte {}, unaligned; save it again with numpy.save",
                layout.data);
  return Array(dtype, std::move(header.shape), bytes.data() + layout.data, mapped.owner());
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string make_header(DType dtype, const Shape& shape) {
  return npy_header(npy_description(dtype), shape);
}

}  // namespace

std::string_view npy_description(DType dtype) {
  for (const auto& entry : kDescriptions)
    if (entry.dtype == dtype) return entry.npy;
  LACUNA_ASSERT(false);
  return {};
}

std::string npy_header(std::string_view description, const Shape& shape) {
  std::string extents;
  for (const uint64_t extent : shape) extents += fmt::format("{}, ", extent);
  if (shape.size() > 1) extents.resize(extents.size() - 2);
  if (shape.size() == 1) extents.pop_back();  // "(3,)" is a tuple, "(3)" is not
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 description, extents);
  const size_t start = kNpyMagic.size() + 4;
  const size_t growth = shape.empty() ? 0 : 20 - std::to_string(shape[0]).size();
  const size_t total =
      (start + text.size() + growth + 1 + kNpyAlignment - 1) / kNpyAlignment * kNpyAlignment;
  text.resize(total - start - 1, ' ');
  text += '\n';
  LACUNA_ASSERT(text.size() <= 0xffff);
  std::string header(kNpyMagic);
  header += {'\x01', '\x00', char(text.size() & 0xff), char(text.size() >> 8)};
  return header + text;
}

NpyHeader parse_npy_header(std::string_view text) {
  const Layout layout = read_layout(text);
  Header header = HeaderParser(text.substr(layout.text, layout.data - layout.text)).parse();
  checked_bytes(header.shape, 16);
  return {std::string(header.descr), header.fortran_order, std::move(header.shape), layout.data};
}

NpyHeader read_npy_header(const fs::path& path) {
  const MappedFile file(path);
  try {
    return parse_npy_header(
        {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  } catch (const Error& error) {
    throw Error("{}: {}", path.string(), error.what());
  }
}

Array read_npy(const fs::path& path) {
  const MappedFile file(path);
  try {
    return parse_npy(file);
  } catch (const Error& error) {
    throw Error("{}: {}", path.string(), error.what());
  }
}

uint64_t write_npy(const fs::path& path, const Array& array) {
  const std::string header = make_header(array.dtype(), array.shape());
  Hasher hasher;
  hasher.add(header);
  hasher.add(array.bytes());
  FileWriter file(path);
  file.write(header);
  file.write(array.bytes());
  file.close();
  return hasher.value();
}

NpyWriter::NpyWriter(const fs::path& path, DType dtype, Shape row_shape)
    : dtype_(dtype),
      row_shape_(std::move(row_shape)),
      row_bytes_(checked_bytes(row_shape_, item_size(dtype))),
      file_(path) {
  if (row_bytes_ == 0)
    throw Error("{}: rows of no elements cannot be counted; leave the array out", path.string());
  const std::string header = make_header(dtype_, shape());
  header_bytes_ = header.size();
  file_.write(header);
}

void NpyWriter::append(std::span<const std::byte> rows) {
  LACUNA_ASSERT(rows.size() % row_bytes_ == 0);
  file_.write(rows);
}

uint64_t NpyWriter::close() {
  const std::string header = make_header(dtype_, shape());
  LACUNA_ASSERT(header.size() == header_bytes_);
  file_.write_at_start(as_bytes(header));
  file_.close();
  return hash_file(file_.path());  // the header, which comes first, was known last
}

Shape NpyWriter::shape() const {
  const uint64_t data = file_.size() - header_bytes_;
  Shape shape = {data / row_bytes_};
  shape.insert(shape.end(), row_shape_.begin(), row_shape_.end());
  return shape;
}

void NpyWriter::check_dtype(DType given) const { LACUNA_ASSERT(given == dtype_); }

}  // namespace lacuna
