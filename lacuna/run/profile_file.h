// profile.json and trace.json: where the time of a training step went. `lacuna profile`
// (measure/profile.h) measures and writes it, the report shows it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/text/json.h"

namespace lacuna {

struct ProfileCategory {
  std::string name;
  double ms = std::numeric_limits<double>::quiet_NaN();     // a step
  double share = std::numeric_limits<double>::quiet_NaN();  // of the wall time
};

// What one rank did with the sums over all of them, ms a step. What it waited, less `alone`, went
// into waiting for slower ranks; `alone` less what it waited was hidden behind the backward pass.
struct RankCommunication {
  double waited_ms = 0;  // its training thread
  double alone_ms = 0;   // the same gradients summed while nothing else goes on
};

// Of one that was read, texts are empty and numbers 0 or NaN where the file does not say.
struct StepProfile {
  std::string device;
  std::string machine, date;   // "2 cores of AMD EPYC, 2 threads", "2026-11-15T12:58:28Z"
  std::string config;          // YAML, every setting, paths absolute
  Json data = Json::object();  // as in run.json: {"screen": {"path": .., "fingerprint": ..}}
  uint64_t steps = 0, batch = 0;
  uint64_t threads = 0;     // that the CPU's arithmetic had
  uint64_t peak_bytes = 0;  // the most memory: of the process on top of the program, or on a GPU
  uint64_t gradient_bytes = 0;            // of all that is trained
  uint64_t gradient_buckets = 1;          // that ranks sum them in
  double wall_ms = 0;                     // a step
  std::optional<double> recorded_ms;      // a step, where it was recorded
  std::vector<ProfileCategory> cpu, gpu;  // idle last; gpu: empty without one
  std::vector<std::string> ways;          // that were taken where there are several: "mlp: .."
  std::vector<RankCommunication> ranks;   // empty: there was one
  std::string largest;                    // a sentence
  Json trace;                             // Chrome's trace format; not read back
};

// By how much the parts of one side take longer than the wall time, a step: then idle is 0. On the
// CPU that would be an error of ours; the device's parts are measured in other steps.
double excess_ms(const StepProfile& profile, const std::vector<ProfileCategory>& side);

// profile.json: {"format": "lacuna.profile", "version": 1, ...}, with the config and the screen
// that it was measured on.
Json to_json(const StepProfile& profile);
// Writes profile.json and trace.json into a directory, which is made where it is not there.
void write_profile(const fs::path& directory, const StepProfile& profile);
// Throws Error that names the file where it is damaged.
StepProfile read_profile(const fs::path& file);

}  // namespace lacuna
