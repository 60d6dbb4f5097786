// Transforms as people write them: YAML, see transforms.h for what is in it.
#pragma once

#include <yaml-cpp/yaml.h>

#include "lacuna/core/system/file.h"
#include "lacuna/core/text/json.h"

namespace lacuna {

// Words without quotes that are numbers, true or false become these; all else is text.
Json transform_settings(const YAML::Node& node);
// Of a file, which may have them under the key `transforms`. Throws Error naming the file.
Json read_transform_settings(const fs::path& file);

}  // namespace lacuna
