// A child process for LMDB, where the database may be damaged.
//
// LMDB keeps no checksums and trusts its pages: a damaged one can crash the reader or make it loop
// forever. Code that touches such a database therefore runs in a child process, and the parent
// reports what the child died of. lmdb_records.h walks through a database this way;
// masks/verify_masks.h finds out what is wrong with a store.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace lacuna {

class LmdbChild {
 public:
  // Starts a child that calls work(fd), where fd is a pipe to the parent, and ends. It shares no
  // memory with the parent, writes nothing to the terminal, leaves no core file, and does not
  // outlive the thread that started it. `work` must not throw.
  explicit LmdbChild(const std::function<void(int fd)>& work);
  ~LmdbChild();  // kills a child that is still working
  LmdbChild(const LmdbChild&) = delete;
  LmdbChild& operator=(const LmdbChild&) = delete;

  // The next bytes that the child has written; returns how many, 0 when it has ended.
  size_t read(std::span<std::byte> bytes);
  // What the child died of, once read() has returned 0: "Bus error", "it goes in circles", "exit
  // code 1". Nothing where it ended normally.
  std::optional<std::string> death();

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

// ---- for the child

// Writes all bytes into the pipe; ends the process where nobody is left to read them.
void send_to_parent(int fd, std::span<const std::byte> bytes);

// Ends the process when it works longer than this, which means that LMDB goes in circles. Time
// spent waiting for the disk or the parent does not count. 0: no limit.
void limit_lmdb_work(long seconds);
// More than enough for some tens of values, which take microseconds.
constexpr long kLongLmdbWork = 1;

}  // namespace lacuna
