#include "lacuna/train/recording/unit_places.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/recording/generate_recording.h"
#include "lacuna/recording/testing.h"
#include "lacuna/recording/trial_split.h"
#include "lacuna/train/recording/session_scale.h"

namespace lacuna {
namespace {

constexpr uint64_t kFoundStretches = 7;

class SpreadStretches : public ::testing::Test {
 protected:
  SpreadStretches() {
    write_toy_recording(folder_ / "rec", seed_, {.sessions = 3, .frames = 2000});
  }
  Windows windows(uint64_t step = 1) const {
    return Windows(Recording::open(folder_ / "rec"),
                   {.stimulus = {.field = "stim", .lags = 3}, .step = step});
  }
  const uint64_t seed_ = test_seed();
  TemporaryDirectory folder_;
};

// Every stretch is windows of one run, one after another, of which no other stretch has any.
TEST_F(SpreadStretches, LieInRunsAndApart) {
  SCOPED_TRACE(seed_);
  for (const uint64_t step : {uint64_t(1), uint64_t(2)})
    for (const uint64_t length : {uint64_t(1), uint64_t(4), uint64_t(12)}) {
      const Windows all = windows(step);
      const auto [first, last] = all.of_session(1);
      const auto found = spread_stretches(all, 1, kFoundStretches, length);
      ASSERT_LE(found.size(), kFoundStretches);
      uint64_t free = first, taken = 0;
      for (const WindowStretch& stretch : found) {
        ASSERT_GE(stretch.first, free);
        ASSERT_GE(stretch.count, 1u);
        ASSERT_LE(stretch.count, length);
        for (uint64_t i = 1; i < stretch.count; ++i) {
          const Window before = all.at(stretch.first + i - 1), after = all.at(stretch.first + i);
          ASSERT_EQ(after.t, before.t + step);
          ASSERT_EQ(after.segment, before.segment);
        }
        free = stretch.first + stretch.count;
        taken += stretch.count;
      }
      ASSERT_LE(free, last);
      EXPECT_GE(taken, kFoundStretches * length / 4);  // runs are seldom shorter than 12
      EXPECT_GT(found.back().first, first + (last - first) * 2 / 3);
    }
}

TEST_F(SpreadStretches, TakeAllWhereThereAreFew) {
  SCOPED_TRACE(seed_);
  const Windows all = windows();
  for (uint32_t s = 0; s < 3; ++s) {
    const auto [first, last] = all.of_session(s);
    uint64_t next = first;
    for (const WindowStretch& stretch : spread_stretches(all, s, last - first, 11)) {
      EXPECT_EQ(stretch.first, next);
      next += stretch.count;
    }
    EXPECT_EQ(next, last);
  }
}

// A recording with known fields, seen through a rung.
class UnitPlaces : public ::testing::Test {
 protected:
  UnitPlaces() : folder_() {}

  void generate(uint32_t side, double minutes) {
    generate_recording(folder_ / "rec",
                       {.sessions = 1, .minutes = minutes, .seed = 5, .side = side, .units = 12},
                       "test");
    add_split(folder_ / "rec", draw_trial_split(Recording::open(folder_ / "rec"), "trials", {}));
  }
  std::vector<float> find(const std::string& rung, uint64_t lags, uint64_t step = 1) const {
    const Recording recording = Recording::open(folder_ / "rec");
    const Windows windows(recording, {.stimulus = {.field = "stim", .lags = lags}, .step = step});
    const Windows training = windows.of_part(recording.split("trials"), "train");
    const WindowFields fields(training);
    const Frames frames(recording, {.rung = recording_rung_from_name(rung)});
    const auto scales = find_scales(fields, training, {0});
    return find_places(frames, fields, training, 0, scales[0].mean_counts);
  }
  // Of the units, how many places lie within `most` pixels of the field's middle.
  double share_near(const std::vector<float>& places, uint32_t side, double most) const {
    const Recording recording = Recording::open(folder_ / "rec");
    const Array truth = *recording.truth(recording.sessions()[0].name, "spatial");
    const auto field = truth.as<float>();
    const size_t units = places.size() / 2;
    double near = 0;
    for (size_t u = 0; u < units; ++u) {
      double y = 0, x = 0, all = 0;
      for (size_t i = 0; i < side; ++i)
        for (size_t j = 0; j < side; ++j) {
          const double weight = std::pow(double(field[(u * side + i) * side + j]), 2);
          y += weight * double(i), x += weight * double(j), all += weight;
        }
      const auto pixel = [&](float place) { return (place + 1) / 2 * double(side - 1); };
      near += std::hypot(pixel(places[2 * u]) - y / all, pixel(places[2 * u + 1]) - x / all) < most;
    }
    return near / double(units);
  }
  TemporaryDirectory folder_;
};

TEST_F(UnitPlaces, AreThoseOfTheTrueFields) {
  generate(51, 4);  // blocks of two pixels, bins of two rows
  EXPECT_GE(share_near(find("disk:u8@device", 16), 51, 4), 0.8);
  EXPECT_GE(share_near(find("disk:u8@device", 16, /*step=*/2), 51, 4), 0.7);
}

TEST_F(UnitPlaces, AreTheSameOnEveryRung) {
  generate(25, 2);
  const std::vector<float> bytes = find("disk:u8@device", 12);
  EXPECT_GE(share_near(bytes, 25, 4), 0.5);
  EXPECT_EQ(find("disk:u8@worker", 12), bytes);
  EXPECT_EQ(find("ram:f32", 12), bytes);
  EXPECT_EQ(find("device:resident", 12), bytes);
}

TEST_F(UnitPlaces, OfOneLagAndOfTinyRuns) {
  generate(17, 1);
  for (const float place : find("ram:u8@device", 1)) EXPECT_LE(std::abs(place), 1);
  for (const float place : find("ram:bf16", 80)) EXPECT_LE(std::abs(place), 1);
}

}  // namespace
}  // namespace lacuna
