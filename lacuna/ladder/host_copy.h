// One copy of some bytes a host, shared by all processes of a user that ask for the same ones.
//
//   const auto copy = HostCopy::share({key, cuts}, fill);  // loaded by now, by whoever came first
//   copy->bytes();                                         // read only
//
// The bytes lie in memory without a file (memfd), which no mount bounds and which is gone with the
// last process that uses it, however that ends. Unrelated processes find each other by a socket in
// the abstract namespace, named by user and key: who connects is handed the memory, and the socket
// itself, so that everybody who holds the memory also serves it. Nothing is left on any disk.
//
// Loading goes piece by piece under a lock inside the memory. When a process is killed while it
// loads, the kernel passes the lock on, and the next one goes on with the piece that was not done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"

namespace lacuna {

struct HostCopyPlan {
  uint64_t key = 0;  // a hash of everything that the bytes depend on
  // Piece i is bytes cuts[i] to cuts[i + 1] - 1; cuts[0] is 0, the last one the number of bytes.
  std::vector<uint64_t> cuts = {0};
  std::string words = {};  // for messages: "frames of session m1"
};

class HostCopy {
 public:
  // Writes the bytes of piece i to `out`. What it throws passes through share(); others may try
  // again.
  using Fill = std::function<void(uint64_t piece, std::span<std::byte> out)>;

  // Whether some process holds the bytes already, loaded or being loaded.
  static bool is_held(const HostCopyPlan& plan);
  // Returns when all pieces are loaded; progress: bytes, on top of `done`. Throws Error where the
  // system gives no memory or another user has taken the name; Stopped.
  static std::shared_ptr<const HostCopy> share(const HostCopyPlan& plan, const Fill& fill,
                                               Progress& progress = Progress::none(),
                                               uint64_t done = 0);
  ~HostCopy();
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  std::span<const std::byte> bytes() const;
  // Pages of it that are in memory, whoever touched them.
  uint64_t resident_bytes() const;
  uint64_t pieces_loaded_here() const;  // by this object

 private:
  struct State;
  explicit HostCopy(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lacuna
