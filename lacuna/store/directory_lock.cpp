#include "lacuna/store/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// The descriptor of the open, locked directory; -1 where others exclude this use.
int open_locked(const fs::path& directory, DirectoryLock::Use use, DirectoryLock::Wait wait) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_errno(directory.string(), "cannot open");
  const int kind = use == DirectoryLock::Use::reading ? LOCK_SH : LOCK_EX;
  int result;
  do result = ::flock(fd, wait == DirectoryLock::Wait::yes ? kind : kind | LOCK_NB);
  while (result != 0 && errno == EINTR);
  if (result == 0 || errno != EWOULDBLOCK) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

std::unique_ptr<DirectoryLock> DirectoryLock::attempt(const fs::path& directory, Use use) {
  const int fd = open_locked(directory, use, Wait::no);
  return std::unique_ptr<DirectoryLock>(fd < 0 ? nullptr : new DirectoryLock(fd));
}

DirectoryLock::DirectoryLock(const fs::path& directory, Use use, Wait wait)
    : fd_(open_locked(directory, use, wait)) {
  if (fd_ >= 0) return;
  throw Error("{}: in use by another program {}; wait until it has ended", directory.string(),
              use == Use::reading ? "that writes to it" : "that reads it or writes to it");
}

DirectoryLock::~DirectoryLock() { ::close(fd_); }

}  // namespace lacuna
