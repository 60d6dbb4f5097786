#include "lacuna/report/svg.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <set>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna::report {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> result;
  for (const auto& tick : ticks) result.push_back(tick.label);
  return result;
}

TEST(Axis, TicksAreRoundAndHaveEqualDecimals) {
  EXPECT_THAT(labels(Axis::exactly(0, 1, 0, 100).ticks(5)),
              ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(labels(Axis::exactly(-0.5, 0.5, 0, 100).ticks(4)),
              ElementsAre("-0.50", "-0.25", "0", "0.25", "0.50"));
  EXPECT_THAT(labels(Axis::exactly(0, 40000, 0, 100).ticks(4)),
              ElementsAre("0", "10k", "20k", "30k", "40k"));
  EXPECT_THAT(labels(Axis::covering(1, 1000, 0, 100, true).ticks(6)),
              ElementsAre("1", "10", "100", "1000"));
}

// Whatever the data: both ends lie on the axis, ticks lie on it, ascend, and differ in their words.
TEST(Axis, CoversWhateverItIsGiven) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 2000; ++i) {
    const double size = std::pow(10.0, 16 * random.uniform() - 8);
    const double low = size * random.normal(), high = low + size * random.uniform();
    const bool is_log = i % 3 == 0;
    const Axis axis = Axis::covering(low, high, 0, 500, is_log);
    SCOPED_TRACE(::testing::Message() << low << " to " << high << " log " << is_log);
    ASSERT_LE(axis.low(), low);
    ASSERT_GE(axis.high(), high);
    const auto ticks = axis.ticks(6);
    std::set<std::string> words;
    for (size_t t = 0; t < ticks.size(); ++t) {
      words.insert(ticks[t].label);
      const double pixel = axis.pixel(ticks[t].value);
      EXPECT_TRUE(pixel > -0.01 && pixel < 500.01) << pixel;
      EXPECT_TRUE(t == 0 || ticks[t].value > ticks[t - 1].value);
    }
    EXPECT_GE(ticks.size(), 2u);
    EXPECT_LE(ticks.size(), 14u);
    // Far from zero, a narrow range would need more digits than a label has.
    EXPECT_TRUE(words.size() == ticks.size() || high - low < 1e-3 * std::abs(low));
  }
}

TEST(Axis, ARangeWithoutWidthGetsOne) {
  for (const double value : {0.0, 3.0, -1e-9, 1e12}) {
    const Axis axis = Axis::covering(value, value, 0, 100);
    EXPECT_LT(axis.low(), value);
    EXPECT_GT(axis.high(), value);
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Axis axis = Axis::covering(nan, nan, 0, 100);
  EXPECT_TRUE(std::isfinite(axis.low()) && axis.low() < axis.high());
}

TEST(Axis, PixelsFollowTheScale) {
  const Axis up = Axis::exactly(0, 10, 200, 0);
  EXPECT_DOUBLE_EQ(up.pixel(2.5), 150);
  const Axis log = Axis::covering(1, 100, 0, 104, true);  // two hundredths of room at either end
  EXPECT_NEAR(log.pixel(10), 52, 1e-9);
  EXPECT_FALSE(Axis::covering(0, 100, 0, 100, true).is_log());  // zero has no logarithm
}

}  // namespace
}  // namespace lacuna::report
