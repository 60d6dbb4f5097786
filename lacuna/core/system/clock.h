// What time it is, for files that say when they were made, and how long something took.
#pragma once

#include <chrono>
#include <string>

namespace lacuna {

std::string utc_now();  // "2026-11-15T12:58:28Z"

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace lacuna
