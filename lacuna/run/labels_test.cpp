#include "lacuna/run/labels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One gene removed each; labels row by row.
Samples with_labels(const std::vector<std::string>& names, const std::vector<float>& rows) {
  SampleBuilder builder(3, names);
  const uint32_t gene[] = {0};
  for (size_t s = 0; s < rows.size(); s += names.size())
    builder.add(gene, std::span(rows).subspan(s, names.size()));
  return builder.finish();
}

TEST(Labels, ScaleIsThatOfTheTrainingSamplesWithoutTheMissing) {
  const Samples samples =
      with_labels({"a", "b"}, {1, 10, 3, kNan, 5, 30, kNan, 50, 1000, 1000, 7, 70});
  const std::vector<uint32_t> training = {0, 1, 2, 3};  // the last two stay out
  const LabelScale scale = scale_labels(samples, {}, training);
  ASSERT_EQ(scale.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_DOUBLE_EQ(scale.mean[0], 3);                   // 1, 3, 5
  EXPECT_DOUBLE_EQ(scale.sd[0], std::sqrt(8.0 / 3));    //
  EXPECT_DOUBLE_EQ(scale.mean[1], 30);                  // 10, 30, 50
  EXPECT_DOUBLE_EQ(scale.sd[1], std::sqrt(800.0 / 3));  //
  EXPECT_FLOAT_EQ(scale.standardise(0, 3), 0);
  EXPECT_TRUE(std::isnan(scale.standardise(0, kNan)));
  for (const float value : {-4.f, 0.f, 17.5f})
    EXPECT_NEAR(scale.restore(1, scale.standardise(1, value)), value, 1e-4);
}

TEST(Labels, ChosenOnesComeInTheOrderOfTheirNames) {
  const Samples samples = with_labels({"a", "b"}, {1, 10, 3, 20});
  const std::vector<uint32_t> training = {0, 1};
  const LabelScale scale = scale_labels(samples, {"b"}, training);
  EXPECT_EQ(scale.columns, std::vector<uint64_t>{1});
  EXPECT_DOUBLE_EQ(scale.mean[0], 15);
  EXPECT_ERROR(scale_labels(samples, {"c"}, training), "no label 'c'; it has: a, b");
  EXPECT_ERROR(scale_labels(samples, {"b", "a", "b"}, training), "label 'b' is named twice");
}

TEST(Labels, WhatCannotBeLearntIsNamed) {
  const std::vector<uint32_t> training = {0, 1, 2};
  const Samples constant = with_labels({"a"}, {2, 2, 2});
  EXPECT_ERROR(scale_labels(constant, {}, training), "label 'a'");
  const Samples missing = with_labels({"a"}, {kNan, kNan, kNan});
  EXPECT_ERROR(scale_labels(missing, {}, training), "0 measured training samples");
  const Samples one = with_labels({"a"}, {kNan, 4, kNan});
  EXPECT_ERROR(scale_labels(one, {}, training), "1 measured training samples");
  const Samples infinite = with_labels({"a"}, {1, 2, std::numeric_limits<float>::infinity()});
  EXPECT_ERROR(scale_labels(infinite, {}, training), "label 'a' of sample 2 is infinite");
  const LabelScale scale = scale_labels(infinite, {}, std::vector<uint32_t>{0, 1});
  EXPECT_NO_THROW(check_labels(infinite, scale, std::vector<uint32_t>{0, 1}));
  EXPECT_ERROR(check_labels(infinite, scale, training), "label 'a' of sample 2 is infinite");
  EXPECT_NO_THROW(check_labels(missing, scale, training));
}

TEST(Labels, ATrainedScaleFindsItsLabelsByName) {
  const LabelScale trained = {{"b"}, {0}, {5}, {2}};
  const LabelScale found = find_labels(with_labels({"a", "b"}, {1, 2}), trained);
  EXPECT_EQ(found.columns, std::vector<uint64_t>{1});
  EXPECT_EQ(found.mean, trained.mean);
  EXPECT_ERROR(find_labels(with_labels({"a"}, {1}), trained), "no label 'b'");
}

}  // namespace
}  // namespace lacuna
