#include "cli/signals.h"

#include <csignal>
#include <initializer_list>

#include "lacuna/core/system/stop.h"

namespace lacuna::cli {
namespace {

int code = 0;

void on_signal(int number) {
  ask_to_stop();
  if (number == SIGINT) std::signal(SIGINT, SIG_DFL);
}

// nohup ignores SIGHUP for a program that is to outlive its terminal.
bool is_ignored(int number) {
  struct sigaction now = {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

void stop_on_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) std::signal(number, on_signal);
  if (!is_ignored(SIGHUP)) std::signal(SIGHUP, on_signal);
}

void set_exit_code(int value) { code = value; }
int exit_code() { return code; }

}  // namespace lacuna::cli
