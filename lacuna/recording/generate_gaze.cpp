#include "lacuna/recording/generate_gaze.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lacuna/core/random.h"

namespace lacuna {
namespace {

constexpr uint64_t kGreyRows = 16, kSaccadeRows = 4, kFlickerRows = 4, kRepeatedRows = 180;
constexpr uint64_t kFirstStimulus = 16;  // random streams: 0 trials, 1 circumstances, then these

// The path of the eye over one stimulus: a pure function of its number, so that repeats are equal.
void add_stimulus(std::vector<GazeRow>& rows, const GazeOptions& options, int32_t stimulus,
                  int32_t trial, uint64_t count) {
  Random random(options.seed, kFirstStimulus + uint64_t(stimulus));
  const double size = options.image_size;
  GazeRow row;
  row.image = int16_t(random.below(options.images));
  row.trial = trial;
  row.stimulus = stimulus;
  double x = random.uniform() * size, y = random.uniform() * size, step_x = 0, step_y = 0;
  uint64_t moving = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (options.kind == GazeKind::flicker) {
      if (i % kFlickerRows == 0) {
        x = random.uniform() * size;
        y = random.uniform() * size;
      }
    } else {
      x += 0.6 * random.normal();  // drift
      y += 0.6 * random.normal();
      if (moving == 0 && random.below(40) == 0) {  // about three saccades a second
        const double angle = 2 * std::numbers::pi * random.uniform();
        const double length = 8 + 60 * random.uniform();
        step_x = length * std::cos(angle) / kSaccadeRows;
        step_y = length * std::sin(angle) / kSaccadeRows;
        moving = kSaccadeRows;
        row.since = 0;
      }
      if (moving > 0) {
        x += step_x;
        y += step_y;
        --moving;
      }
    }
    row.x = uint16_t(uint64_t(std::floor(x) + 64 * size) % options.image_size);
    row.y = uint16_t(uint64_t(std::floor(y) + 64 * size) % options.image_size);
    rows.push_back(row);
    if (row.since < 65535) ++row.since;
  }
}

// The clock, the pupil and the blinks: of the day, not of the stimulus.
void add_circumstances(std::vector<GazeRow>& rows, const GazeOptions& options) {
  Random random(options.seed, 1);
  double now = 1;
  float pupil = 0;
  uint64_t blink = 0;
  for (size_t t = 0; t < rows.size(); ++t) {
    const bool is_trial_start = t > 0 && rows[t].trial != rows[t - 1].trial;
    uint64_t bins = 1;
    if (is_trial_start && random.below(8) == 0) bins = 240;                      // a pause
    if (!is_trial_start && random.below(4000) == 0) bins = 2 + random.below(4);  // lost frames
    now += double(bins) / options.rate;
    pupil = 0.99f * pupil + 0.14f * float(random.normal());
    if (blink == 0 && random.below(700) == 0) blink = 10 + random.below(21);
    rows[t].time = now;
    rows[t].pupil = pupil;
    rows[t].is_tracked = blink == 0;
    if (blink > 0) --blink;
  }
}

}  // namespace

std::vector<GazeRow> generate_gaze(const GazeOptions& options) {
  Random random(options.seed);
  const uint64_t repeated = 1 + options.frames / 20'000;  // stimuli, shown in turn
  std::vector<GazeRow> rows;
  rows.reserve(options.frames);
  int32_t unique = options.first_stimulus + int32_t(repeated);
  for (int32_t k = 0; rows.size() < options.frames; ++k) {
    const bool is_repeat = k % 3 == 2;
    const uint64_t count = is_repeat ? kRepeatedRows : 120 + random.below(241);
    for (uint64_t i = 0; i < kGreyRows; ++i) rows.push_back({});
    if (rows.size() + count > options.frames) break;
    const int32_t stimulus =
        is_repeat ? options.first_stimulus + int32_t(uint64_t(k / 3) % repeated) : unique++;
    add_stimulus(rows, options, stimulus, options.first_trial + k, count);
  }
  rows.resize(options.frames);  // what is left is grey
  add_circumstances(rows, options);
  return rows;
}

}  // namespace lacuna
