// Signals that ask a long work to stop: SIGINT, SIGTERM, and SIGUSR1, a scheduler's warning.
#pragma once

#include <atomic>

namespace lacuna::cli {

// What the program returns when it was stopped and can be resumed (EX_TEMPFAIL).
inline constexpr int kResumeMe = 75;

// From now on these signals set the flag. A second SIGINT ends the process at once.
const std::atomic<bool>& stop_on_signals();

// What the program returns after the subcommand has ended: kResumeMe, or 1 for "no".
void set_exit_code(int code);
int exit_code();

}  // namespace lacuna::cli
