// Windows: the samples of a recording. Window i is a time t of a segment with what a model reads
// at it: lagged rows of the stimulus (newest first: t, t - 1, ..), of spike history and of
// behaviour, and one target row of the counts, or a run of them.
//
//   const Windows windows(recording, {.stimulus = {.field = "stim", .lags = 33}});
//   windows.size();
//   const Window w = windows.at(i);  // {session, segment, t}
//
// A window never reaches across a trial, a gap in time or the ends of a segment, and no row that it
// reads is invalid:
//   - a validity field of [T] that is named FIELD_valid is FIELD's own: no row of FIELD that a
//     window reads may be 0 there. Any other validity field of [T] ("valid", a dropped eye tracker)
//     goes for every row that a window reads, lagged or target: only runs of valid rows serve;
//   - an input row (behaviour, spike history) with a value that is not finite is invalid;
//   - validity by unit, [T, units], takes no window away: it goes into the batch beside the counts.
// A value that is not finite in a frame, or in a count that the validity does not exclude, is an
// Error: nobody would want to train on it.
//
// Windows are kept as runs of consecutive t, so that 100 million of them take a few kilobytes; at()
// searches among runs. They are numbered by session, segment and time.
//
// Down-sampling in time: with step k, the rows of a trial are taken k at a time from its first on
// (what is left over is dropped), and a window's t is the first bin of such a group. Lags and
// target rows are counted in groups: the stimulus is read at bins t, t - k, t - 2k, .. (taken),
// behaviour is averaged and counts are summed over the k bins of a group; a count is valid where
// all k are.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lacuna/recording/recording.h"

namespace lacuna {

class Transforms;

struct LaggedField {
  std::string field;
  uint64_t lags = 1;  // rows t - first, t - first - 1, .., newest first
  // 1 for spike history: the target itself is not read. Below 0: rows after t (with_target_rows).
  int64_t first = 0;
};

struct WindowSettings {
  LaggedField stimulus = {.field = "stim", .lags = 33};
  std::vector<LaggedField> inputs = {};    // behaviour, spike history
  std::string counts = "robs";             // the target
  std::string validity = {};               // of units; empty: the one by unit, where there is one
  uint64_t target_rows = 1;                // rows t, t + 1, .. t + target_rows - 1
  uint64_t step = 1;                       // down-sampling in time: bins a row
  std::vector<std::string> sessions = {};  // names; empty: all
  std::vector<std::string> segments = {};  // names; empty: all
  std::vector<std::string> units = {};     // "SESSION/UNIT" or "UNIT"; empty: all
  double most_gap = 1.5;                   // of a bin: a longer step of `time` ends a run
  // New fields for inputs (transforms/transforms.h), made when a window is read, of its rows and
  // their halo: nothing is stored. `lacuna transform` writes those for the stimulus.
  Json transforms = Json::object();
};
Json to_json(const WindowSettings& settings);
// The same for a run of `rows` target rows, each with all that a window of one row reads: of L lags
// L + rows - 1 are read, those of the last target row first.
WindowSettings with_target_rows(WindowSettings settings, uint64_t rows);

struct Window {
  uint32_t session = 0, segment = 0;  // in the recording's order
  uint64_t t = 0;                     // the first target row; lags are counted from it
};

// The newest row that a window reads of a field.
inline uint64_t newest_row(const Window& window, const LaggedField& lagged, uint64_t step) {
  return uint64_t(int64_t(window.t) - lagged.first * int64_t(step));
}

// Consecutive windows of one segment: t = begin, begin + step, .. below end.
struct WindowRun {
  uint32_t session = 0, segment = 0;
  uint64_t begin = 0, end = 0;
  int64_t trial = -1;  // where trials are known
  uint64_t step = 1;   // WindowSettings::step

  uint64_t size() const { return (end - begin + step - 1) / step; }
};

class Windows {
 public:
  // Throws Error naming field and session: a field that is missing, a session or segment that does
  // not exist, a window longer than every trial of a session, a NaN in a row that a window would
  // serve as a target or frame, a unit that no session has.
  Windows(const Recording& recording, const WindowSettings& settings);
  // Those of given runs, which must be ordered by session: shares everything else.
  Windows only(std::vector<WindowRun> runs) const;
  // Those whose target rows all lie in this part (screen/samples.h) of a split. Throws Error where
  // there are none.
  Windows of_part(const RecordingSplit& split, std::string_view part) const;

  const Recording& recording() const { return recording_; }
  const WindowSettings& settings() const { return settings_; }
  const std::vector<WindowRun>& runs() const { return runs_; }
  uint64_t size() const { return first_.back(); }
  Window at(uint64_t window) const;  // window < size()
  // Of each session of the recording, the windows [first, last): they are numbered by session.
  std::pair<uint64_t, uint64_t> of_session(uint32_t session) const;
  // Columns of counts and validity to take, by session.
  std::span<const uint32_t> units_of(uint32_t session) const { return units_[session]; }
  // The field of counts' validity by unit; null where a segment has none.
  const Field* validity_of(uint32_t session, uint32_t segment) const;
  const Transforms* transforms() const { return transforms_.get(); }  // null: none

 private:
  void number_runs();
  void warm_transforms() const;

  Recording recording_;
  WindowSettings settings_;
  std::vector<WindowRun> runs_;
  std::vector<uint64_t> first_;  // [runs + 1] number of a run's first window
  std::vector<std::vector<uint32_t>> units_;
  std::shared_ptr<const Transforms> transforms_;
};

}  // namespace lacuna
