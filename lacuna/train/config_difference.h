// Whether two configs ask for the same run.
#pragma once

#include <map>
#include <string>

#include "lacuna/train/config.h"

namespace lacuna {

// Settings by their full names, "train.lr" -> "1e-3"; a list reads "[a, b]".
std::map<std::string, std::string> flat_settings(const YAML::Node& tree);

// The first setting (alphabetically) in which `asked` differs from the config of a run, with both
// values: "its train.lr is '1e-3', here '3e-4'"; empty where none does. What the model's settings
// leave out counts as its default, numbers are compared as such, paths as places; and `train.batch:
// auto` agrees with whatever the run found. Throws Error for an unknown model or key.
std::string config_difference(const Config& run, const Config& asked);

}  // namespace lacuna
