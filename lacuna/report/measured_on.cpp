#include "lacuna/report/measured_on.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "lacuna/core/text/text.h"
#include "lacuna/run/compare/config_difference.h"
#include "lacuna/run/json_file.h"

namespace lacuna::report {
namespace {

constexpr size_t kNamed = 8;

// "a, b, c, ..."
std::string listed(const std::vector<std::string>& all) {
  const size_t shown = std::min(all.size(), kNamed);
  return fmt::format("{}{}", fmt::join(all.begin(), all.begin() + ptrdiff_t(shown), ", "),
                     all.size() > shown ? ", ..." : "");
}

void compare_settings(const RunContents& run, const std::string& config,
                      std::vector<std::string>& out) {
  if (config.empty()) {
    out.push_back("The file does not say with which settings it was measured.");
    return;
  }
  auto here = run.settings, there = settings_of(config, "the config of the profile");
  std::set<std::string> keys;
  for (auto* settings : {&here, &there}) {
    settings->erase("screen");  // its contents are compared
    settings->erase("recording");
    for (const auto& [key, value] : *settings) keys.insert(key);
  }
  const auto shown = [](const std::string& value) { return value.empty() ? "not set" : value; };
  std::vector<std::string> differing;
  for (const std::string& key : keys)
    if (!is_same_setting(key, here[key], there[key]))
      differing.push_back(
          fmt::format("{} {} (this run: {})", key, shown(there[key]), shown(here[key])));
  if (!differing.empty())
    out.push_back("Measured with other settings than this run's: " + listed(differing) + ".");
}

void compare_data(const RunContents& run, const std::string& place, const Fingerprint& other,
                  std::vector<std::string>& out) {
  const char* const kind = run.is_recording() ? "recording" : "screen";
  if (other.parts().empty() || run.info.fingerprint.parts().empty()) {
    out.push_back(fmt::format("The {} does not say on which {} it was {}.",
                              other.parts().empty() ? "file" : "run", kind,
                              other.parts().empty() ? "measured" : "trained"));
    return;
  }
  const auto parts = differing_parts(run, other);
  if (!parts.empty())
    out.push_back(fmt::format("Measured on another {} than this run's: {}, whose {} differ.", kind,
                              place, listed(parts)));
}

}  // namespace

std::vector<std::string> differing_parts(const RunContents& run, const Fingerprint& other) {
  auto parts = run.info.fingerprint.differing_parts(other);
  if (run.is_shuffled())
    std::erase_if(parts, [](const std::string& part) {
      return part.starts_with("edges ") || part.starts_with("values ");
    });
  return parts;
}

std::vector<std::string> differences(const RunContents& run, const StepProfile& profile) {
  std::vector<std::string> out;
  compare_settings(run, profile.config, out);
  compare_data(run, data_path_of(profile.data), data_fingerprint_of(profile.data), out);
  if (!run.info.device.empty() && !profile.device.empty() && run.info.device != profile.device)
    out.push_back(fmt::format("Measured on {}, while this run was trained on {}.", profile.device,
                              run.info.device));
  return out;
}

std::vector<std::string> differences(const RunContents& run, const Ladder& ladder) {
  std::vector<std::string> out;
  compare_data(run, ladder.screen, ladder.fingerprint, out);
  const std::string batch = run.setting("train.batch");
  if (!batch.empty() && !is_same_setting("train.batch", batch, std::to_string(ladder.batch)))
    out.push_back(fmt::format("Measured with batch {}, while this run was trained with {}.",
                              with_commas(ladder.batch), batch));
  return out;
}

}  // namespace lacuna::report
