// A batch of windows: one block of stimulus for all, the rest by session, since sessions differ in
// their units.
//
// The windows of a batch are ordered by session (and within it as they were drawn), so that the
// core of a model runs once over the block and each readout over its slice: session sessions()[s]
// has rows ptr()[s] to ptr()[s + 1] - 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/dtype.h"

namespace lacuna {

// What one session of a batch has beside the stimulus; b windows, R target rows.
struct SessionPart {
  uint32_t session = 0;
  uint64_t windows = 0;                    // b
  uint64_t units = 0;                      // of those chosen
  std::vector<float> counts;               // [b, R, units]
  std::vector<uint8_t> validity;           // [b, R, units], 1: use it
  std::vector<std::vector<float>> inputs;  // one of WindowSettings::inputs: [b, lags, columns]
};

struct WindowBatch {
  std::vector<uint64_t> windows;   // [B] their numbers in Windows
  std::vector<int32_t> ptr;        // [S + 1]
  std::vector<SessionPart> parts;  // [S], ascending by session
  // [B, lags, Y, X], newest first: u8 as stored, or bf16 / f32 after normalisation
  std::byte* stimulus = nullptr;
  DType stimulus_dtype = DType::u8;
  Shape stimulus_shape;

  uint64_t size() const { return windows.size(); }  // B
};

}  // namespace lacuna
