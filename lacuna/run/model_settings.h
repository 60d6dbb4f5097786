// The settings that each model has, by the model's name: what a config needs to know of a model.
//
// A model is made known where it is defined, with torch (nn/model.h); its settings are text and
// stay here, so that a config is read without torch.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

namespace lacuna {

// `defaults` is the YAML text of all settings, `name` among them; it lives as long as the program.
void add_model_settings(const std::string& name, const char* defaults);
std::vector<std::string> model_names();
// Throws Error naming an unknown model, with those that there are.
const char* model_defaults(const std::string& name);
// Adds the settings that were left out. Throws Error naming an unknown model or key.
void complete_model(YAML::Node settings);

}  // namespace lacuna
