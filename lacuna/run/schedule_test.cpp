#include "lacuna/run/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lacuna {
namespace {

TrainOptions options(int64_t warmup, int64_t restart_epochs, double factor) {
  TrainOptions options = {};
  options.lr = 0.5;
  options.warmup_steps = warmup;
  options.restart_epochs = restart_epochs;
  options.restart_factor = factor;
  return options;
}

TEST(Schedule, WarmUpRisesInEqualSteps) {
  const auto o = options(4, 3, 1);
  for (uint64_t step = 0; step < 4; ++step)
    EXPECT_DOUBLE_EQ(learning_rate(o, step, 10), 0.5 * double(step + 1) / 4) << step;
}

TEST(Schedule, PeriodsStartAtTheRateAndGrow) {
  const auto o = options(5, 2, 2);  // 7 steps an epoch: periods of 14, 28, 56 steps
  std::vector<double> expected;
  for (const int period : {14, 28, 56})
    for (int place = 0; place < period; ++place)
      expected.push_back(0.25 + 0.25 * std::cos(M_PI * place / period));
  for (uint64_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(learning_rate(o, 5 + i, 7), expected[i], 1e-12) << i;
  EXPECT_DOUBLE_EQ(learning_rate(o, 5 + 14, 7), 0.5);
  EXPECT_LT(learning_rate(o, 5 + 13, 7), 0.01);
}

TEST(Schedule, WithoutWarmUpTheFirstStepHasTheFullRate) {
  EXPECT_DOUBLE_EQ(learning_rate(options(0, 1, 1), 0, 3), 0.5);
}

}  // namespace
}  // namespace lacuna
