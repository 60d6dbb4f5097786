// The name of a directory format and the files that it writes: starting a directory afresh removes
// those files, and nothing that somebody else has put there.
#pragma once

#include <string>
#include <vector>

#include "lacuna/core/system/file.h"

namespace lacuna {

struct DirectoryFormat {
  std::string name;  // "lacuna.screen"
  int version = 1;
  // Patterns of the files beside the manifest, relative to the directory. '*' stands for anything
  // but '/', as in "nodes/*.npy".
  std::vector<std::string> files;

  bool writes(const std::string& file) const;
};

// Throws Error naming something in the directory that the format does not write.
void check_holds_only(const fs::path& directory, const DirectoryFormat& format);
// Removes the format's files, and those of its folders that are empty then. Manifests stay.
void remove_files(const fs::path& directory, const DirectoryFormat& format);

}  // namespace lacuna
