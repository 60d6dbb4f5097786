// ladder.json of a recording: every rung measured side by side, with the bare loops, training and
// peers where these were asked for. `lacuna bench ladder RECORDING` (plan/measure_recording.h)
// writes it, the report shows it. ladder_file.h is that of screens.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/text/json.h"
#include "lacuna/plan/measure_recording.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

// A rung, a bare loop, or a batch that lies ready. NaN: not measured.
struct RecordingLadderRow {
  static constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

  std::string name;
  bool is_rung = false;
  double windows_per_s = kNotMeasured, ms_per_batch = kNotMeasured;
  double bytes_per_frame = kNotMeasured, moved_bytes_per_window = kNotMeasured;
  double held_bytes = kNotMeasured, host_peak_bytes = kNotMeasured;
  double prepare_s = kNotMeasured, first_batch_s = kNotMeasured;
  std::optional<bool> is_exact = {};

  double train_ms_per_step = kNotMeasured;
  double train_over_ready = kNotMeasured;  // of a step on a batch that lies ready: 0.02 is 2%
  double train_difference = kNotMeasured;  // the largest between its rates and the first rung's
  double device_peak_bytes = kNotMeasured;
};

struct RecordingLadder {
  uint64_t frames = 0, windows = 0, lags = 0, batch = 0, threads = 0;
  std::string machine, date;
  double load = std::numeric_limits<double>::quiet_NaN();  // of the machine when it began
  std::string recording;                                   // its path
  Fingerprint fingerprint;
  std::string training;  // what was trained, where it was
  std::vector<RecordingLadderRow> rows;
  std::vector<Json> peers;  // lines of bench/recording_peers.py: name, windows_per_s, ..
};

RecordingLadderRow ladder_row(const RecordingRungMeasurement& measured);

void write_recording_ladder(const fs::path& file, const RecordingLadder& ladder);
// Throws Error that names the file where it is damaged.
RecordingLadder read_recording_ladder(const fs::path& file);

}  // namespace lacuna
