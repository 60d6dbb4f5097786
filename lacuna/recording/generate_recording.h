// Synthetic recordings whose units have known receptive fields, for tests, demonstrations and
// benchmarks.
//
// A session sees pictures whose amplitudes fall as 1 / frequency, through an eye that drifts and
// makes saccades (segment "images"; sessions of odd number also "flicker", where it jumps): frames
// are crops around the gaze, 51 x 51 at 120 Hz. Units (23 to 181 a session) fire as
// generate_units.h says. Trials, repeated stimuli, pauses, lost frames and blinks: generate_gaze.h.
//
//   stim      u8  [T, 51, 51]  stimulus
//   robs      u8  [T, units]   counts
//   dfs       bits [T, units]  validity: some units are lost for a while
//   behavior  f32 [T, 42]      gaze x, y and speed (degrees), pupil, then 38 tents over the time
//                              since the last saccade; NaN in blinks
//   tracked   u8  [T]          validity of rows: 0 in blinks
//   trial, stimulus  i32 [T]   -1 between trials
//   time      f64 [T]
//   truth/SESSION.{spatial,temporal,rates}.npy   generate_units.h
//
// A recording is a pure function of the options. Memory: about 60 bytes a row of one segment, and
// one a unit.
#pragma once

#include <cstdint>

#include "lacuna/recording/recording.h"

namespace lacuna {

struct GenerateRecordingOptions {
  uint64_t sessions = 3;
  double minutes = 5;  // of each session
  uint64_t seed = 0;
  uint32_t side = 51;  // pixels; at least 17
  double rate = 120;
  uint64_t units = 0;          // of each session; 0: 23 to 181
  uint64_t first_session = 0;  // sessions are named and seeded from this number on
  bool add = false;            // to a recording that is there
};

// Throws UsageError for options that cannot work.
Recording generate_recording(const fs::path& path, const GenerateRecordingOptions& options,
                             const std::string& command, Progress& progress = Progress::none());
Json to_json(const GenerateRecordingOptions& options);  // for made_by

}  // namespace lacuna
