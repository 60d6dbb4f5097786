// What the directories of a format are called and which files they hold: who starts one afresh
// takes away what the format wrote, and nothing that somebody else has put there.
#pragma once

#include <string>
#include <vector>

#include "lacuna/core/system/file.h"

namespace lacuna {

struct DirectoryFormat {
  std::string name;  // "lacuna.screen"
  int version = 1;
  // Beside the manifest, relative to the directory. '*' stands for anything but '/', as in
  // "nodes/*.npy".
  std::vector<std::string> files;

  bool writes(const std::string& file) const;
};

// Throws Error naming something in the directory that the format does not write.
void check_holds_only(const fs::path& directory, const DirectoryFormat& format);
// Removes the format's files, and those of its folders that are empty then. The manifest stays,
// finished or not.
void remove_files(const fs::path& directory, const DirectoryFormat& format);

}  // namespace lacuna
