#include "lacuna/run/evaluation/linear_fields.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

TEST(CoarseWindow, HasFewEnoughFeatures) {
  const CoarseWindow coarse = CoarseWindow::of(33, 51, 51);
  EXPECT_LE(coarse.features(), kMostFeatures);
  EXPECT_GT(coarse.features(), kMostFeatures / 3);
  const CoarseWindow small = {.lags = 3, .height = 4, .width = 5, .lag_block = 2, .pixel_block = 3};
  EXPECT_EQ(small.features(), 2u * 2 * 2);
  EXPECT_EQ(CoarseWindow::of(2, 3, 4).features(), 24u);  // few enough as they are
}

// Counts that are a linear function of the features plus noise: the weights are found again, and
// counts that are not valid do not matter.
TEST(LinearFields, FindsThePlantedWeights) {
  Random random(test_seed());
  const uint64_t n = 3000, F = 12, U = 3;
  std::vector<float> x(n * F), counts(n * U);
  std::vector<uint8_t> validity(n * U, 1);
  std::vector<int64_t> trial(n);
  std::vector<double> planted(U * F);
  for (double& weight : planted) weight = random.normal();
  for (uint64_t r = 0; r < n; ++r) {
    trial[r] = int64_t(r / 20);
    for (uint64_t f = 0; f < F; ++f) x[r * F + f] = float(random.normal() + 3);
    for (uint64_t u = 0; u < U; ++u) {
      double sum = 40;
      for (uint64_t f = 0; f < F; ++f) sum += planted[u * F + f] * (x[r * F + f] - 3);
      counts[r * U + u] = float(sum + 0.1 * random.normal());
      if (random.uniform() < 0.05) {
        validity[r * U + u] = 0;
        counts[r * U + u] = NAN;
      }
    }
  }
  const LinearFields fields = fit_linear_fields(
      {.features = F, .units = U, .x = x, .counts = counts, .validity = validity, .trial = trial});
  for (uint64_t i = 0; i < U * F; ++i) EXPECT_NEAR(fields.weight[i], planted[i], 0.15);
  const std::vector<float> rates = fields.predict(x);
  for (uint64_t u = 0; u < U; ++u) {
    double expected = fields.intercept[u];
    for (uint64_t f = 0; f < F; ++f) expected += fields.weight[u * F + f] * x[f];
    EXPECT_NEAR(rates[u], expected, 1e-3);
  }
}

TEST(LinearFields, ARateIsNeverBelowItsFloor) {
  LinearFields fields = {
      .features = 1, .units = 1, .weight = {1}, .intercept = {0}, .floor = {0.2}};
  const std::vector<float> x = {-5, 0.1f, 3};
  EXPECT_EQ(fields.predict(x), (std::vector<float>{0.2f, 0.2f, 3}));
}

}  // namespace
}  // namespace lacuna
