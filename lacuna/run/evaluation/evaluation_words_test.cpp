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

Scores scores_named(const std::string& predictor, double pearson, double low, double high) {
  return {predictor,
          "",
          {100, pearson, pearson, 1},
          {{{pearson, pearson}, {0, 1}, {0, 1}}},
          {{{100, (low + high) / 2, 0, 0}, {{low, high}, {-1, 1}, {-1, 1}}}}};
}

// Behind it or not told apart from it: simple arithmetic does as well.
TEST(EvaluationWords, NotAheadOfNetworkHasALineOfItsOwn) {
  Evaluation evaluation = {"gene", "last", 10, {}};
  const auto lines = [&](const Scores& network) {
    evaluation.parts = {{"test", 100, {{"fitness", {{"model"}, network}}}, "genes", "", 36}};
    return evaluation_lines(evaluation);
  };
  const auto has_line =
      ::testing::Contains(::testing::StartsWith("test: on 'fitness' the model is not ahead of "
                                                "network, a ridge that reads the gene networks"));
  EXPECT_THAT(lines(scores_named("network", 0.4, -0.1, 0.1)), has_line);
  EXPECT_THAT(lines(scores_named("network", 0.4, -0.2, -0.1)), has_line);
  EXPECT_THAT(lines(scores_named("network", 0.4, 0.1, 0.2)), ::testing::Not(has_line));
  EXPECT_THAT(lines(scores_named("ridge", 0.4, -0.2, -0.1)), ::testing::Not(has_line));
}

TEST(EvaluationWords, AModelAboveTheNoiseCeilingHasSeveralCauses) {
  LabelEvaluation label = {"fitness", {scores_named("model", 0.95, 0, 0)}};
  label.ceiling = 0.9;
  for (const char* cause : {"by chance", "noisier than these", "the model knew what it was asked"})
    EXPECT_THAT(ceiling_text(label), ::testing::HasSubstr(cause));
  label.ceiling = 0.99;
  EXPECT_THAT(ceiling_text(label), ::testing::Not(::testing::HasSubstr("by chance")));
}

TEST(EvaluationWords, TailsHaveBothScoresAndTheBestBaselineThatIsNoMember) {
  Evaluation evaluation = {"gene", "last", 10, {}};
  LabelEvaluation label = {"fitness", {scores_named("model", 0.5, 0, 0)}};
  label.tails = {{"lowest",
                  -2,
                  50,
                  1000,
                  {{"model", {0.3, 0.2, 0.4}, {0.35, 0.2, 0.4}},
                   {"network", {0.25, 0.2, 0.3}, {0.28, 0.2, 0.3}, {0.05, 0.01, 0.09}},
                   {"member 1", {0.29, 0.2, 0.3}, {0.3, 0.2, 0.3}, {0.01, 0, 0.02}, true}}}};
  evaluation.parts = {{"test", 1000, {label}, "genes", "", 36}};
  const auto rows = apart_rows(evaluation);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_THAT(rows[1],
              ::testing::ElementsAre("test", "the lowest 5%", "50", "average precision", "0.3",
                                     "network", "0.25", "+0.05 (0.01 to 0.09)", "ahead"));
  EXPECT_THAT(rows[2], ::testing::ElementsAre("test", "the lowest 5%", "50", "precision at k",
                                              "0.35", "network", "0.28", "-", "-"));
}

}  // namespace
}  // namespace lacuna
