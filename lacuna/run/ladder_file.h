// ladder.json: every rung measured side by side. `lacuna bench ladder` (plan/measure_ladder.h)
// measures and writes it, the report shows it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/text/json.h"
#include "lacuna/plan/measure_ladder.h"
#include "lacuna/store/fingerprint.h"

namespace lacuna {

// A rung, or a peer that did the same work in another way. NaN: not measured.
struct LadderRow {
  static constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

  std::string name;
  double samples_per_s = kNotMeasured, ms_per_batch = kNotMeasured;
  double read_ms_per_batch = kNotMeasured;  // the same, and every byte of the masks read once
  double stored_bytes_per_sample = kNotMeasured, moved_bytes_per_sample = kNotMeasured;
  double host_peak_bytes = kNotMeasured, device_peak_bytes = kNotMeasured;
  std::optional<bool> is_exact = {};

  // Of rungs.
  double planned_ms_per_batch = kNotMeasured, planned_ratio = kNotMeasured;
  double train_steps_per_s = kNotMeasured, train_difference = kNotMeasured;

  // Of peers.
  std::string way = {};  // "lmdb masks"
  uint64_t workers = 0;
  std::string left_out = {};  // why it was not measured
};

struct Ladder {
  uint64_t samples = 0, batch = 0, threads = 0;
  std::string machine, date;
  double load = std::numeric_limits<double>::quiet_NaN();  // of the machine when it began
  std::string screen;                                      // empty: not said
  Fingerprint fingerprint;
  std::string training;  // what was trained, where it was
  std::vector<LadderRow> rungs, peers;
};

// The rungs as they were measured; machine, screen and peers are the caller's to fill in.
Ladder ladder_of(const LadderMeasurement& measured);
// A line of bench/ladder_peers.py. Throws Json::exception where it is not right.
LadderRow peer_from_json(const Json& json);

void write_ladder(const fs::path& file, const Ladder& ladder);
// Throws Error that names the file where it is damaged.
Ladder read_ladder(const fs::path& file);

}  // namespace lacuna
