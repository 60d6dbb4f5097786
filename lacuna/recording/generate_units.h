// Neurons with known receptive fields: what a synthetic recording's counts are drawn from.
//
//   drive(t) = sum over lags l, y, x of temporal[l] * spatial[y, x] * frame(t - l)[y, x] / sd
//   rate(t)  = mean * softplus(1.5 * drive(t) - 0.5) / (its mean) * exp(pupil_weight * pupil(t))
//   count(t) ~ Poisson(rate(t) / bins a second)
//
// A spatial field is a Gabor patch without mean within kFieldSide pixels, a temporal one has two
// phases over kFieldLags bins. Frames are (pixel - 127) / 255.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lacuna/core/array.h"

namespace lacuna {

inline constexpr uint32_t kFieldSide = 17;
inline constexpr uint64_t kFieldLags = 12;

struct UnitField {
  uint32_t y = 0, x = 0;        // the patch's corner in the frame
  std::vector<float> patch;     // [kFieldSide, kFieldSide], norm 1
  std::vector<float> temporal;  // [kFieldLags], newest first, norm 1
  double mean_rate = 0;         // spikes a second
  double pupil_weight = 0;
  double drive_scale = 1, rate_scale = 1;  // found by calibrate()
};

std::vector<UnitField> generate_units(uint64_t count, uint32_t frame_side, uint64_t seed,
                                      uint64_t stream);

// drive of one unit from its responses to the newest kFieldLags frames, newest first.
double drive(const UnitField& unit, std::span<const float> responses);
double rate_of(const UnitField& unit, double drive, double pupil);  // spikes a second
// Sets the scales so that these drives (unscaled) have deviation 1 and the mean rate is as stated.
void calibrate(UnitField& unit, std::span<const double> drives);

// For tests: spatial [units, side, side], temporal [units, kFieldLags], and rates [units, 2]: mean
// rate and weight of the pupil.
Array spatial_truth(const std::vector<UnitField>& units, uint32_t frame_side);
Array temporal_truth(const std::vector<UnitField>& units);
Array rate_truth(const std::vector<UnitField>& units);

}  // namespace lacuna
