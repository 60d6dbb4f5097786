// The settings that each model has, by the model's name: what a config needs to know of a model.
//
// A model is made known where it is defined, with torch (nn/model.h); its settings are text and
// stay here, so that a config is read without torch.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

namespace lacuna {

enum class DataKind { screen, recording };  // what a model is trained on

// `defaults` is the YAML text of all settings, `name` among them; it lives as long as the program.
// False where there is a model of that name already (refuse_model() of plugin/), which stays.
bool add_model_settings(const std::string& name, const char* defaults,
                        DataKind kind = DataKind::screen);
std::vector<std::string> model_names(DataKind kind = DataKind::screen);
// Throws Error naming an unknown model, with those that there are.
const char* model_defaults(const std::string& name, DataKind kind = DataKind::screen);
// Adds the settings that were left out. Throws Error naming an unknown model or key.
void complete_model(YAML::Node settings, DataKind kind = DataKind::screen);

}  // namespace lacuna
