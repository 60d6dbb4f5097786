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

// Of one that was read, texts are empty and numbers 0 or NaN where the file does not say.
struct StepProfile {
  std::string device;
  std::string machine, date;   // "2 cores of AMD EPYC, 2 threads", "2026-11-15T12:58:28Z"
  std::string config;          // YAML, every setting, paths absolute
  Json data = Json::object();  // as in run.json: {"screen": {"path": .., "fingerprint": ..}}
  uint64_t steps = 0, batch = 0;
  double wall_ms = 0;                     // a step
  std::optional<double> recorded_ms;      // a step, where it was recorded
  std::vector<ProfileCategory> cpu, gpu;  // idle last; gpu: empty without one
  std::vector<std::string> ways;          // that were taken where there are several: "mlp: .."
  std::vector<double> communication_ms;   // a step, by rank; empty: there was one
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
