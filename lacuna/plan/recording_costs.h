// The sizes of a recording, and what loading its windows costs on this machine, measured on its own
// frames: a second in all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/core/text/json.h"
#include "lacuna/recording/recording.h"

namespace lacuna {

struct RecordingSizes {
  std::vector<uint64_t> session_frames;  // of each session
  uint64_t pixels = 0;                   // of a frame
  Shape frame = {};                      // [Y, X]
  uint64_t windows = 0;                  // about one a frame
  uint64_t lags = 33;
  uint64_t field_bytes = 0;  // of counts, behaviour and the like, which stay in memory
  uint64_t row_bytes = 0;    // of a window's counts, validity and behaviour, as floats
  // What scoring keeps of the longest session: a fifth of its windows, as most splits have it.
  uint64_t evaluated_bytes = 0;
  bool is_u8 = true;  // else the frames are floats as recorded

  uint64_t frames() const;
  double frame_bytes() const { return double(frames()) * double(pixels); }  // as u8
  static RecordingSizes of(const Recording& recording, const std::string& field, uint64_t lags);
};

// Bytes (of u8) or pixels a second, of so many loader threads together.
struct RecordingCosts {
  double copy = 0;       // windows of u8, memory to batch
  double read = 0;       // windows of u8, file cache to batch
  double cast = 0;       // u8 in memory to f32 in a batch
  double unpack = 0;     // chunks to u8
  double pack = 0;       // u8 to chunks
  double ratio = 1;      // u8 bytes to those of chunks
  double cold_read = 0;  // windows, from the disk
  double seconds = 0;    // that measuring took
  int threads = 2;
};
// Throws Error for a recording without frames.
RecordingCosts measure_recording_costs(const Recording& recording, const std::string& field,
                                       uint64_t lags, int threads, double disk_read);
Json to_json(const RecordingCosts& costs);

}  // namespace lacuna
