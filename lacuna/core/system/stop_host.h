// Stops (stop.h) in a process that is not ours alone, such as Python, which notes Ctrl-C by itself,
// tells only who asks, and goes on afterwards.
#pragma once

namespace lacuna {

// Takes back what ask_to_stop() asked for, once that which was stopped has ended.
void take_back_stop() noexcept;

// Whether the host wants to stop: asked now and then by a thread that waits for a batch. May be
// called from any thread.
using StopQuestion = bool (*)();
void set_stop_question(StopQuestion question) noexcept;
bool is_stop_asked_by_host();  // the answer; false where no question was set

}  // namespace lacuna
