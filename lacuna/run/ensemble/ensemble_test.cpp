#include "lacuna/run/ensemble/ensemble.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/ensemble/ensemble_weights.h"
#include "lacuna/run/evaluation/apart/coverage.h"

namespace lacuna {
namespace {

constexpr float kMissingLabel = std::numeric_limits<float>::quiet_NaN();

double mse_of(const std::vector<std::vector<float>>& members, const std::vector<float>& measured,
              const std::vector<double>& weights) {
  return compute_metrics(combine(members, weights).mean, measured).mse;
}

struct Members {
  std::vector<std::vector<float>> predicted;
  std::vector<float> measured;

  Members(uint64_t seed, const std::vector<double>& noise) : predicted(noise.size()) {
    Random random(seed);
    for (size_t s = 0; s < 500; ++s) {
      const double truth = random.normal();
      measured.push_back(s % 9 ? float(truth) : kMissingLabel);
      for (size_t m = 0; m < noise.size(); ++m)
        predicted[m].push_back(float(truth + noise[m] * random.normal()));
    }
  }
};

TEST(EnsembleWeights, NoOtherWeightsAreBetter) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const Members members(seed, {0.5, 1, 3});
  const std::vector<double> best = best_weights(members.predicted, members.measured);
  EXPECT_NEAR(std::accumulate(best.begin(), best.end(), 0.0), 1, 1e-12);
  EXPECT_GT(best[0], best[1]);
  EXPECT_GT(best[1], best[2]);
  const double lowest = mse_of(members.predicted, members.measured, best);
  for (double a = 0; a <= 1; a += 0.02)
    for (double b = 0; a + b <= 1; b += 0.02)
      EXPECT_GE(mse_of(members.predicted, members.measured, {a, b, 1 - a - b}), lowest - 1e-6);
  EXPECT_EQ(best, best_weights(members.predicted, members.measured));
}

TEST(EnsembleWeights, AMemberThatOnlyHarmsCountsNothing) {
  Members members(1, {0.5, 0.5, 0.5});
  for (size_t s = 0; s < members.measured.size(); ++s)  // the first one's errors, thrice as large
    members.predicted[2][s] = 3 * members.predicted[0][s] - 2 * members.measured[s];
  const auto best = best_weights(members.predicted, members.measured);
  EXPECT_EQ(best[2], 0);
  EXPECT_NEAR(best[0], 0.5, 0.1);
  const std::vector<float> nothing(500, kMissingLabel);
  EXPECT_EQ(best_weights({members.predicted[0], members.predicted[1]}, nothing),
            (std::vector<double>{0.5, 0.5}));
}

TEST(EnsembleWeights, MeanAndSpreadAreThoseOfTheTextbook) {
  const auto both = combine({{1, 5}, {3, 5}}, std::vector<double>{0.5, 0.5});
  EXPECT_EQ(both.mean, (std::vector<float>{2, 5}));
  EXPECT_EQ(both.spread, (std::vector<float>{1, 0}));
}

// Errors in proportion to the spread: intervals from validation cover another part as often as they
// say, and the spread tells the errors.
TEST(Coverage, HoldsOnAnotherPartLikeValidation) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  struct Drawn {
    std::vector<float> predicted, spread, measured;
    Drawn(uint64_t seed, uint64_t stream, double scale) {
      Random random(seed, stream);
      for (size_t s = 0; s < 4000; ++s) {
        spread.push_back(float(0.1 + random.uniform()));
        predicted.push_back(float(random.normal()));
        measured.push_back(predicted.back() +
                           float(scale * double(spread.back()) * random.normal()));
      }
      measured[7] = kMissingLabel;
    }
    SpreadPredictions view() const { return {predicted, spread, measured}; }
  };
  const Drawn validation(seed, 1, 1), like(seed, 2, 1), worse(seed, 3, 3);
  const Uncertainty good = judge_spread(validation.view(), like.view());
  ASSERT_EQ(good.coverages.size(), std::size(kCoverageLevels));
  for (const Coverage& of : good.coverages) EXPECT_NEAR(of.covered, of.level, 0.05);
  EXPECT_GT(good.coverages[3].width, good.coverages[0].width);
  EXPECT_GT(good.rank_correlation, 0.2);
  for (const Coverage& of : judge_spread(validation.view(), worse.view()).coverages)
    EXPECT_LT(of.covered, of.level - 0.1);
  const std::vector<float> one = {1}, none = {kMissingLabel};
  EXPECT_TRUE(std::isinf(judge_spread({one, one, one}, {one, one, one}).coverages[3].width));
  EXPECT_TRUE(std::isnan(judge_spread({one, one, none}, {one, one, one}).coverages[0].covered));
}

}  // namespace
}  // namespace lacuna
