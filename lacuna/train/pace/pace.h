// How long a training will take on this machine, and with how many threads: from measured steps.
//
// Steps are timed as the trainer takes them (loop.h), with an optimiser and a feed of their own,
// and weights and buffers are put back: the training behind them has the same bits as without them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lacuna/train/task.h"

namespace lacuna {

// Seconds of one step: the fastest of a few, one where it takes over a second, behind one that is
// not counted, since a model may make things in it. The task is alone in its group.
double time_step(Task& task);

// The number of threads whose step is fastest, by `time` (seconds with so many threads); more of
// them must be a tenth faster than fewer. candidates: ascending, at least one.
int fastest_threads(const std::vector<int>& candidates, const std::function<double(int)>& time);

// `train.compute_threads: auto` of a training on the CPU becomes a number in the task's config, and
// torch uses so many. A run that goes on keeps what it had. One thread where a step is too small
// for more (session.h), and OMP_NUM_THREADS where that is set, are taken as they are, and so is
// what torch has with several ranks, for a recording, and where nothing may be measured; else a
// step is timed with one thread, half of the cores and all. run: that goes on, or null.
void settle_threads(Task& task, const Run* run, bool may_measure, const Note& note);

// What is left of a training that begins, without its validations.
struct Pace {
  double step_seconds = 0;
  uint64_t steps_an_epoch = 0, epochs = 0;
  bool is_cpu = true;
  int threads = 1;  // on the CPU
  double seconds() const { return step_seconds * double(steps_an_epoch) * double(epochs); }
};
Pace measure_pace(Task& task);
// "about 2 h 10 min here: 31 ms a step, 9,494 steps an epoch, 25 epochs, 2 threads"
std::string words(const Pace& pace);
// What would make it shorter, where it takes over an hour; else empty.
std::string advice(const Pace& pace);

}  // namespace lacuna
