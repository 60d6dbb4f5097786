#include "cli/signals.h"

#include <csignal>
#include <initializer_list>

namespace lacuna::cli {
namespace {

std::atomic<bool> stop = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch such");
int code = 0;

void on_signal(int number) {
  stop = true;
  if (number == SIGINT) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

const std::atomic<bool>& stop_on_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) std::signal(number, on_signal);
  return stop;
}

void set_exit_code(int value) { code = value; }
int exit_code() { return code; }

}  // namespace lacuna::cli
