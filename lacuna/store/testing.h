// For tests only: damage, and manifests changed by hand.
#pragma once

#include <fstream>
#include <functional>

#include "lacuna/core/testing.h"
#include "lacuna/store/manifest.h"

namespace lacuna {

// Changes a manifest on purpose: it has no checksum afterwards, and opens as not checked.
inline void edit_manifest(const fs::path& directory, const std::function<void(Json&)>& change) {
  Json manifest = read_sealed_json(directory / kManifest).json;
  change(manifest);
  write_file(directory / kManifest, manifest.dump());
}

// In place: the file keeps its size.
inline void flip(const fs::path& file, uint64_t byte, unsigned bit = 0) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(std::streamoff(byte));
  const int found = stream.get();
  stream.seekp(std::streamoff(byte));
  stream.put(char(found ^ 1 << bit));
  ASSERT_TRUE(stream.flush()) << file;
}

}  // namespace lacuna
