#include "lacuna/run/compare/config_difference.h"

#include <fmt/ranges.h>

#include <set>

#include "lacuna/run/model_settings.h"

namespace lacuna {
namespace {

using Flat = std::map<std::string, std::string>;

std::string text_of(const YAML::Node& node) {
  if (!node.IsSequence()) return node.IsNull() ? "" : node.as<std::string>();
  std::vector<std::string> items;
  for (const YAML::Node& item : node) items.push_back(text_of(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

void flatten(const YAML::Node& node, const std::string& where, Flat& out) {
  for (const auto& entry : node) {
    const std::string key = where + entry.first.as<std::string>();
    if (entry.second.IsMap())
      flatten(entry.second, key + ".", out);
    else
      out[key] = text_of(entry.second);
  }
}

bool is_same(const std::string& key, const std::string& run, const std::string& asked) {
  if (run == asked) return true;
  if (key == "screen" || key == "store")
    return !run.empty() && !asked.empty() &&
           fs::weakly_canonical(fs::absolute(run)) == fs::weakly_canonical(fs::absolute(asked));
  double a = 0, b = 0;
  return YAML::convert<double>::decode(YAML::Node(run), a) &&
         YAML::convert<double>::decode(YAML::Node(asked), b) && a == b;
}

}  // namespace

Flat all_settings(const Config& config) {
  const YAML::Node tree = YAML::Clone(config.resolved);
  complete_model(tree["model"]);
  Flat settings;
  flatten(tree, "", settings);
  return settings;
}

std::string config_difference(const Config& run, const Config& asked) {
  Flat there = all_settings(run), here = all_settings(asked);
  if (here.at("train.batch") == "auto") here.at("train.batch") = there.at("train.batch");
  for (const char* key : {"screen", "store"}) {
    there.erase(key);
    here.erase(key);
  }
  return settings_difference(there, here);
}

std::string settings_difference(const Flat& there, const Flat& here) {
  const auto shown = [](const Flat& settings, const std::string& key) {
    return settings.contains(key) ? "'" + settings.at(key) + "'" : "not set";
  };
  std::set<std::string> keys;
  for (const Flat* settings : {&there, &here})
    for (const auto& [key, value] : *settings) keys.insert(key);
  for (const std::string& key : keys)
    if (!there.contains(key) || !here.contains(key) || !is_same(key, there.at(key), here.at(key)))
      return fmt::format("its {} is {}, here {}", key, shown(there, key), shown(here, key));
  return "";
}

}  // namespace lacuna
