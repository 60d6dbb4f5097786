// Signals that ask long work to stop: SIGINT, SIGTERM, SIGUSR1 (a scheduler's warning), and SIGHUP
// (the terminal was closed), unless the program was started with that one ignored, as nohup does.
#pragma once

namespace lacuna::cli {

// What the program returns when it was stopped and can be resumed (EX_TEMPFAIL).
inline constexpr int kResumeMe = 75;

// From now on these signals ask to stop (core/system/stop.h). A second SIGINT ends the process at
// once.
void stop_on_signals();

// What the program returns after the subcommand has ended: kResumeMe, or 1 for "no".
void set_exit_code(int code);
int exit_code();

}  // namespace lacuna::cli
