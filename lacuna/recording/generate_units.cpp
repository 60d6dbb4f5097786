#include "lacuna/recording/generate_units.h"

#include <cmath>
#include <numbers>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"

namespace lacuna {
namespace {

double soft_plus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
double unscaled_rate(double scaled_drive) { return soft_plus(1.5 * scaled_drive - 0.5); }

void make_unit_norm(std::vector<float>& values) {
  double square = 0;
  for (const float value : values) square += double(value) * double(value);
  for (float& value : values) value = float(double(value) / std::sqrt(square));
}

std::vector<float> gabor_patch(Random& random) {
  const double angle = std::numbers::pi * random.uniform(),
               phase = 2 * std::numbers::pi * random.uniform();
  const double sigma = 1.8 + 1.2 * random.uniform(), wave = 5 + 5 * random.uniform();
  std::vector<float> patch;
  std::vector<double> envelope;
  double sum = 0, weight = 0;
  const int middle = int(kFieldSide / 2);
  for (int y = -middle; y <= middle; ++y)
    for (int x = -middle; x <= middle; ++x) {
      const double along = x * std::cos(angle) + y * std::sin(angle);
      envelope.push_back(std::exp(-(x * x + y * y) / (2 * sigma * sigma)));
      const double value = envelope.back() * std::cos(2 * std::numbers::pi * along / wave + phase);
      patch.push_back(float(value));
      sum += value;
      weight += envelope.back();
    }
  for (size_t i = 0; i < patch.size(); ++i) patch[i] -= float(envelope[i] * sum / weight);
  make_unit_norm(patch);
  return patch;
}

std::vector<float> two_phases(Random& random) {
  const double peak = 3 + 2 * random.uniform(), width = 1.0 + 0.5 * random.uniform();
  const double second = 0.3 + 0.4 * random.uniform();
  std::vector<float> kernel;
  for (uint64_t l = 0; l < kFieldLags; ++l) {
    const double early = (double(l) - peak) / width,
                 late = (double(l) - peak - 3.5) / (1.4 * width);
    kernel.push_back(float(std::exp(-early * early / 2) - second * std::exp(-late * late / 2)));
  }
  make_unit_norm(kernel);
  return kernel;
}

}  // namespace

std::vector<UnitField> generate_units(uint64_t count, uint32_t frame_side, uint64_t seed,
                                      uint64_t stream) {
  LACUNA_ASSERT(frame_side >= kFieldSide);
  std::vector<UnitField> units(count);
  Random random(seed, stream);
  for (UnitField& unit : units) {
    const uint32_t room = frame_side - kFieldSide + 1;
    unit.y = room / 4 + uint32_t(random.below(room - room / 2));  // about the middle of the frame
    unit.x = room / 4 + uint32_t(random.below(room - room / 2));
    unit.patch = gabor_patch(random);
    unit.temporal = two_phases(random);
    unit.mean_rate = 4 * std::exp(2.0 * random.uniform());  // 4 to 30 spikes a second
    unit.pupil_weight = 0.15 * random.normal();
  }
  return units;
}

double drive(const UnitField& unit, std::span<const float> responses) {
  double sum = 0;
  for (uint64_t l = 0; l < kFieldLags; ++l) sum += double(unit.temporal[l]) * double(responses[l]);
  return sum;
}

double rate_of(const UnitField& unit, double drive, double pupil) {
  return unit.rate_scale * unscaled_rate(unit.drive_scale * drive) *
         std::exp(unit.pupil_weight * pupil);
}

void calibrate(UnitField& unit, std::span<const double> drives) {
  double square = 0, sum = 0;
  for (const double value : drives) square += value * value;
  const double sd = drives.empty() ? 0 : std::sqrt(square / double(drives.size()));
  unit.drive_scale = sd > 0 ? 1 / sd : 1;
  for (const double value : drives) sum += unscaled_rate(unit.drive_scale * value);
  unit.rate_scale = unit.mean_rate / (drives.empty() ? 1 : sum / double(drives.size()));
}

Array spatial_truth(const std::vector<UnitField>& units, uint32_t frame_side) {
  std::vector<float> all(units.size() * frame_side * frame_side);
  for (size_t u = 0; u < units.size(); ++u)
    for (uint32_t y = 0; y < kFieldSide; ++y)
      for (uint32_t x = 0; x < kFieldSide; ++x)
        all[(u * frame_side + units[u].y + y) * frame_side + units[u].x + x] =
            units[u].patch[y * kFieldSide + x];
  return Array::from(std::move(all), {units.size(), frame_side, frame_side});
}

Array temporal_truth(const std::vector<UnitField>& units) {
  std::vector<float> all;
  for (const UnitField& unit : units)
    all.insert(all.end(), unit.temporal.begin(), unit.temporal.end());
  return Array::from(std::move(all), {units.size(), kFieldLags});
}

Array rate_truth(const std::vector<UnitField>& units) {
  std::vector<float> all;
  for (const UnitField& unit : units)
    all.insert(all.end(), {float(unit.mean_rate), float(unit.pupil_weight)});
  return Array::from(std::move(all), {units.size(), 2});
}

}  // namespace lacuna
