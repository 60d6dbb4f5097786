// The ladder of a recording, measured: batches of windows through the loader, rung after rung,
// beside two bare loops that do nothing but move the same bytes.
//
//   const Recording slice = write_recording_slice(recording, folder / "slice", 100'000);
//   const auto measured = measure_recording(slice, {.folder = folder});
//
// A movie may not fit anywhere twice, so the ladder is measured on a slice: the first frames of
// every segment, as a recording of its own. Everything is warm: what is measured is what loading
// costs, not the disk (cold reads are counted by a test). A rung's store is made, read, and removed
// before the next.
//
//   memcpy loop       the same windows copied row by row, newest first, from an array in memory
//   gather and cast   the same with (x - 127) / 255 into f32
// Both with as many threads as the loader, windows known before, one buffer a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/ladder/recording_rungs.h"
#include "lacuna/recording/windows.h"

namespace lacuna {

struct RecordingLadderSettings {
  fs::path folder;                 // for the stores, one at a time
  std::vector<std::string> rungs;  // empty: all that run without a GPU
  WindowSettings windows = {};
  uint64_t batch = 256;
  int threads = 2;     // of the loader, at least 1
  double seconds = 1;  // to measure a rung for, about, in each round
  int rounds = 5;      // of which the median counts
  std::string compressor = "lz4";
};

struct RecordingRungMeasurement {
  std::string name;  // of the rung, or of the loop
  bool is_rung = true;
  double batch_seconds = 0;  // from one batch to the next, the median round's
  double windows_per_second = 0;
  double frame_bytes = 0;      // stored or held, a frame
  double moved_bytes = 0;      // of a batch, a window
  double held_bytes = 0;       // frames in memory
  double host_bytes = 0;       // the most memory that the rung took beside them
  double prepare_seconds = 0;  // writing the store of the slice
  double first_seconds = 0;    // from opening to the first batch
  bool is_exact = false;       // every pixel of the batches that were looked at
};

struct RecordingLadderMeasurement {
  uint64_t windows = 0, frames = 0, batch = 0;
  int threads = 0;
  std::vector<RecordingRungMeasurement> rows;

  const RecordingRungMeasurement* find(const std::string& name) const;  // null: not measured
};

// The first frames of every segment, about `frames` in all.
Recording write_recording_slice(const Recording& recording, const fs::path& out, uint64_t frames);

using RecordingRungMeasured = std::function<void(const RecordingRungMeasurement&)>;
// Throws Error when the slice has fewer windows than a batch, and when it was stopped.
RecordingLadderMeasurement measure_recording(const Recording& slice,
                                             const RecordingLadderSettings& settings,
                                             const RecordingRungMeasured& measured = {},
                                             Progress& progress = Progress::none());

}  // namespace lacuna
