// How lengthy work reports what it does. The library never prints: its caller gives it a Progress.
//
// begin(), any number of advance() with growing `done`, then end(); all from the thread that called
// the library.
#pragma once

#include <cstdint>
#include <string_view>

namespace lacuna {

// A loop over samples calls advance() once in so many.
inline constexpr uint64_t kReportEvery = 1 << 16;

class Progress {
 public:
  virtual ~Progress() = default;
  virtual void begin(std::string_view /*task*/, uint64_t /*total, 0 = unknown*/,
                     std::string_view /*unit*/) {}
  virtual void advance(uint64_t /*done*/) {}
  virtual void end() {}

  // Ignores everything.
  static Progress& none() {
    static Progress silent;
    return silent;
  }
};

}  // namespace lacuna
