// Where the time of a training step goes.
//
// Runs the steps of a config as `lacuna train` does (loader, feed, forward, backward, update, a
// look at the loss every log_every steps), and says what the thread that trains did with its time.
// Every moment belongs to one category, so they add up to the wall time:
//
//   load, copy         waiting for the loader; laying a batch out and sending it to the device
//   masks              making masks: nothing on rung `kernel`
//   aggregation, mlp, merge, heads, other     the forward pass; other: what is left of it, the
//                      loss, and scopes (core/scope.h) of any other name
//   backward, optimiser
//   communication      with the other ranks: what is waited for, not what goes on meanwhile. Of
//                      each rank it is said beside how long the same sums take on their own
//   logging
//   idle               none of these; on a GPU mostly the host waiting for it
//
// On a GPU the same categories are measured on the device too. A step that is sent launch by launch
// leaves the device waiting for the host here and there, and an event before and after cannot tell
// waiting from work. So the device's share is measured in steps of their own, sent while the device
// is still busy with something else: then it finds its work ready. What is left of the wall time is
// its idle time. A recorded step (train/step.h) cannot be taken apart; how long it takes is said
// beside.
//
// Where there are several ways to compute a part, on a GPU with one kernel or in pieces, the way
// that was taken is named (tell_way() of core/scope.h).
//
// Weights that change on the way are forgotten; nothing is saved. run/profile_file.h has the result
// and its file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lacuna/run/config.h"
#include "lacuna/run/profile_file.h"
#include "lacuna/train/group.h"

namespace lacuna {

// steps: measured, after a few that are not. Of several ranks it says what this one did, and of all
// what they spent on communication. Throws Error as train() does.
StepProfile profile_step(const Config& config, uint64_t steps,
                         const std::function<void(const std::string&)>& note,
                         Group& group = Group::alone());

}  // namespace lacuna
