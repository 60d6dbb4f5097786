// The models there are, by name, and the settings of each; see model.h for what a model is. Without
// torch's headers, for who reads a config.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

namespace lacuna {

// Adds the settings that were left out. Throws Error naming an unknown model or key.
void complete_model(YAML::Node settings);
std::vector<std::string> model_names();
const char* model_defaults(const std::string& name);  // the YAML text; throws Error as above

}  // namespace lacuna
