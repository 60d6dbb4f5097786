// Where a benchmark puts what it makes.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include "lacuna/core/error.h"
#include "lacuna/core/system/file.h"

namespace lacuna::cli {

// A new folder, removed at the end with everything in it.
class Workshop {
 public:
  Workshop(const fs::path& where, const char* what)
      : path_(where / fmt::format("lacuna-{}-{}", what, ::getpid())) {
    std::error_code error;
    if (!fs::create_directory(path_, error))
      throw Error("{}: cannot create: {}; name another folder with --out", path_.string(),
                  error ? error.message() : "it is there already");
  }
  ~Workshop() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Throws UsageError for an output file that could not be written at the end, because its folder
// does not exist. An empty path means no file.
inline void check_folder_of(const fs::path& file, const char* option) {
  if (file.empty()) return;
  const fs::path folder = fs::absolute(file).parent_path();
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw UsageError("{} {}: there is no folder {}; make it first", option, file.string(),
                     folder.string());
  if (fs::is_directory(file, error))
    throw UsageError("{} {}: a folder; name a file", option, file.string());
}

}  // namespace lacuna::cli
