#include "lacuna/store/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "lacuna/core/error.h"

namespace lacuna {

DirectoryLock::DirectoryLock(const fs::path& directory, Use use, Wait wait)
    : fd_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) throw_errno(directory.string(), "cannot open");
  const int kind = use == Use::reading ? LOCK_SH : LOCK_EX;
  int result;
  do result = ::flock(fd_, wait == Wait::yes ? kind : kind | LOCK_NB);
  while (result != 0 && errno == EINTR);
  if (result == 0 || errno != EWOULDBLOCK) return;
  ::close(fd_);
  throw Error("{}: in use by another program {}; wait until it has ended", directory.string(),
              use == Use::reading ? "that writes to it" : "that reads it or writes to it");
}

DirectoryLock::~DirectoryLock() { ::close(fd_); }

}  // namespace lacuna
