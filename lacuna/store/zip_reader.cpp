#include "lacuna/store/zip_reader.h"

#include <libdeflate.h>

#include <memory>
#include <span>
#include <string_view>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr std::string_view kZipEnd = "PK\x05\x06", kZipEntry = "PK\x01\x02",
                           kZipLocal = "PK\x03\x04", kZip64End = "PK\x06\x06",
                           kZip64Place = "PK\x06\x07";
constexpr uint16_t kZipStored = 0, kZipDeflated = 8;

// Little-endian numbers at places of a file; a place beyond its end is an Error.
class ZipBytes {
 public:
  explicit ZipBytes(std::span<const std::byte> bytes)
      : text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}

  std::string_view at(uint64_t place, uint64_t count) const {
    if (place > text_.size() || count > text_.size() - place)
      throw Error("it was damaged or cut short");
    return text_.substr(place, count);
  }
  template <class T>
  T number(uint64_t place) const {
    uint64_t value = 0;
    const std::string_view bytes = at(place, sizeof(T));
    for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t(uint8_t(bytes[i])) << (8 * i);
    return T(value);
  }
  uint16_t u16(uint64_t place) const { return number<uint16_t>(place); }
  uint32_t u32(uint64_t place) const { return number<uint32_t>(place); }
  uint64_t u64(uint64_t place) const { return number<uint64_t>(place); }

  uint64_t find_end() const {
    constexpr uint64_t kEndBytes = 22, kMostComment = 0xffff;
    const uint64_t from =
        text_.size() > kEndBytes + kMostComment ? text_.size() - kEndBytes - kMostComment : 0;
    const size_t place = text_.rfind(kZipEnd);
    if (place == text_.npos || place < from) throw Error("not a zip file, or cut short");
    return place;
  }

 private:
  std::string_view text_;
};

// The 64-bit numbers of an entry whose 32-bit ones are full.
void read_zip64_field(const ZipBytes& zip, uint64_t place, uint64_t length, uint64_t* wide[3]) {
  const uint64_t end = place + length;
  while (place + 4 <= end) {
    const uint16_t kind = zip.u16(place), size = zip.u16(place + 2);
    place += 4;
    if (kind == 1)
      for (uint64_t at = place, i = 0; i < 3; ++i)
        if (wide[i] && at + 8 <= place + size) *wide[i] = zip.u64(at), at += 8;
    place += size;
  }
}

}  // namespace

ZipReader::ZipReader(const fs::path& path) : path_(path), file_(path) {
  try {
    const ZipBytes zip(file_.bytes());
    const uint64_t end = zip.find_end();
    uint64_t count = zip.u16(end + 10), place = zip.u32(end + 16);
    if (end >= 20 && zip.at(end - 20, 4) == kZip64Place) {
      const uint64_t wide_end = zip.u64(end - 12);
      if (zip.at(wide_end, 4) != kZip64End) throw Error("its directory was damaged");
      count = zip.u64(wide_end + 32), place = zip.u64(wide_end + 48);
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (zip.at(place, 4) != kZipEntry) throw Error("its directory was damaged");
      Member member = {.header = zip.u32(place + 42),
                       .packed = zip.u32(place + 20),
                       .bytes = zip.u32(place + 24),
                       .crc = zip.u32(place + 16),
                       .method = zip.u16(place + 10)};
      const uint64_t name = zip.u16(place + 28), extra = zip.u16(place + 30);
      uint64_t* wide[3] = {member.bytes == 0xffffffff ? &member.bytes : nullptr,
                           member.packed == 0xffffffff ? &member.packed : nullptr,
                           member.header == 0xffffffff ? &member.header : nullptr};
      read_zip64_field(zip, place + 46 + name, extra, wide);
      members_[std::string(zip.at(place + 46, name))] = member;
      place += 46 + name + extra + zip.u16(place + 32);
    }
  } catch (const Error& error) {
    throw Error("{}: {}; copy it again", path.string(), error.what());
  }
}

std::vector<std::string> ZipReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) names.push_back(name);
  return names;
}

std::string ZipReader::unpack(const std::string& name, const Member& member) const {
  const ZipBytes zip(file_.bytes());
  if (zip.at(member.header, 4) != kZipLocal) throw Error("its member '{}' was damaged", name);
  const uint64_t data =
      member.header + 30 + zip.u16(member.header + 26) + zip.u16(member.header + 28);
  const std::string_view packed = zip.at(data, member.packed);
  if (member.bytes > kMostBytes)
    throw Error("its member '{}' has {} bytes, more than {}", name, member.bytes, kMostBytes);
  std::string out;
  if (member.method == kZipStored) {
    out = packed;
  } else if (member.method == kZipDeflated) {
    out.resize(member.bytes);
    const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> unpacker(
        ::libdeflate_alloc_decompressor(), &::libdeflate_free_decompressor);
    if (!unpacker || ::libdeflate_deflate_decompress(unpacker.get(), packed.data(), packed.size(),
                                                     out.data(), out.size(), nullptr) != 0)
      throw Error("its member '{}' does not unpack", name);
  } else {
    throw Error("its member '{}' is packed by method {}, which is not read here", name,
                member.method);
  }
  if (out.size() != member.bytes || ::libdeflate_crc32(0, out.data(), out.size()) != member.crc)
    throw Error("its member '{}' was damaged", name);
  return out;
}

std::string ZipReader::read(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) throw Error("{}: has no member '{}'", path_.string(), name);
  try {
    return unpack(name, found->second);
  } catch (const Error& error) {
    throw Error("{}: {}; copy it again", path_.string(), error.what());
  }
}

}  // namespace lacuna
