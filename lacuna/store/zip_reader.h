// Reads small members of a zip file whole, stored or deflated: NumPy's .npz files.
//
// The directory at the end of the file is read with suspicion: a hostile or truncated file gives an
// Error that names it. A member is checked against its CRC.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lacuna/core/system/file.h"

namespace lacuna {

class ZipReader {
 public:
  static constexpr uint64_t kMostBytes = uint64_t(1) << 28;  // of a member, unpacked

  explicit ZipReader(const fs::path& path);

  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return members_.contains(name); }
  std::string read(const std::string& name) const;  // throws Error where there is none

 private:
  struct Member {
    uint64_t header = 0, packed = 0, bytes = 0;
    uint32_t crc = 0;
    uint16_t method = 0;
  };
  std::string unpack(const std::string& name, const Member& member) const;

  fs::path path_;
  MappedFile file_;
  std::map<std::string, Member> members_;
};

}  // namespace lacuna
