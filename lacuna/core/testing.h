// For tests only: a fresh seed for every run, so that random tests meet new cases each time.
//
//   const uint64_t seed = fresh_seed();
//   SCOPED_TRACE(seed);   // a failure prints it; LACUNA_TEST_SEED=<seed> repeats the case
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace lacuna {

inline uint64_t fresh_seed() {
  if (const char* text = std::getenv("LACUNA_TEST_SEED")) return std::strtoull(text, nullptr, 10);
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

}  // namespace lacuna
