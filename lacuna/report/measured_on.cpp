#include "lacuna/report/measured_on.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "lacuna/core/text/text.h"

namespace lacuna::report {
namespace {

constexpr size_t kNamed = 8;

std::string unquoted(std::string text) {
  const bool is_quoted = text.size() >= 2 && text.front() == text.back() &&
                         (text.front() == '"' || text.front() == '\'');
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

bool is_same(const std::string& a, const std::string& b) {
  if (a == b) return true;
  char *end_a = nullptr, *end_b = nullptr;
  const double x = std::strtod(a.c_str(), &end_a), y = std::strtod(b.c_str(), &end_b);
  return !a.empty() && !b.empty() && *end_a == 0 && *end_b == 0 && x == y;
}

// "a, b, c, ..."
std::string listed(const std::vector<std::string>& all) {
  const size_t shown = std::min(all.size(), kNamed);
  return fmt::format("{}{}", fmt::join(all.begin(), all.begin() + ptrdiff_t(shown), ", "),
                     all.size() > shown ? ", ..." : "");
}

void compare_settings(const Run& run, const std::string& config, std::vector<std::string>& out) {
  if (config.empty()) {
    out.push_back("The file does not say with which settings it was measured.");
    return;
  }
  auto here = settings_of(run.config), there = settings_of(config);
  std::set<std::string> keys;
  for (auto* settings : {&here, &there}) {
    settings->erase("screen");  // its contents are compared
    for (const auto& [key, value] : *settings) keys.insert(key);
  }
  const auto shown = [](const std::string& value) { return value.empty() ? "not set" : value; };
  std::vector<std::string> differing;
  for (const std::string& key : keys)
    if (!is_same(here[key], there[key]))
      differing.push_back(
          fmt::format("{} {} (this run: {})", key, shown(there[key]), shown(here[key])));
  if (!differing.empty())
    out.push_back("Measured with other settings than this run's: " + listed(differing) + ".");
}

void compare_screens(const Run& run, const std::string& place, const Fingerprint& other,
                     std::vector<std::string>& out) {
  if (other.parts().empty() || run.screen_fingerprint.parts().empty()) {
    out.push_back(fmt::format("The {} does not say on which screen it was {}.",
                              other.parts().empty() ? "file" : "run",
                              other.parts().empty() ? "measured" : "trained"));
    return;
  }
  const auto parts = differing_parts(run, other);
  if (!parts.empty())
    out.push_back(fmt::format("Measured on another screen than this run's: {}, whose {} differ.",
                              place, listed(parts)));
}

}  // namespace

std::map<std::string, std::string> settings_of(const std::string& config) {
  std::map<std::string, std::string> settings;
  std::vector<std::pair<size_t, std::string>> blocks;  // indentation and full name, outermost first
  std::string last;                                    // the setting of the line before
  std::istringstream lines(config);
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
    const size_t indent = line.find_first_not_of(' ');
    if (indent == line.npos || line[indent] == '#') continue;
    if (line.compare(indent, 2, "- ") == 0) {  // an item of the list that `last` is
      std::string& list = settings[last];
      const std::string item = unquoted(line.substr(indent + 2));
      list = list.empty() ? "[" + item + "]" : list.substr(0, list.size() - 1) + ", " + item + "]";
      continue;
    }
    const size_t colon = line.find(':', indent);
    if (colon == line.npos) continue;
    while (!blocks.empty() && blocks.back().first >= indent) blocks.pop_back();
    const std::string key = line.substr(indent, colon - indent);
    last = blocks.empty() ? key : blocks.back().second + "." + key;
    const size_t value = line.find_first_not_of(' ', colon + 1);
    if (value == line.npos)
      blocks.push_back({indent, last});
    else
      settings[last] = unquoted(line.substr(value));
  }
  return settings;
}

std::vector<std::string> differing_parts(const Run& run, const Fingerprint& other) {
  auto parts = run.screen_fingerprint.differing_parts(other);
  if (run.is_shuffled())
    std::erase_if(parts, [](const std::string& part) {
      return part.starts_with("edges ") || part.starts_with("values ");
    });
  return parts;
}

std::vector<std::string> differences(const Run& run, const Profile& profile) {
  std::vector<std::string> out;
  compare_settings(run, profile.config, out);
  compare_screens(run, profile.screen_path, profile.screen_fingerprint, out);
  if (!run.device.empty() && !profile.device.empty() && run.device != profile.device)
    out.push_back(fmt::format("Measured on {}, while this run was trained on {}.", profile.device,
                              run.device));
  return out;
}

std::vector<std::string> differences(const Run& run, const Ladder& ladder) {
  std::vector<std::string> out;
  compare_screens(run, ladder.screen_path, ladder.screen_fingerprint, out);
  const std::string batch = run.setting("train.batch");
  if (!batch.empty() && !is_same(batch, std::to_string(ladder.batch)))
    out.push_back(fmt::format("Measured with batch {}, while this run was trained with {}.",
                              with_commas(ladder.batch), batch));
  return out;
}

}  // namespace lacuna::report
