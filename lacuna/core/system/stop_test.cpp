#include "lacuna/core/system/stop.h"

#include <gtest/gtest.h>

#include <atomic>

#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

TEST(Stop, IsSeenFromTheLookOnThatItCameBefore) {
  EXPECT_FALSE(is_stop_asked());
  {
    const StopAfter stop(3);
    EXPECT_FALSE(is_stop_asked());
    EXPECT_NO_THROW(throw_if_stopped());
    EXPECT_FALSE(stop.has_asked());
    EXPECT_EQ(stop.looks(), 2u);
    EXPECT_THROW(throw_if_stopped(), Stopped);
    EXPECT_TRUE(stop.has_asked());
    EXPECT_TRUE(is_stop_asked());
    EXPECT_EQ(stop.looks(), 3u);
  }
  EXPECT_FALSE(is_stop_asked());
  {
    const StopAfter clean_up(1'000'000);
    ask_to_stop();
    EXPECT_THROW(throw_if_stopped(), Stopped);
  }
  EXPECT_NO_THROW(throw_if_stopped());
}

TEST(Stop, WaitsForWhatMustBeDoneWhole) {
  const StopAfter stop(1);
  {
    const Unstoppable outer;
    {
      const Unstoppable inner;
      EXPECT_FALSE(is_stop_asked());
    }
    EXPECT_NO_THROW(throw_if_stopped());
    EXPECT_EQ(stop.looks(), 0u);
  }
  EXPECT_THROW(throw_if_stopped(), Stopped);
}

TEST(Stop, EndsALoopOverThreads) {
  for (const int threads : {1, 4}) {
    const StopAfter stop(100);
    std::atomic<int> done = 0;
    EXPECT_THROW(parallel_for(1'000'000, threads, [&](uint64_t) { ++done; }), Stopped);
    EXPECT_EQ(done, 99) << threads << " threads";
    EXPECT_THROW(parallel_for(1, threads, [&](uint64_t) { ++done; }), Stopped);
    EXPECT_EQ(done, 99);
  }
  parallel_for(10, 4, [](uint64_t) {});
}

}  // namespace
}  // namespace lacuna
