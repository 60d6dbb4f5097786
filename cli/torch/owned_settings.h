// Keys of a config that a command decides itself.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lacuna/core/error.h"

namespace lacuna::cli {

// Throws UsageError where one of `settings` ("key=value") sets a key of `owned`, which says for
// each what decides it.
inline void refuse_owned(const std::vector<std::string>& settings,
                         const std::map<std::string, std::string>& owned) {
  for (const std::string& setting : settings) {
    const auto found = owned.find(setting.substr(0, setting.find('=')));
    if (found != owned.end())
      throw UsageError("--set {}: {} is decided by {}; leave it out", setting, found->first,
                       found->second);
  }
}

}  // namespace lacuna::cli
