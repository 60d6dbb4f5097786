// What time it is, for files that say when they were made.
#pragma once

#include <string>

namespace lacuna {

std::string utc_now();  // "2026-11-15T12:58:28Z"

}  // namespace lacuna
