// Windows: the samples of a recording. Window i is a time t of a segment with what a model reads
// at it: lagged rows of the stimulus (newest first: t, t - 1, ..), of spike history and of
// behaviour, and one target row of the counts, or a run of them.
//
//   const Windows windows(recording, {.stimulus = {.field = "stim", .lags = 33}});
//   windows.size();
//   const Window w = windows.at(i);  // {session, segment, t}
//
// A window never reaches across a trial, a gap in time or the ends of a segment, and no row that it
// reads is invalid (the field's own validity; NaN in behaviour). Windows are kept as runs of
// consecutive t, so that 100 million of them take a few kilobytes; at() searches among runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lacuna/recording/recording.h"

namespace lacuna {

struct LaggedField {
  std::string field;
  uint64_t lags = 1;   // rows t - first, t - first - 1, .., newest first
  uint64_t first = 0;  // 1 for spike history: the target itself is not read
};

struct WindowSettings {
  LaggedField stimulus = {.field = "stim", .lags = 33};
  std::vector<LaggedField> inputs = {};    // behaviour, spike history
  std::string counts = "robs";             // the target
  std::string validity = {};               // of units; empty: the field of that role, if any
  uint64_t target_rows = 1;                // rows t, t + 1, .. t + target_rows - 1
  uint64_t step = 1;                       // down-sampling in time: bins a row
  std::vector<std::string> sessions = {};  // names; empty: all
  std::vector<std::string> units = {};     // "SESSION/UNIT" or "UNIT"; empty: all
  double most_gap = 1.5;                   // of a bin: a longer step of `time` ends a run
};

struct Window {
  uint32_t session = 0, segment = 0;  // in the recording's order
  uint64_t t = 0;                     // the newest row read as input, and the first target row
};

// Consecutive windows of one segment: t = begin .. end - 1.
struct WindowRun {
  uint32_t session = 0, segment = 0;
  uint64_t begin = 0, end = 0;
  int64_t trial = -1;  // where trials are known

  uint64_t size() const { return end - begin; }
};

class Windows {
 public:
  // Throws Error naming field and session: a field that is missing, a window longer than every
  // trial, a NaN in a row that a window would serve as a target or frame.
  Windows(const Recording& recording, const WindowSettings& settings);
  // Those of a part of a split, or of given numbers: shares everything else.
  Windows only(std::vector<WindowRun> runs) const;

  const Recording& recording() const { return recording_; }
  const WindowSettings& settings() const { return settings_; }
  const std::vector<WindowRun>& runs() const { return runs_; }
  uint64_t size() const { return first_.back(); }
  Window at(uint64_t window) const;  // window < size()
  // Of each session of the recording, the windows [first, last): they are numbered by session.
  std::pair<uint64_t, uint64_t> of_session(uint32_t session) const;
  // Columns of counts and validity to take, by session.
  std::span<const uint32_t> units_of(uint32_t session) const { return units_[session]; }

 private:
  Recording recording_;
  WindowSettings settings_;
  std::vector<WindowRun> runs_;
  std::vector<uint64_t> first_;  // [runs + 1] number of a run's first window
  std::vector<std::vector<uint32_t>> units_;
};

}  // namespace lacuna
