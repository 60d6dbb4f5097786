// What happens in a segment of a synthetic recording, row by row: trials with pauses between them,
// where the eye looks, when it blinks, what the clock says. Frames and spikes are made from this.
#pragma once

#include <cstdint>
#include <vector>

namespace lacuna {

enum class GazeKind { viewing, flicker };  // drift and saccades; a jump every few frames

struct GazeRow {
  int16_t image = -1;     // -1: grey, between trials
  uint16_t x = 0, y = 0;  // the crop's corner in the image
  int32_t trial = -1;
  int32_t stimulus = -1;
  double time = 0;         // seconds
  float pupil = 0;         // slow, variance about 1
  uint16_t since = 65535;  // rows since the last saccade began
  uint8_t is_tracked = 1;  // 0: the eye tracker has dropped out
};

struct GazeOptions {
  GazeKind kind = GazeKind::viewing;
  uint64_t frames = 0;
  double rate = 120;
  uint32_t images = 4, image_size = 512;
  uint64_t seed = 0;        // of this segment
  int32_t first_trial = 0;  // trials and stimuli are numbered from here on
  int32_t first_stimulus = 0;
};

// Trials of 1 to 3 s (those of repeated stimuli: 1.5 s), 16 grey rows before each. Every third
// trial shows one of a few stimuli that are repeated: the same frames, row by row. Now and then a
// pause between two trials or a few lost frames within one (steps of `time`), and a blink of 10 to
// 30 rows.
std::vector<GazeRow> generate_gaze(const GazeOptions& options);

}  // namespace lacuna
