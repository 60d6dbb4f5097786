// JSON text that may be damaged, or crafted to do harm.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "lacuna/core/system/file.h"

namespace lacuna {

using Json = nlohmann::ordered_json;

// Brackets inside brackets. What Lacuna writes has fewer than ten; without a bound, 100,000 of them
// take gigabytes.
constexpr int kJsonDepth = 100;

// `where` names the text in messages: a path. Throws Error for text that is not JSON (with the byte
// at which that shows), for a number too large for f64, and for brackets nested deeper than
// kJsonDepth.
Json parse_json(std::string_view text, std::string_view where);
Json read_json(const fs::path& path);

}  // namespace lacuna
