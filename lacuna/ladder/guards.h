// Guards: what is about to be loaded or written, against what the machine has, before anything is.
//
// Memory is what the system calls available, within the cgroups' limits (core/system/memory.h) and
// those of the process (ulimit), not what this process happens to use; disk is what this user may
// still write in the folder concerned.
// Both leave a margin: kRoom times the bytes must be free.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "lacuna/core/system/file.h"

namespace lacuna {

inline constexpr double kRoom = 1.2;

struct Room {
  uint64_t needed = 0;  // without the margin
  uint64_t free = 0;

  // What is left for more, with the margin kept.
  uint64_t left() const {
    const auto most = uint64_t(double(free) / kRoom);
    return most > needed ? most - needed : 0;
  }
  bool fits() const { return double(needed) * kRoom <= double(free); }
};
uint64_t free_memory();  // now, within all these limits
Room memory_room(uint64_t needed);
Room disk_room(uint64_t needed, const fs::path& folder);  // the folder, or one above it, exists

// Throws Error with both numbers, and `remedy` behind them, unless it fits.
void check_memory_room(uint64_t needed, const std::string& what, const std::string& remedy);
void check_disk_room(uint64_t needed, const fs::path& folder, const std::string& what,
                     const std::string& remedy);

// Looks, while it lives, once a second at the memory that is available, and calls `warn` from its
// own thread, once, when less than `least` is left: before the system kills somebody, or memory is
// refused.
class MemoryWatch {
 public:
  explicit MemoryWatch(std::function<void(const std::string&)> warn, uint64_t least = 0,
                       std::function<uint64_t()> available = {},
                       std::chrono::milliseconds every = std::chrono::seconds(1));
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // 5% of the machine's memory, or of the cgroup's or the process's limit where that is less; at
  // least 256 MB, but never more than a tenth of it.
  static uint64_t default_least();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lacuna
