// Splits of a recording into training, validation and test: a part for every row, by whole trials.
//
// A trial is what carries one number in one segment's trial field; without such a field, a stretch
// without a gap. All its rows lie in one part. Trials that show the same stimulus (stimulus ids; a
// negative one is none) lie in one part too, so that a test response cannot be looked up in
// training. Rows outside trials are unused.
//
// Fractions are of rows, and hold for each session as nearly as whole trials allow; a session of
// three or more groups of trials has all parts that were asked for. A pure function of the
// recording, the options and the seed. The parts are saved by add_split() (recording.h) and lie
// beside the fields, whose bytes they share.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lacuna/recording/recording.h"
#include "lacuna/screen/samples.h"

namespace lacuna {

// How far a stimulus id reaches: the same number is the same stimulus in all sessions, only within
// a session, or says nothing (repeats may be drawn apart).
enum class RepeatScope { recording, session, none };
RepeatScope repeat_scope_from_name(std::string_view name);

struct TrialSplitOptions {
  std::array<double, 3> fractions = {0.8, 0.1, 0.1};  // train, validation, test; the rest is unused
  uint64_t seed = 0;
  RepeatScope repeats = RepeatScope::recording;
  // Where stimuli that several trials show go while there is room: test, to compare a model with
  // the responses' own noise. None: wherever the draw puts them.
  std::optional<Part> repeated = {};
  double most_gap = 1.5;  // as WindowSettings::most_gap
};

// Throws UsageError for fractions that cannot work, Error where a part that was asked for would be
// empty.
RecordingSplit draw_trial_split(const Recording& recording, std::string name,
                                const TrialSplitOptions& options);

// A split that was drawn elsewhere, as a JSON file: {"train": {"SESSION/SEGMENT": rows, ..}, "val"
// or "validation": {..}, "test": {..}}, where rows is a list of numbers of rows (the t of windows)
// and of pairs [begin, end). "SESSION" alone names the one segment it has. Rows in no list are
// unused. Throws Error for a row that does not exist or is in two parts.
RecordingSplit recording_split_from_json(const Recording& recording, std::string name,
                                         const fs::path& file);

}  // namespace lacuna
