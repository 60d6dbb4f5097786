#include "lacuna/plan/measure_ladder.h"

#include <gtest/gtest.h>

#include "lacuna/core/system/stop.h"
#include "lacuna/masks/testing.h"
#include "lacuna/screen/screen_batch.h"

namespace lacuna {
namespace {

TEST(MeasureLadder, ASliceIsTheFirstSamples) {
  const testing::StoreScreens screens(40);
  SCOPED_TRACE(screens.seed);
  const Screen screen = screens.write("screen", 40);
  const Screen slice = write_slice(screen, screens.directory / "slice", 25);
  EXPECT_EQ(fingerprint_of(slice.graph()).value(), fingerprint_of(screen.graph()).value());
  ASSERT_EQ(slice.samples().size(), 25u);
  EXPECT_EQ(samples_in(slice.split("ladder"), Part::train).size(), 25u);
  const RemovedReader all(screen.samples()), some(slice.samples());
  std::vector<uint32_t> expected, found;
  for (uint64_t s = 0; s < 25; ++s) {
    all.read(s, expected);
    some.read(s, found);
    EXPECT_EQ(found, expected);
  }
  EXPECT_EQ(write_slice(screen, screens.directory / "all", 1000).samples().size(), 40u);
}

TEST(MeasureLadder, TellsOfEachRungAndLeavesNoStore) {
  const testing::StoreScreens screens(40);
  const Screen slice = write_slice(screens.write("screen", 40), screens.directory / "slice", 40);
  LadderSettings settings = {.folder = screens.directory.path()};
  settings.rungs = {Rung::disk_bits, Rung::worker};
  settings.batch = 7;
  settings.seconds = 0.001;
  std::vector<Rung> heard;
  const LadderMeasurement ladder = measure_ladder(
      slice, settings, [&](const RungMeasurement& one) { heard.push_back(one.rung); });
  EXPECT_EQ(heard, settings.rungs);
  EXPECT_GT(ladder.largest_store, 0u);
  EXPECT_FALSE(fs::exists(screens.directory / "store"));
}

TEST(MeasureLadder, StopsWhenItIsAskedTo) {
  const testing::StoreScreens screens(40);
  const Screen slice = write_slice(screens.write("screen", 40), screens.directory / "slice", 40);
  const LadderSettings settings = {.folder = screens.directory.path(), .seconds = 0.01};
  for (const uint64_t looks : {1, 50}) {
    const StopAfter stop(looks);
    EXPECT_THROW(measure_ladder(slice, settings), Stopped);
    EXPECT_TRUE(stop.has_asked());
    EXPECT_FALSE(fs::exists(screens.directory / "store"));
  }
}

}  // namespace
}  // namespace lacuna
