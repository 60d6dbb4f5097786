#include "lacuna/run/evaluation/validation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lacuna {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Labels a and b whose units differ by a thousand.
const LabelScale kLabels = {{"a", "b"}, {0, 1}, {0, 0}, {1, 1000}};

TEST(Validation, EveryLabelCountsAlikeWhateverItsUnit) {
  const std::vector<float> measured = {0, 0, 1, 2000, 2, 4000};
  const std::vector<float> predicted = {1, 0, 2, 2000, 3, 1000};  // a: off by 1; b: once by 3 sd
  const Validation found = validate(predicted, measured, kLabels);
  ASSERT_EQ(found.labels.size(), 2u);
  EXPECT_DOUBLE_EQ(found.labels[1].mse, 3e6);  // in its own unit
  EXPECT_NEAR(found.mse, (1 + 3) / 2.0, 1e-12);
  EXPECT_NEAR(found.pearson, (found.labels[0].pearson + found.labels[1].pearson) / 2, 1e-12);
}

TEST(Validation, LabelsThatCannotBeJudgedTakeNoPart) {
  const std::vector<float> predicted = {0, 1, 1, 2, 3, 3};
  const std::vector<float> missing = {0, kNan, 1, kNan, 2, kNan};
  const std::vector<float> same = {0, 7, 1, 7, 2, 7};
  const Validation alone =
      validate(std::vector<float>{0, 1, 3}, std::vector<float>{0, 1, 2}, {{"a"}, {0}, {0}, {1}});
  EXPECT_EQ(validate(predicted, missing, kLabels).pearson, alone.pearson);
  EXPECT_EQ(validate(predicted, missing, kLabels).mse, alone.mse);
  EXPECT_EQ(validate(predicted, same, kLabels).pearson, alone.pearson);
  EXPECT_EQ(labels_without_spread(missing, kLabels), (std::vector<std::string>{"b"}));
  EXPECT_EQ(labels_without_spread(same, kLabels), (std::vector<std::string>{"b"}));
}

TEST(Validation, NothingToJudgeIsNoScore) {
  const std::vector<float> one = {1, kNan};
  const Validation single = validate(one, one, kLabels);
  EXPECT_TRUE(std::isnan(single.pearson));
  EXPECT_EQ(single.mse, 0);
  EXPECT_EQ(labels_without_spread(one, kLabels), kLabels.names);
  const std::vector<float> none = {kNan, kNan};
  EXPECT_TRUE(std::isnan(validate(one, none, kLabels).mse));
  EXPECT_TRUE(validate({}, {}, kLabels).labels.empty());
  EXPECT_TRUE(std::isnan(validate({}, {}, kLabels).pearson));
}

// Nobody can say how good it is; leaving the label out would flatter it.
TEST(Validation, PredictionsWithoutSpreadAreNeverTheBest) {
  const std::vector<float> measured = {0, 0, 1, 2000, 2, 4000};
  const std::vector<float> predicted = {0, 5, 1, 5, 2, 5};
  EXPECT_TRUE(std::isnan(validate(predicted, measured, kLabels).pearson));
}

}  // namespace
}  // namespace lacuna
