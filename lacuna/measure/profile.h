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
//   communication      with other processes: nothing yet
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
// Weights that change on the way are forgotten; nothing is saved.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/run/config.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

struct ProfileCategory {
  std::string name;
  double ms = 0;     // a step
  double share = 0;  // of the wall time
};

struct StepProfile {
  std::string device;
  std::string machine, date;  // "2 cores of AMD EPYC, 2 threads", "2026-11-15T12:58:28Z"
  std::string config;         // YAML, every setting, paths absolute
  std::string screen;         // where it lies
  Fingerprint fingerprint;    // of genes, edges and features, as run.json has it
  uint64_t steps = 0, batch = 0;
  double wall_ms = 0;                     // a step
  std::optional<double> recorded_ms;      // a step, where it was recorded
  std::vector<ProfileCategory> cpu, gpu;  // idle last; gpu: empty without one
  std::string largest;                    // a sentence
  Json trace;                             // Chrome's trace format
};

// By how much the parts of one side take longer than the wall time, a step: then idle is 0. On the
// CPU that would be an error of ours; the device's parts are measured in other steps.
double excess_ms(const StepProfile& profile, const std::vector<ProfileCategory>& side);

// steps: measured, after a few that are not. Throws Error as train() does.
StepProfile profile_step(const Config& config, uint64_t steps,
                         const std::function<void(const std::string&)>& note);

// profile.json: {"format": "lacuna.profile", "version": 1, ...}, with the config and the screen
// that it was measured on.
Json to_json(const StepProfile& profile);
// Writes profile.json and trace.json into a directory, which is made where it is not there.
void write_profile(const fs::path& directory, const StepProfile& profile);

}  // namespace lacuna
