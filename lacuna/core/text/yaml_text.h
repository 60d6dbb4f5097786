// YAML text that may be damaged, or crafted to do harm.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <string>

namespace lacuna {

// Many times what a config needs. Without bounds a small file can take all memory.
constexpr size_t kYamlBytes = 1'000'000;
constexpr int kYamlDepth = 20;  // lists and maps inside each other

// One document, without aliases (`*name` stands for other text, and a few lines of them can stand
// for gigabytes). `where` names the text in messages: a path. Throws Error with the line for text
// that is not YAML, is beyond the bounds, or has a second document, which would be ignored.
YAML::Node load_yaml(const std::string& text, const std::string& where);

}  // namespace lacuna
