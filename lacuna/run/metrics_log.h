// metrics.jsonl: a line a logged step and a line the end of an epoch.
//
// Each line carries a checksum (core/seal.h; older ones have none), and run.json of a run that has
// ended names the last one, so that lines lost at the end are missed. A crash may tear the last
// line; it is then left out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/run/evaluation/metrics.h"

namespace lacuna {

struct StepLine {
  uint64_t epoch = 0, step = 0;
  double loss = kNotDefined, lr = kNotDefined, grad_norm = kNotDefined;
  double samples_per_s = kNotDefined, seconds = kNotDefined;
};

struct LabelMetrics {
  std::string label;  // or session
  Metrics metrics;
  std::map<std::string, double> scores = {};  // all numbers of the line: "bits_per_spike"
};
struct EpochLine {
  uint64_t epoch = 0, step = 0;
  double train_loss = kNotDefined;
  std::vector<LabelMetrics> validation = {};  // empty without a validation part
  double seconds = kNotDefined;
};

// A line each; what is not finite is null.
Json to_json(const StepLine& line);
Json to_json(const EpochLine& line);

// What there is to say of the file itself.
struct LogState {
  std::optional<uint64_t> torn_line = {};  // the number of a last line that was left out
  bool is_checked = true;                  // every line has a checksum
};
// Calls take() for every line, whole and in order, with its text and what it holds: an object with
// at least "kind" and "step". end: what run.json says of the last line (end_of_log()); empty:
// nothing. Throws Error that names the file, and the line, where one before the last is damaged, or
// where the last is not the one that `end` names. take() may throw Json::exception for a line that
// does not hold what it should.
LogState read_log(const fs::path& file, const std::string& end,
                  const std::function<void(std::string_view text, const Json& line)>& take);
// XXH3 of the last line as hex; empty: nothing was logged.
std::string end_of_log(const fs::path& file);

struct MetricsLog {
  std::vector<StepLine> steps;
  std::vector<EpochLine> epochs;
  LogState state;
};
// What a resumed run logged once more replaces what it had logged before.
MetricsLog read_metrics(const fs::path& file, const std::string& end);

}  // namespace lacuna
