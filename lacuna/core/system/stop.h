// A stop that is asked for from outside: Ctrl-C, a scheduler's warning.
//
// One flag for the process. Signal handlers set it; work that may take longer than a second checks
// it now and then with throw_if_stopped(), which throws Stopped. Whoever began the work turns that
// into a checkpoint, a message, an exit code. A check costs one load, so inner loops may check;
// parallel_for() (threads.h) does before every iteration.
//
// Stopped is not an Error: nothing is wrong. Code that catches std::exception to note a failure
// lets Stopped pass first.
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

// While one lives, a stop waits, in all threads: for short work that must be completed once begun,
// and for what is written because of a stop (a checkpoint).
class Unstoppable {
 public:
  Unstoppable() noexcept;
  ~Unstoppable();
  Unstoppable(const Unstoppable&) = delete;
  Unstoppable& operator=(const Unstoppable&) = delete;
};

// For tests: a stop is asked for just before the `looks`-th check from now on (1: the next one),
// and taken back when this ends. One at a time.
class StopAfter {
 public:
  explicit StopAfter(uint64_t looks) noexcept;
  ~StopAfter();
  StopAfter(const StopAfter&) = delete;
  StopAfter& operator=(const StopAfter&) = delete;

  bool has_asked() const noexcept;
  uint64_t looks() const noexcept;  // checks so far, up to the first that saw the stop
 private:
  uint64_t all_;
};

}  // namespace lacuna
