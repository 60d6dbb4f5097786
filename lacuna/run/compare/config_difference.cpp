#include "lacuna/run/compare/config_difference.h"

#include <fmt/ranges.h>

#include <set>

#include "lacuna/run/model_settings.h"

namespace lacuna {
namespace {

using Flat = std::map<std::string, std::string>;

}  // namespace

bool is_same_setting(const std::string& key, const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (is_place(key))
    return !a.empty() && !b.empty() &&
           fs::weakly_canonical(fs::absolute(a)) == fs::weakly_canonical(fs::absolute(b));
  double x = 0, y = 0;
  return YAML::convert<double>::decode(YAML::Node(a), x) &&
         YAML::convert<double>::decode(YAML::Node(b), y) && x == y;
}

Flat all_settings(const Config& config) {
  const YAML::Node tree = YAML::Clone(config.resolved);
  complete_model(tree["model"], config.kind());
  return settings_of(tree);
}

std::string config_difference(const Config& run, const Config& asked) {
  Flat there = all_settings(run), here = all_settings(asked);
  // A run names the sessions that there were when it was begun.
  if (here.contains("sessions") && here.at("sessions") == "[]")
    here.at("sessions") = there["sessions"];
  if (here.at("train.batch") == "auto") here.at("train.batch") = there.at("train.batch");
  // What the run measured, too.
  constexpr const char* kThreads = "train.compute_threads";
  if (here.contains(kThreads) && here.at(kThreads) == "auto") here.at(kThreads) = there[kThreads];
  for (Flat* settings : {&there, &here})
    std::erase_if(*settings, [](const auto& setting) { return is_place(setting.first); });
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
    if (!there.contains(key) || !here.contains(key) ||
        !is_same_setting(key, there.at(key), here.at(key)))
      return fmt::format("its {} is {}, here {}", key, shown(there, key), shown(here, key));
  return "";
}

}  // namespace lacuna
