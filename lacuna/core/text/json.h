// JSON text from anywhere: a manifest may be damaged, or made to do harm.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "lacuna/core/system/file.h"

namespace lacuna {

using Json = nlohmann::ordered_json;

// Brackets inside brackets. What Lacuna writes has less than ten; without a bound, 100,000 of them
// take gigabytes.
constexpr int kJsonDepth = 100;

// `where` names the text in messages: a path. Throws Error for text that is not JSON (with the byte
// at which that shows), for a number beyond those of f64, and for brackets nested deeper than
// kJsonDepth.
Json parse_json(std::string_view text, std::string_view where);
Json read_json(const fs::path& path);

}  // namespace lacuna
