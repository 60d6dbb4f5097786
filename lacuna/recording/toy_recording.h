// For tests only: a small recording whose every value says where it belongs, with short trials,
// gaps, rows outside trials, dropped rows and NaN.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/recording/recording_writer.h"

namespace lacuna {

inline constexpr uint64_t kToyHeight = 5, kToyWidth = 7, kToyBehaviour = 3;

// A pixel says where it lies.
inline uint8_t toy_pixel(uint64_t session, uint64_t segment, uint64_t t, uint64_t y, uint64_t x) {
  return uint8_t(mix64((((session * 16 + segment) << 32 | t) * 64 + y) * 64 + x) >> 56);
}

struct ToyOptions {
  uint64_t sessions = 3;
  uint64_t frames = 400;  // of each segment, more or less
  bool has_nan = true;    // in behaviour
  std::string stem = "s";
  uint64_t first_session = 0;  // numbers of names and pixels start here
};

// Session s has s + 2 units and segments "noise" and, in odd sessions, "images". Trials of 5 to 60
// rows with a few rows outside any; gaps in time; `valid` [T] drops rows; `dfs` [T, units];
// behaviour holds NaN in some rows.
inline void write_toy_sessions(RecordingWriter& writer, uint64_t seed, const ToyOptions& options) {
  for (uint64_t n = 0; n < options.sessions; ++n) {
    const uint64_t s = options.first_session + n;
    std::vector<std::string> units;
    for (uint64_t u = 0; u < s + 2; ++u) units.push_back("u" + std::to_string(u));
    writer.begin_session({.name = options.stem + std::to_string(s),
                          .subject = s % 2 ? "b" : "a",
                          .rate = 120,
                          .units = units});
    for (uint64_t g = 0; g < 1 + s % 2; ++g) {
      Random random(seed, s * 16 + g);
      const uint64_t frames = options.frames + random.below(50);
      std::vector<uint8_t> stim, robs, dfs, valid;
      std::vector<float> behaviour;
      std::vector<int32_t> trials, stimuli;
      std::vector<double> time;
      int32_t trial = -1, trial_number = 0;
      uint64_t left = 0;
      double now = 10;
      for (uint64_t t = 0; t < frames; ++t) {
        if (left == 0) {
          trial = random.below(5) ? trial_number++ : -1;
          left = trial < 0 ? 1 + random.below(6) : 5 + random.below(56);
        }
        --left;
        now += random.below(60) ? 1 / 120.0 : 0.05;  // sometimes a gap
        trials.push_back(trial);
        stimuli.push_back(trial < 0 ? -1 : trial % 7);
        time.push_back(now);
        valid.push_back(random.below(50) != 0);
        for (uint64_t y = 0; y < kToyHeight; ++y)
          for (uint64_t x = 0; x < kToyWidth; ++x) stim.push_back(toy_pixel(s, g, t, y, x));
        for (uint64_t u = 0; u < units.size(); ++u) {
          robs.push_back(uint8_t(random.below(4)));
          dfs.push_back(random.below(6) != 0);
        }
        for (uint64_t k = 0; k < kToyBehaviour; ++k)
          behaviour.push_back(options.has_nan && random.below(150) == 0
                                  ? std::numeric_limits<float>::quiet_NaN()
                                  : float(random.normal()));
      }
      const uint64_t n_units = units.size();
      writer.begin_segment(g ? "images" : "noise");
      writer.add_field("stim", FieldRole::stimulus,
                       Array::from(std::move(stim), {frames, kToyHeight, kToyWidth}));
      writer.add_field("robs", FieldRole::counts, Array::from(std::move(robs), {frames, n_units}));
      writer.add_field("dfs", FieldRole::validity, Array::from(std::move(dfs), {frames, n_units}));
      writer.add_field("valid", FieldRole::validity, Array::from(std::move(valid)));
      writer.add_field("behavior", FieldRole::behaviour,
                       Array::from(std::move(behaviour), {frames, kToyBehaviour}));
      writer.add_field("trial", FieldRole::trial, Array::from(std::move(trials)));
      writer.add_field("stimulus", FieldRole::stimulus_id, Array::from(std::move(stimuli)));
      writer.add_field("time", FieldRole::time, Array::from(std::move(time)));
    }
  }
}

inline Recording write_toy_recording(const fs::path& path, uint64_t seed,
                                     const ToyOptions& options = {}) {
  RecordingWriter writer(path, {});
  write_toy_sessions(writer, seed, options);
  return writer.commit({{"command", "test"}, {"settings", {{"seed", seed}}}});
}

}  // namespace lacuna
