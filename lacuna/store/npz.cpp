#include "lacuna/store/npz.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/store/npy.h"

namespace lacuna {
namespace {

constexpr size_t kBufferBytes = 1 << 20;  // of each array
constexpr uint64_t kMemberAlignment = 64;

// ---- the records of a zip file (PKWARE's APPNOTE, section 4.3)
constexpr uint16_t kVersion = 45;         // reads zip64
constexpr uint16_t kUtf8Names = 1 << 11;  // a flag
constexpr uint16_t kZip64Field = 1, kAlignmentField = 0xd935;
constexpr uint16_t kIn64Bits16 = 0xffff;      // "look into the zip64 record"
constexpr uint32_t kIn64Bits32 = 0xffffffff;  // the same

struct Record {
  std::string bytes;

  template <class T>
  Record& put(T value) {
    for (size_t byte = 0; byte < sizeof(T); ++byte) bytes += char(value >> (8 * byte));
    return *this;
  }
  Record& u16(uint16_t value) { return put(value); }
  Record& u32(uint32_t value) { return put(value); }
  Record& u64(uint64_t value) { return put(value); }
};

struct Entry {
  std::string name;
  uint64_t place = 0;  // of the local header
  uint64_t bytes = 0;
  uint32_t crc = 0;
  uint16_t padding = 0;
};

// The fields that a local header and the central directory share. All members are dated 1 January
// 1980, the earliest date there is.
void put_common(Record& record, const Entry& entry, uint64_t extra_bytes) {
  record.u16(kVersion).u16(kUtf8Names).u16(0 /*stored*/).u16(0).u16(1 << 5 | 1);
  record.u32(entry.crc).u32(kIn64Bits32).u32(kIn64Bits32);
  record.u16(uint16_t(entry.name.size())).u16(uint16_t(extra_bytes));
}

std::string local_header(const Entry& entry) {
  Record extra;
  extra.u16(kZip64Field).u16(16).u64(entry.bytes).u64(entry.bytes);
  extra.u16(kAlignmentField).u16(uint16_t(2 + entry.padding)).u16(uint16_t(kMemberAlignment));
  extra.bytes.append(entry.padding, '\0');
  Record header;
  header.u32(0x04034b50);
  put_common(header, entry, extra.bytes.size());
  return header.bytes + entry.name + extra.bytes;
}

std::string central_header(const Entry& entry) {
  Record extra;
  extra.u16(kZip64Field).u16(24).u64(entry.bytes).u64(entry.bytes).u64(entry.place);
  Record header;
  header.u32(0x02014b50).u16(3 << 8 | kVersion);  // 3: attributes as on Unix
  put_common(header, entry, extra.bytes.size());
  header.u16(0).u16(0).u16(0).u32(uint32_t(0100644) << 16).u32(kIn64Bits32);
  return header.bytes + entry.name + extra.bytes;
}

// What stands behind the central directory, which has this many entries.
std::string end_of_file(uint64_t entries, uint64_t directory_place, uint64_t directory_bytes) {
  Record end;
  end.u32(0x06064b50).u64(44).u16(3 << 8 | kVersion).u16(kVersion).u32(0).u32(0);
  end.u64(entries).u64(entries).u64(directory_bytes).u64(directory_place);
  end.u32(0x07064b50).u32(0).u64(directory_place + directory_bytes).u32(1);  // where `end` begins
  end.u32(0x06054b50).u16(0).u16(0).u16(kIn64Bits16).u16(kIn64Bits16);
  end.u32(kIn64Bits32).u32(kIn64Bits32).u16(0);
  return end.bytes;
}

// ---- texts, which NumPy keeps as code points of four bytes
std::u32string code_points(std::string_view text) {
  const auto not_utf8 = [&] { return Error("'{}' is not UTF-8 text", text); };
  std::u32string points;
  for (size_t at = 0; at < text.size();) {
    const auto lead = uint8_t(text[at++]);
    const int more = lead < 0x80 ? 0 : lead < 0xc2 ? -1 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (more < 0 || lead > 0xf4 || at + size_t(more) > text.size()) throw not_utf8();
    char32_t point = more == 0 ? lead : lead & (0x3f >> more);
    for (int i = 0; i < more; ++i, ++at) {
      if ((uint8_t(text[at]) & 0xc0) != 0x80) throw not_utf8();
      point = point << 6 | (uint8_t(text[at]) & 0x3f);
    }
    if (point > 0x10ffff || (point >> 11) == 0x1b) throw not_utf8();  // 0x1b: half a UTF-16 pair
    points += point;
  }
  return points;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

struct NpzWriter::Member {
  Entry entry;
  std::string description;
  uint64_t data_place = 0;  // where the .npy file begins
  uint64_t written = 0;     // of entry.bytes
  std::string buffer;       // the last bytes of `written`
};

NpzWriter::NpzWriter(const fs::path& path) : file_(path) {
  const fs::path& place = file_.temporary();
  fd_ = ::open(place.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_errno(place.string(), "cannot create");
}

NpzWriter::~NpzWriter() {
  if (fd_ >= 0) ::close(fd_);
}

size_t NpzWriter::add(const std::string& name, DType dtype, const Shape& shape) {
  return add(name, npy_description(dtype), item_size(dtype), shape);
}

size_t NpzWriter::add(const std::string& name, std::string_view description, uint64_t item_bytes,
                      const Shape& shape) {
  auto member = std::make_unique<Member>();
  const std::string header = npy_header(description, shape);
  uint64_t elements = 1;
  for (const uint64_t extent : shape) elements *= extent;
  member->description = description;
  member->entry = {.name = name + ".npy", .place = end_};
  member->entry.bytes = header.size() + elements * item_bytes;
  const uint64_t unpadded = end_ + local_header(member->entry).size();
  member->entry.padding =
      uint16_t((kMemberAlignment - unpadded % kMemberAlignment) % kMemberAlignment);
  member->data_place = unpadded + member->entry.padding;
  end_ = member->data_place + member->entry.bytes;
  append_bytes(*member, header);
  members_.push_back(std::move(member));
  return members_.size() - 1;
}

void NpzWriter::add(const std::string& name, const Array& array) {
  append(add(name, array.dtype(), array.shape()), array.dtype(), array.bytes());
}

void NpzWriter::add(const std::string& name, std::span<const std::string> texts) {
  std::vector<std::u32string> wide;
  size_t longest = 1;  // NumPy has no text type of length 0
  for (const std::string& text : texts) {
    wide.push_back(code_points(text));
    longest = std::max(longest, wide.back().size());
  }
  const size_t member =
      add(name, fmt::format("<U{}", longest), longest * sizeof(char32_t), {texts.size()});
  for (std::u32string& text : wide) {
    text.resize(longest, U'\0');
    append_bytes(*members_[member], as_text(std::as_bytes(std::span(text))));
  }
}

void NpzWriter::append(size_t array, DType dtype, std::span<const std::byte> bytes) {
  Member& member = *members_.at(array);
  LACUNA_ASSERT(member.description == npy_description(dtype));
  append_bytes(member, as_text(bytes));
}

void NpzWriter::append_bytes(Member& member, std::string_view bytes) {
  LACUNA_ASSERT(fd_ >= 0 && bytes.size() <= member.entry.bytes - member.written);
  if (bytes.empty()) return;  // zlib takes a null pointer for "begin anew"
  member.written += bytes.size();
  member.entry.crc = uint32_t(
      ::crc32_z(member.entry.crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  member.buffer += bytes;
  if (member.buffer.size() >= kBufferBytes) flush(member);
}

void NpzWriter::flush(Member& member) {
  write(member.data_place + member.written - member.buffer.size(), member.buffer);
  member.buffer.clear();
}

void NpzWriter::write(uint64_t place, std::string_view bytes) {
  write_at(fd_, std::as_bytes(std::span(bytes)), place, file_.temporary());
}

void NpzWriter::close() {
  std::string directory;
  for (const auto& member : members_) {
    LACUNA_ASSERT(member->written == member->entry.bytes);
    flush(*member);
    write(member->entry.place, local_header(member->entry));
    directory += central_header(member->entry);
  }
  write(end_, directory + end_of_file(members_.size(), end_, directory.size()));
  const std::string place = file_.temporary().string();
  if (::fsync(fd_) != 0) throw_errno(place, "cannot flush to the disk");
  if (::close(std::exchange(fd_, -1)) != 0) throw_errno(place, "cannot close");
  file_.commit();
}

}  // namespace lacuna
