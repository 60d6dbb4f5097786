#include "lacuna/report/scores/tail_scores.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/evaluation/apart/ranking.h"

namespace lacuna::report {
namespace {

// By pairs of samples, and by thresholds: nothing is sorted.
double auroc_by_pairs(const std::vector<float>& score, const std::vector<bool>& strong) {
  double right = 0, all = 0;
  for (size_t i = 0; i < score.size(); ++i)
    for (size_t j = 0; j < score.size(); ++j)
      if (strong[i] && !strong[j]) {
        ++all;
        right += score[i] > score[j] ? 1 : score[i] == score[j] ? 0.5 : 0;
      }
  return right / all;
}

double average_precision_by_loops(const std::vector<float>& score,
                                  const std::vector<bool>& strong) {
  double sum = 0, all = 0;
  for (size_t i = 0; i < score.size(); ++i) {
    if (!strong[i]) continue;
    double above = 0, found = 0;
    for (size_t j = 0; j < score.size(); ++j)
      if (score[j] >= score[i]) ++above, found += strong[j];
    sum += found / above;
    ++all;
  }
  return sum / all;
}

TEST(TailScores, AgreeWithPlainLoops) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<float> predicted, measured;
  for (int i = 0; i < 300; ++i) {
    measured.push_back(float(random.normal()));
    predicted.push_back(std::round(4 * (measured.back() + float(random.normal()))) /
                        4);  // with ties
  }
  for (const bool is_low : {true, false}) {
    const double threshold =
        is_low ? lower_threshold(measured, 0.1) : upper_threshold(measured, 0.1);
    const TailScores scores = tail_scores(predicted, measured, threshold, is_low);
    EXPECT_EQ(scores.strong, 30u);
    std::vector<float> score = predicted;
    std::vector<bool> strong;
    for (size_t i = 0; i < score.size(); ++i) {
      if (is_low) score[i] = -score[i];
      strong.push_back(is_low ? measured[i] <= threshold : measured[i] >= threshold);
    }
    EXPECT_NEAR(scores.auroc, auroc_by_pairs(score, strong), 1e-12);
    EXPECT_NEAR(scores.average_precision, average_precision_by_loops(score, strong), 1e-12);
    EXPECT_GT(scores.auroc, 0.6);
  }
}

TEST(TailScores, PrecisionAtKSharesTiesAtItsEnd) {
  std::vector<float> predicted(20, 0), measured(20, 0);
  for (int i = 0; i < 8; ++i) predicted[i] = 1, measured[i] = i < 6 ? 2 : 0;
  for (int i = 8; i < 12; ++i) predicted[i] = 0.5;
  measured[8] = 2;  // one of four ties, of which two are among the first ten
  const TailScores scores = tail_scores(predicted, measured, 1, false);
  EXPECT_EQ(scores.strong, 7u);
  EXPECT_NEAR(scores.precision[0], (6 + 0.5) / 10, 1e-12);
  EXPECT_TRUE(std::isnan(scores.precision[1]));  // there are no fifty
}

TEST(TailScores, NothingStrongIsNotDefined) {
  const std::vector<float> values = {1, 2, NAN}, predicted = {1, NAN, 1};
  const TailScores scores = tail_scores(predicted, values, 5, false);
  EXPECT_EQ(scores.samples, 1u);
  EXPECT_TRUE(std::isnan(scores.auroc) && std::isnan(scores.average_precision));
  EXPECT_TRUE(std::isnan(lower_threshold({}, 0.05)));
  EXPECT_EQ(lower_threshold(values, 0.05), 1);
  EXPECT_EQ(upper_threshold(values, 0.05), 2);
}

}  // namespace
}  // namespace lacuna::report
