// A directory of which an input damages one file, for readers that look at several.
//
// The first byte of an input says what is done:
//   bits 0 to 5   which file, in the order of their names (modulo how many there are)
//   bit 6         the other bytes are changes (patched()), else the file's new contents
//   bit 7         the manifest is made to fit, so that what lies behind the checksums is reached
#pragma once

#include <map>
#include <vector>

#include "fuzz/fuzz.h"
#include "lacuna/core/text/json.h"

namespace lacuna::fuzz {

class Damaged {
 public:
  // A directory that is whole; small, because it is kept in memory, too.
  explicit Damaged(fs::path path) : path_(std::move(path)) {
    for (const auto& entry : fs::recursive_directory_iterator(path_))
      if (entry.is_regular_file())
        files_[fs::relative(entry.path(), path_).string()] = read_text(entry.path());
    for (const auto& [name, bytes] : files_) names_.push_back(name);
  }

  const fs::path& path() const { return path_; }

  // Damages it, calls read(), and mends it.
  template <class Read>
  void read(const uint8_t* data, size_t size, Read&& read) const {
    if (size == 0) return;
    const std::string& name = names_[(data[0] & 63) % names_.size()];
    const std::string contents = data[0] & 64 ? patched(files_.at(name), data + 1, size - 1)
                                              : std::string(text_of(data + 1, size - 1));
    write_file(path_ / name, contents);
    if (data[0] & 128 && name != kManifest) make_manifest_fit(name, contents);
    read();
    write_file(path_ / name, files_.at(name));
    if (files_.contains(kManifest)) write_file(path_ / kManifest, files_.at(kManifest));
  }

 private:
  static constexpr const char* kManifest = "manifest.json";

  void make_manifest_fit(const std::string& name, const std::string& contents) const {
    if (!files_.contains(kManifest)) return;
    Json manifest = Json::parse(files_.at(kManifest));
    if (!manifest.at("files").contains(name)) return;
    manifest["files"][name]["bytes"] = contents.size();
    manifest["files"][name]["xxh3"] = hex(hash64(contents));
    manifest.erase("checksum");  // opens as not checked
    write_file(path_ / kManifest, manifest.dump());
  }

  fs::path path_;
  std::map<std::string, std::string> files_;
  std::vector<std::string> names_;
};

}  // namespace lacuna::fuzz
