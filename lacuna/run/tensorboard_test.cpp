#include "lacuna/run/tensorboard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

TEST(EventWriter, EveryStartWritesAFileOfItsOwn) {
  const TemporaryDirectory folder;
  std::set<fs::path> paths;
  for (int start = 0; start < 3; ++start) paths.insert(EventWriter(folder / "run").path());
  EXPECT_EQ(paths.size(), 3u);
  for (const fs::path& path : paths) {
    EXPECT_EQ(path.filename().string().find("events.out.tfevents."), 0u);
    EXPECT_GT(fs::file_size(path), 24u);  // TensorBoard may look at any time
  }
}

TEST(EventWriter, FlushedIsOnDisk) {
  const TemporaryDirectory folder;
  EventWriter events(folder.path());
  const uint64_t before = fs::file_size(events.path());
  events.scalar("loss", 1, 0.5f, 1e9);
  events.flush();
  const uint64_t record = 8 + 4 + (9 + 2 + 2 + 2 + 2 + 4 + 5) + 4;
  EXPECT_EQ(fs::file_size(events.path()), before + record);
}

TEST(EventWriter, AFileInTheWayIsNamed) {
  const TemporaryDirectory folder;
  write_file(folder / "run", "not a folder");
  EXPECT_ERROR(EventWriter(folder / "run"), "run");
}

// What tests/test_tensorboard.py reads with TensorBoard itself: a run that was interrupted after
// step 30 and went on from step 20.
TEST(EventWriter, WritesARunThatWasResumed) {
  const TemporaryDirectory temporary;
  const char* given = std::getenv("LACUNA_EVENTS_FOLDER");
  const fs::path folder = given ? fs::path(given) : temporary.path();
  EventWriter first(folder);
  for (int64_t step = 0; step < 30; ++step) {
    first.scalar("loss/train", step, float(std::exp(-0.1 * double(step))), 1e9 + double(step));
    if (step % 10 == 0) first.scalar("pearson/validation", step, float(step) / 100, 1e9);
  }
  first.flush();
  EventWriter second(folder, 20);
  for (int64_t step = 20; step < 40; ++step)
    second.scalar("loss/train", step, -float(step), 2e9 + double(step));
  second.scalar("odd/values", 1'000'000'000'000, std::numeric_limits<float>::infinity(), 2e9);
  second.scalar("odd/values", 1'000'000'000'001, std::nanf(""), 2e9);
  second.scalar("odd/\xc3\xbcml\xc3\xa4ut " + std::string(300, 'x'), 0x7fffffffffffffff, -0.f, 2e9);
  second.flush();
  SUCCEED();
}

}  // namespace
}  // namespace lacuna
