// What a recording holds, in numbers: for `lacuna info`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/recording/recording.h"

namespace lacuna {

struct SessionSummary {
  std::string name, subject;
  double rate = 0;
  uint64_t units = 0, segments = 0, frames = 0, bytes = 0;
  uint64_t trials = 0, stretches = 0;  // stretches: trials cut at gaps
  uint64_t longest = 0;                // rows of the longest stretch
  uint64_t stimuli = 0, repeated = 0;  // different ids; those that more than one trial shows
  uint64_t outside = 0, invalid = 0;   // rows outside any trial; rows marked invalid
  uint64_t nan = 0;                    // rows with a value that is not finite, in any field
};

// A field of one name, over all sessions that have it; dtypes or shapes may differ.
struct FieldSummary {
  std::string name, role;
  std::string dtype;        // "u8", "bits", "f32", or several: "f32, u8"
  std::string recorded_as;  // dtype in the source, where that was another
  std::string row_shape;    // "51 x 51", "23 to 181"
  uint64_t segments = 0, rows = 0, bytes = 0, nan_rows = 0, in_place = 0;
  // A stimulus that takes more than a byte a pixel: the bytes it would take, and whether all of the
  // rows that were looked at (the first of each segment) are exactly bytes, plain or (k - 127) /
  // 255.
  uint64_t bytes_as_u8 = 0;
  bool is_u8_in_disguise = false;
};

struct RecordingSummary {
  std::vector<SessionSummary> sessions;
  std::vector<FieldSummary> fields;
  uint64_t bytes = 0;
};

// Reads trials, stimulus ids, times and validity of rows, and a few rows of float stimuli.
RecordingSummary summarise(const Recording& recording);
Json to_json(const RecordingSummary& summary);

// Whether a value is exactly a byte: 0 .. 255, or (k - 127) / 255 in f32.
bool is_byte_value(float value);

}  // namespace lacuna
