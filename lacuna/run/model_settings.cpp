#include "lacuna/run/model_settings.h"

#include <fmt/ranges.h>

#include <map>

#include "lacuna/core/error.h"
#include "lacuna/core/text/settings.h"
#include "lacuna/run/plugin/plugin.h"

namespace lacuna {
namespace {

// In a function, so that it exists before the first model of any file is added.
std::map<std::string, const char*>& all_defaults(DataKind kind) {
  static std::map<DataKind, std::map<std::string, const char*>> defaults;
  return defaults[kind];
}

}  // namespace

bool add_model_settings(const std::string& name, const char* defaults, DataKind kind) {
  const bool is_new = all_defaults(kind).emplace(name, defaults).second;
  if (!is_new)
    refuse_model(fmt::format("there is a model '{}' already; give yours another name", name));
  return is_new;
}

std::vector<std::string> model_names(DataKind kind) {
  std::vector<std::string> names;
  for (const auto& [name, defaults] : all_defaults(kind)) names.push_back(name);
  return names;
}

const char* model_defaults(const std::string& name, DataKind kind) {
  const auto found = all_defaults(kind).find(name);
  if (found == all_defaults(kind).end())
    throw Error("there is no model '{}'; there are: {}{}", name, fmt::join(model_names(kind), ", "),
                kind == DataKind::screen ? " (one of your own: --plugin)" : "");
  return found->second;
}

void complete_model(YAML::Node settings, DataKind kind) {
  if (!settings["name"])
    throw Error("the model has no name; there are: {}", fmt::join(model_names(kind), ", "));
  complete(settings, model_defaults(settings["name"].as<std::string>(), kind), "model");
}

}  // namespace lacuna
