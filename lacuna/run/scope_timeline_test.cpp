#include "lacuna/run/scope_timeline.h"

#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Pair;

// A clock that moves when it is told to.
struct Clock {
  double ms = 1000;
  auto now() {
    return [this] { return ms; };
  }
};

TEST(ScopeTimeline, TimeBelongsToTheInnermostScope) {
  Clock clock;
  ScopeTimeline timeline(clock.now());
  timeline.start();
  clock.ms += 1;
  {
    const Scope outer("forward");
    clock.ms += 2;
    {
      const Scope inner("aggregation");
      clock.ms += 4;
    }
    clock.ms += 8;
  }
  clock.ms += 16;
  timeline.stop();
  EXPECT_THAT(time_by_owner(timeline.borders()),
              ElementsAre(Pair("", DoubleEq(17)), Pair("aggregation", DoubleEq(4)),
                          Pair("forward", DoubleEq(10))));
}

TEST(ScopeTimeline, OwnersAddUpToTheWhole) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  Clock clock;
  ScopeTimeline timeline(clock.now());
  timeline.start();
  const auto pass = [&] { clock.ms += double(random() % 1000) / 7; };
  const std::function<void(int)> nest = [&](int depth) {
    const char* const names[] = {"a", "b", "c"};
    const Scope scope(names[random() % 3]);
    for (pass(); depth < 6 && random() % 3 != 0; pass()) nest(depth + 1);
  };
  for (int i = 0; i < 50; ++i, pass()) nest(0);
  timeline.stop();
  double sum = 0;
  for (const auto& [owner, ms] : time_by_owner(timeline.borders())) sum += ms;
  EXPECT_NEAR(sum, clock.ms - 1000, 1e-6);
}

TEST(ScopeTimeline, ThreadsBesideAreNotHeard) {
  ScopeTimeline timeline;
  timeline.start();
  std::thread([] { const Scope scope("load"); }).join();
  timeline.stop();
  EXPECT_EQ(timeline.borders().size(), 2);
}

TEST(ScopeTimeline, EveryThreadMayHaveItsOwn) {
  ScopeTimeline timeline;
  timeline.start();
  std::thread([] {
    ScopeTimeline other;
    other.start();
    { const Scope scope("load"); }
    other.stop();
    EXPECT_EQ(other.borders().size(), 4);
  }).join();
  timeline.stop();
  EXPECT_EQ(timeline.borders().size(), 2);
}

TEST(ScopeTimeline, AnotherClockSeesTheSameBorders) {
  std::vector<double> other;
  ScopeTimeline timeline({}, [&] { other.push_back(double(other.size() * other.size())); });
  timeline.start();
  { const Scope scope("load"); }
  { const Scope scope("copy"); }
  timeline.stop();
  // Borders at 0, 1, 4, 9, 16, 25.
  EXPECT_THAT(time_by_owner(timeline.borders(), other),
              ElementsAre(Pair("", 1 + 5 + 9), Pair("copy", 7), Pair("load", 3)));
}

TEST(ScopeTimeline, KnowsTheWaysOnceAndForgetsThemAtANewStart) {
  ScopeTimeline timeline;
  tell_way("before the start");
  timeline.start();
  tell_way("b");
  tell_way("a");
  tell_way("b");
  timeline.stop();
  tell_way("after the stop");
  EXPECT_EQ(timeline.ways(), (std::set<std::string>{"a", "b"}));
  timeline.start();
  timeline.stop();
  EXPECT_TRUE(timeline.ways().empty());
}

TEST(ScopeTimeline, NobodyIsHeardAfterTheStop) {
  ScopeTimeline timeline;
  timeline.start();
  timeline.stop();
  { const Scope scope("load"); }
  EXPECT_EQ(timeline.borders().size(), 2);
}

}  // namespace
}  // namespace lacuna
