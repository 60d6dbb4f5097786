// A stop that somebody asks for from outside: Ctrl-C, a scheduler's warning.
//
// One flag for the process. Whoever owns the signals sets it; work that may take longer than a
// second looks at it as it goes, with throw_if_stopped(), and ends in a Stopped there. Whoever
// began the work turns that into a checkpoint, a word, an exit code. A look costs one load, so
// inner loops may look; parallel_for() (core/threads.h) does before every iteration.
//
// Stopped is no Error: nothing is wrong. Whoever catches std::exception to note a failure lets it
// pass first.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

namespace lacuna {

class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped by a signal"; }
};

// From any thread, and from a signal handler. There is no way back.
void ask_to_stop() noexcept;

namespace stop_detail {
extern std::atomic<int64_t> state;  // 0: nobody has asked
bool is_due() noexcept;
}  // namespace stop_detail

inline bool is_stop_asked() noexcept {
  return stop_detail::state.load(std::memory_order_relaxed) != 0 && stop_detail::is_due();
}
inline void throw_if_stopped() {
  if (is_stop_asked()) throw Stopped();
}

// While one lives, nobody has asked: around what must be done whole once it has begun, and around
// what a stop leaves behind (a checkpoint). In all threads, so for short work only.
class Unstoppable {
 public:
  Unstoppable() noexcept;
  ~Unstoppable();
  Unstoppable(const Unstoppable&) = delete;
  Unstoppable& operator=(const Unstoppable&) = delete;
};

// For tests: somebody asks just before the `looks`-th look from now on (1: the next one), and has
// not asked any more when this ends. One at a time.
class StopAfter {
 public:
  explicit StopAfter(uint64_t looks) noexcept;
  ~StopAfter();
  StopAfter(const StopAfter&) = delete;
  StopAfter& operator=(const StopAfter&) = delete;

  bool has_asked() const noexcept;
  uint64_t looks() const noexcept;  // that there were, up to the one that it asked before
 private:
  uint64_t all_;
};

}  // namespace lacuna
