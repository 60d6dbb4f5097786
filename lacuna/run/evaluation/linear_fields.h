// The baseline of a recording: a linear receptive field a unit, by ridge regression of its counts
// on the window.
//
//   rate = max(floor, intercept + sum over features of weight * feature)
//
// The features are means over blocks of lags and pixels of the normalised window, few enough
// (kMostFeatures) to solve exactly: (X^T X + strength) w = X^T y with X and y centred, by Cholesky
// in double. Strength and floor are those with the most bits per spike on every fifth trial of the
// training, which is left out for that; then all of it is fitted. Counts that are not valid count
// as the unit's mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

inline constexpr uint64_t kMostFeatures = 768;

// How a window [lags, Y, X] becomes features: the last block of an axis may be smaller.
struct CoarseWindow {
  uint64_t lags = 0, height = 0, width = 0;
  uint64_t lag_block = 1, pixel_block = 1;

  static CoarseWindow of(uint64_t lags, uint64_t height, uint64_t width,
                         uint64_t most_features = kMostFeatures);
  uint64_t lag_count() const { return (lags + lag_block - 1) / lag_block; }
  uint64_t row_count() const { return (height + pixel_block - 1) / pixel_block; }
  uint64_t column_count() const { return (width + pixel_block - 1) / pixel_block; }
  uint64_t features() const { return lag_count() * row_count() * column_count(); }
};

struct LinearFields {
  uint64_t features = 0, units = 0;
  std::vector<double> weight = {};     // [units, features]
  std::vector<double> intercept = {};  // [units]
  std::vector<double> floor = {};      // [units] least rate
  double strength = 0;                 // of the ridge, that was chosen

  // x: [n, features] -> rates [n, units]
  std::vector<float> predict(std::span<const float> x) const;
};

struct LinearFieldsInput {
  uint64_t features = 0, units = 0;
  std::span<const float> x;           // [n, features]
  std::span<const float> counts;      // [n, units]
  std::span<const uint8_t> validity;  // [n, units]
  std::span<const int64_t> trial;     // [n]: rows of one number are left out together
};
LinearFields fit_linear_fields(const LinearFieldsInput& input);

}  // namespace lacuna
