// A directory in use: by any number of readers or by one writer. Held as long as the object lives,
// gone with the process however it ends, and leaves no file behind (flock(2) of the directory).
//
// Some network file systems have no such locks: there it protects nothing.
#pragma once

#include <memory>

#include "lacuna/core/system/file.h"

namespace lacuna {

class DirectoryLock {
 public:
  enum class Use { reading, writing };
  enum class Wait { no, yes };  // yes: where others hold it for a moment only
  // Throws Error when the directory is in use in a way that excludes this one, unless it waits.
  DirectoryLock(const fs::path& directory, Use use, Wait wait = Wait::no);
  // Null instead of the Error.
  static std::unique_ptr<DirectoryLock> attempt(const fs::path& directory, Use use);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace lacuna
