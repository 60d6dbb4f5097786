// Where a benchmark puts what it makes.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include "lacuna/core/error.h"
#include "lacuna/core/file.h"

namespace lacuna::cli {

// A folder of our own, gone at the end with all that lies in it.
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

}  // namespace lacuna::cli
