// What a new training knows of a session before its first step: the mean counts of its units, how
// to standardise inputs, and where the fields of units lie. It is read from the training part once
// and kept beside the recording, so that a later start reads nothing of it:
// RECORDING/statistics/KEY.json, as the statistics of transforms are (statistic_memory.h).
//
// The key is XXH3 of all that decides the numbers: the session's fingerprint, the rows of its
// split, the windows, what is done to frames and inputs, whether frames are rounded to bf16, and
// kSessionStartVersion. A file that is damaged is not believed: the numbers are found again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lacuna/run/prepared_recording.h"

namespace lacuna {

// Another number where the same bytes would give other numbers (train/recording/unit_places.cpp,
// session_scale.cpp).
inline constexpr int kSessionStartVersion = 2;

struct SessionScale {
  std::vector<double> mean_counts;  // [units] a row: the rate that models are compared with
  std::vector<double> input_mean, input_sd;  // [inputs] behaviour is standardised by them
};

struct SessionStart {
  SessionScale scale;
  std::vector<float> places;  // [units, 2] y and x, from -1 to 1
};

// prepared: of `config`. session: one of prepared.recording's.
uint64_t session_start_key(const PreparedRecording& prepared, const Config& config,
                           const Session& session);
std::optional<SessionStart> recall_session_start(const fs::path& recording, uint64_t key);
// A recording that cannot be written to remembers nothing: the next start takes longer.
void remember_session_start(const fs::path& recording, uint64_t key, const SessionStart& start);

}  // namespace lacuna
