// For tests only: a process that is killed at its k-th change of the disk.
//
//   for (int k = 0; killed_at(k, [&] { write(); }); ++k) { ... check what is on disk now ... }
//
// Replaces the C library's pwrite(), fsync(), rename(), unlink() and remove() in the program of
// which one file includes this: they count while a child writes, and end it as SIGKILL would, a
// pwrite() also after half of its bytes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

namespace lacuna {

inline int steps_left = -1;  // below 0: not counting

inline bool is_last_step() { return steps_left >= 0 && steps_left-- == 0; }
inline void count_step() {
  if (is_last_step()) ::_exit(7);
}

// Runs write() in a child that ends at its k-th step (from 0). False when it had fewer and came to
// its end.
template <class F>
bool killed_at(int k, F&& write) {
  const pid_t child = ::fork();
  if (child == 0) {
    steps_left = k;
    try {
      write();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the child threw: %s\n", error.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 7));
  return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

}  // namespace lacuna

extern "C" {
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t place) {
  lacuna::count_step();
  if (lacuna::is_last_step()) {
    ::syscall(SYS_pwrite64, fd, bytes, count / 2, place);
    ::_exit(7);
  }
  return ::syscall(SYS_pwrite64, fd, bytes, count, place);
}
int fsync(int /*fd*/) {  // a killed process loses nothing that was written: no disk to wait for
  lacuna::count_step();
  return 0;
}
int rename(const char* from, const char* to) noexcept {
  lacuna::count_step();
  return int(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int unlink(const char* path) noexcept {
  lacuna::count_step();
  return int(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
int remove(const char* path) noexcept {
  lacuna::count_step();
  if (::syscall(SYS_unlinkat, AT_FDCWD, path, 0) == 0) return 0;
  return int(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}
}
