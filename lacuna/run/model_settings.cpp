#include "lacuna/run/model_settings.h"

#include <fmt/ranges.h>

#include <map>

#include "lacuna/core/error.h"
#include "lacuna/core/text/settings.h"

namespace lacuna {
namespace {

// In a function, so that it exists before the first model of any file is added.
std::map<std::string, const char*>& all_defaults() {
  static std::map<std::string, const char*> defaults;
  return defaults;
}

}  // namespace

void add_model_settings(const std::string& name, const char* defaults) {
  const bool is_new = all_defaults().emplace(name, defaults).second;
  LACUNA_ASSERT(is_new);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, defaults] : all_defaults()) names.push_back(name);
  return names;
}

const char* model_defaults(const std::string& name) {
  const auto found = all_defaults().find(name);
  if (found == all_defaults().end())
    throw Error("there is no model '{}'; there are: {}", name, fmt::join(model_names(), ", "));
  return found->second;
}

void complete_model(YAML::Node settings) {
  if (!settings["name"])
    throw Error("the model has no name; there are: {}", fmt::join(model_names(), ", "));
  complete(settings, model_defaults(settings["name"].as<std::string>()), "model");
}

}  // namespace lacuna
