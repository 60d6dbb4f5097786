#include "lacuna/core/system/stop.h"

#include "lacuna/core/system/stop_host.h"

namespace lacuna {
namespace {

std::atomic<int> holders = 0;  // of Unstoppable
std::atomic<StopQuestion> stop_question = nullptr;

}  // namespace

namespace stop_detail {

// 1: a stop was asked for. More: a test (StopAfter) counts down to 1.
std::atomic<int64_t> state = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free, "signal handlers need lock-free atomics");

bool is_due() noexcept {
  if (holders.load(std::memory_order_relaxed) > 0) return false;
  int64_t now = state.load(std::memory_order_relaxed);
  while (now > 1)
    if (state.compare_exchange_weak(now, now - 1)) return now == 2;
  return now == 1;
}

}  // namespace stop_detail

void ask_to_stop() noexcept { stop_detail::state = 1; }
void take_back_stop() noexcept { stop_detail::state = 0; }

void set_stop_question(StopQuestion question) noexcept { stop_question = question; }
bool is_stop_asked_by_host() {
  const StopQuestion question = stop_question;
  return question && question();
}

Unstoppable::Unstoppable() noexcept { ++holders; }
Unstoppable::~Unstoppable() { --holders; }

StopAfter::StopAfter(uint64_t looks) noexcept : all_(looks) {
  stop_detail::state = int64_t(looks) + 1;
}
StopAfter::~StopAfter() { stop_detail::state = 0; }

bool StopAfter::has_asked() const noexcept { return stop_detail::state == 1; }
uint64_t StopAfter::looks() const noexcept {
  return all_ - uint64_t(stop_detail::state.load() - 1);
}

}  // namespace lacuna
