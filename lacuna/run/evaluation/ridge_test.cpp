#include "lacuna/run/evaluation/ridge.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/evaluation/testing.h"

namespace lacuna {
namespace {

Indicators random_indicators(uint64_t seed, uint64_t samples, uint32_t columns) {
  Random random(seed, 1);
  Indicators x;
  x.columns = columns;
  for (uint64_t s = 0; s < samples; ++s) {
    for (uint64_t k = random.below(4); k > 0; --k) {
      const auto column = uint32_t(random.below(random.below(2) ? columns : 3));
      const auto own = std::span(x.column).subspan(x.ptr.back());
      if (std::find(own.begin(), own.end(), column) == own.end()) x.column.push_back(column);
    }
    x.ptr.push_back(x.column.size());
  }
  return x;
}

std::vector<double> random_labels(uint64_t seed, uint64_t samples) {
  Random random(seed, 2);
  std::vector<double> y(samples);
  for (double& value : y) value = 0.3 + random.normal();
  return y;
}

TEST(Ridge, IsTheClosedForm) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Indicators x = random_indicators(seed, 300, 25);
  const std::vector<double> y = random_labels(seed, 300);
  std::vector<double> start;
  for (double strength : {100.0, 3.0, 0.1}) {
    const std::vector<double> expected = dense_ridge(x, y, strength);
    for (const auto& from : {std::vector<double>{}, start}) {
      const RidgeFit fit = fit_ridge(x, y, strength, from).value();
      EXPECT_NEAR(fit.intercept, expected[0], 1e-7);
      for (size_t c = 0; c < x.columns; ++c) EXPECT_NEAR(fit.weights[c], expected[c + 1], 1e-7);
    }
    start = fit_ridge(x, y, strength)->weights;
  }
}

TEST(Ridge, AWeightIsAsManyCopiesAndTheDenseWeightedFit) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Indicators x = random_indicators(seed, 200, 20);
  const std::vector<double> y = random_labels(seed, 200);
  Random random(seed, 3);
  std::vector<double> whole, any, copied_y;
  Indicators copied;
  copied.columns = x.columns;
  for (uint64_t s = 0; s < x.size(); ++s) {
    whole.push_back(double(random.below(4)));
    any.push_back(random.uniform());
    for (double copy = 0; copy < whole[s]; ++copy) {
      copied.column.insert(copied.column.end(), x.of(s).begin(), x.of(s).end());
      copied.ptr.push_back(copied.column.size());
      copied_y.push_back(y[s]);
    }
  }
  for (double strength : {30.0, 1.0}) {
    const RidgeFit fit = fit_ridge(x, y, strength, {}, kRidgeSteps, whole).value();
    const RidgeFit copies = fit_ridge(copied, copied_y, strength).value();
    EXPECT_NEAR(fit.intercept, copies.intercept, 1e-7);
    for (size_t c = 0; c < x.columns; ++c) EXPECT_NEAR(fit.weights[c], copies.weights[c], 1e-7);
    const RidgeFit weighted = fit_ridge(x, y, strength, {}, kRidgeSteps, any).value();
    const std::vector<double> dense = dense_ridge(x, y, strength, any);
    EXPECT_NEAR(weighted.intercept, dense[0], 1e-7);
    for (size_t c = 0; c < x.columns; ++c) EXPECT_NEAR(weighted.weights[c], dense[c + 1], 1e-7);
  }
}

TEST(Ridge, AColumnThatNoSampleHasIsZero) {
  Indicators x = {4, {0, 1, 2, 3}, {0, 0, 2}};
  const std::vector<double> y = {1, 2, 6};
  const RidgeFit fit = fit_ridge(x, y, 1).value();
  EXPECT_EQ(fit.weights[1], 0);
  EXPECT_EQ(fit.weights[3], 0);
  EXPECT_NE(fit.weights[2], 0);
}

TEST(Ridge, WithoutColumnsOrSpreadTheInterceptIsTheMean) {
  const std::vector<double> y = {1, 2, 6};
  EXPECT_DOUBLE_EQ(fit_ridge({0, {0, 0, 0, 0}, {}}, y, 1)->intercept, 3);
  const std::vector<double> same = {2, 2, 2};
  const RidgeFit fit = fit_ridge({2, {0, 1, 2, 2}, {0, 1}}, same, 1).value();
  EXPECT_EQ(fit.intercept, 2);
  EXPECT_EQ(fit.weights[0], 0);
  EXPECT_EQ(fit.steps, 0);
}

TEST(Ridge, AWarmStartSavesSteps) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Indicators x = random_indicators(seed, 400, 60);
  const std::vector<double> y = random_labels(seed, 400);
  const RidgeFit fit = fit_ridge(x, y, 1).value();
  EXPECT_GT(fit.steps, 2);
  EXPECT_LE(fit_ridge(x, y, 1, fit.weights)->steps, 2);
  EXPECT_FALSE(fit_ridge(x, y, 1, {}, fit.steps - 1).has_value());
}

}  // namespace
}  // namespace lacuna
