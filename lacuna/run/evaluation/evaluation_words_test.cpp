#include "lacuna/run/evaluation/evaluation_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lacuna {
namespace {

TEST(EvaluationWords, RowsAndLinesForPeople) {
  Evaluation evaluation = {"pair", "last", 10, {}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Scores model = {
      "model", "", {1234, 0.56789, 0.4, 0.0123456}, {{{0.5, 0.6}, {0.3, 0.45}, {0.01, 0.02}}}};
  const Scores mean = {"mean",
                       "",
                       {1234, nan, nan, 0.5},
                       {{{nan, nan}, {nan, nan}, {0.4, 0.6}}},
                       {{{1234, nan, nan, -0.487}, {{nan, nan}, {nan, nan}, {-0.59, -0.38}}}}};
  const Scores ridge = {"ridge",
                        "",
                        {1234, 0.55, 0.4, 0.0123},
                        {{{0.5, 0.6}, {0.3, 0.45}, {0.01, 0.02}}},
                        {{{1234, 0.01789, 0, 0}, {{-0.01, 0.04}, {-1, 1}, {-1, 1}}}}};
  evaluation.parts = {{"test", 1300, {{"fitness", {model, mean, ridge}}}, "pairs", "", 36}};
  using Rows = std::vector<std::vector<std::string>>;
  const Rows expected = {
      {"part", "predictor", "measured", "Pearson", "95%", "Spearman", "95%", "MSE", "95%",
       "model minus it", "model is"},
      {"test", "model", "1234", "0.5679", "0.5 to 0.6", "0.4", "0.3 to 0.45", "0.01235",
       "0.01 to 0.02", "", ""},
      {"test", "mean", "1234", "-", "-", "-", "-", "0.5", "0.4 to 0.6",
       "MSE -0.487 (-0.59 to -0.38)", "ahead"},
      {"test", "ridge", "1234", "0.55", "0.5 to 0.6", "0.4", "0.3 to 0.45", "0.0123",
       "0.01 to 0.02", "Pearson +0.01789 (-0.01 to 0.04)", "not told apart"}};
  EXPECT_EQ(evaluation_rows(evaluation), expected);
  EXPECT_THAT(evaluation_lines(evaluation),
              ::testing::ElementsAre(
                  "test: intervals are the middle 95% of 10 draws of its 36 pairs",
                  "test: on 'fitness' the model is ahead of mean; not told apart from ridge"));
  evaluation.parts[0].labels.push_back({"interaction", {model}});
  evaluation.bootstrap = 0;
  EXPECT_THAT(evaluation_rows(evaluation)[0],
              ::testing::ElementsAre("part", "label", "predictor", "measured", "Pearson",
                                     "Spearman", "MSE"));
  EXPECT_THAT(
      evaluation_rows(evaluation)[4],
      ::testing::ElementsAre("test", "interaction", "model", "1234", "0.5679", "0.4", "0.01235"));
}

}  // namespace
}  // namespace lacuna
