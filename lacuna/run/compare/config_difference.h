// Whether two configs ask for the same run.
#pragma once

#include <map>
#include <string>

#include "lacuna/run/config.h"

namespace lacuna {

// Whether two values of a setting mean the same. Numbers are compared as such, paths as places.
bool is_same_setting(const std::string& key, const std::string& a, const std::string& b);
// The first setting (alphabetically) in which two of them differ, with both values: "its train.lr
// is '1e-3', here '3e-4'"; empty where none does.
std::string settings_difference(const std::map<std::string, std::string>& there,
                                const std::map<std::string, std::string>& here);
// The settings of a config (settings_of() of config.h) and the defaults of those that its model has
// and the config leaves out. Throws Error for an unknown model or key.
std::map<std::string, std::string> all_settings(const Config& config);

// The same between the config of a run and one that is asked for, but for `screen` and `store`,
// which may have moved (their fingerprints say whether they are the same); and `auto`, of
// `train.batch` and `train.compute_threads`, agrees with whatever the run found.
std::string config_difference(const Config& run, const Config& asked);

}  // namespace lacuna
