// What of a recording's frames fits where the chosen way does not, in words with numbers, for a
// message: other rungs, fewer sessions, a lower rate, a lower resolution.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/ladder/recording_rungs.h"
#include "lacuna/recording/recording.h"
#include "lacuna/recording/transforms/derive_recording.h"

namespace lacuna {

struct FitRequest {
  Rung rung;  // that does not fit: ram:* and tiered into memory, disk:* onto a disk
  std::string field = "stim";
  std::vector<std::string> sessions = {};  // those that are read; empty: all
  uint64_t room = 0;                       // bytes that frames may take: the margin is taken off
};

// Compresses a few frames to say what chunks would take, which takes a tenth of a second.
std::string what_fits(const Recording& recording, const FitRequest& request);

// Ways to have less of frames that take so many bytes a session, each with what it takes: fewer
// sessions, a lower rate, a lower resolution. Empty where all fit. frame: [Y, X]
std::vector<std::string> smaller_ways(const std::vector<double>& session_bytes, double room,
                                      const Shape& frame);

// Before transforms are written to `out`: throws Error with both numbers and what would fit, unless
// 1.2 times the bytes are free there.
void check_derive_room(const DeriveNeed& need, const fs::path& out);

}  // namespace lacuna
