#include "lacuna/screen/import/sample_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;

Names genes(uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) names.push_back(fmt::format("g{}", i));
  return Names(names);
}

template <class T>
std::vector<T> column(const Samples& samples, const std::string& name) {
  for (const Column& column : samples.columns)
    if (column.name == name) {
      const auto values = column.values.as<T>();
      return {values.begin(), values.end()};
    }
  throw Error("no column {}", name);
}

void add(SampleRows& rows, uint64_t source, std::vector<uint32_t> removed, double label,
         std::string_view screen = "a") {
  rows.add(source, removed);
  rows.set_label(rows.label("y"), label);
  rows.set_category(rows.category("screen"), screen);
}

TEST(SampleRows, OrderIsThatOfTheSource) {
  SampleRows rows("key");
  add(rows, 10, {1, 2}, 0.5);
  add(rows, 2, {0}, 1.5);
  rows.leave_out(7);
  rows.sort_by_source();
  const Samples samples = rows.samples(3);
  EXPECT_THAT(column<uint32_t>(samples, "key"), ElementsAre(2, 10));
  EXPECT_THAT(samples.labels.as<float>(), ElementsAre(1.5f, 0.5f));
  EXPECT_THAT(samples.removed.as<uint16_t>(), ElementsAre(0, 1, 2));
  EXPECT_EQ(rows.find(10).sample, 1u);
  EXPECT_EQ(rows.find(7).found, SampleRows::Found::left_out);
  EXPECT_EQ(rows.find(8).found, SampleRows::Found::nothing);
  add(rows, 2, {1}, 0);
  EXPECT_THROW(rows.sort_by_source(), Error);  // key 2 twice
}

TEST(SampleRows, WhatIsNotSetIsUnknown) {
  SampleRows rows("row");
  rows.add(0, {});
  add(rows, 1, {0}, 2.0);
  rows.set_number(rows.number("p"), 1e-60);
  rows.set_split(rows.split("fold"), Part::test);
  rows.add(2, {});
  rows.sort_by_source();
  const Samples samples = rows.samples(1);
  EXPECT_TRUE(std::isnan(samples.labels.as<float>()[0]));
  EXPECT_THAT(column<uint8_t>(samples, "screen"), ElementsAre(255, 0, 255));
  EXPECT_EQ(column<double>(samples, "p")[1], 1e-60);  // f32 would make it 0
  EXPECT_THAT(rows.splits()[0].parts.as<uint8_t>(), ElementsAre(255, 2, 255));
}

TEST(SampleRows, NumbersTakeTheSmallestExactType) {
  SampleRows rows("row");
  rows.add(uint64_t(1) << 40, {});
  rows.set_number(rows.number("count"), 16'777'217);
  rows.set_number(rows.number("ratio"), 0.1);
  rows.sort_by_source();
  const Samples samples = rows.samples(1);
  EXPECT_EQ(column<double>(samples, "count")[0], 16'777'217);
  EXPECT_EQ(column<float>(samples, "ratio")[0], 0.1f);
  EXPECT_EQ(column<int64_t>(samples, "row")[0], int64_t(1) << 40);
  EXPECT_THROW(rows.category("ratio"), Error);
}

TEST(SampleRows, RepeatsInDifferentPartsAreRefused) {
  SampleRows rows("row");
  add(rows, 0, {0, 1}, 1);
  rows.set_split(rows.split("fold"), Part::train);
  add(rows, 1, {1, 0}, 1);
  rows.set_split(rows.split("fold"), Part::test);
  rows.sort_by_source();
  Tally tally;
  EXPECT_NO_THROW(rows.merge_repeats(DuplicatePolicy::keep, {}, tally, tally, genes(2)));
  EXPECT_THROW(rows.merge_repeats(DuplicatePolicy::mean, {}, tally, tally, genes(2)), Error);
}

// Against a map from (set, screen) to its samples.
TEST(SampleRows, MergingRandomSamples) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  constexpr uint32_t kGenes = 6;
  for (const auto policy : {DuplicatePolicy::keep, DuplicatePolicy::first, DuplicatePolicy::mean}) {
    SampleRows rows("row");
    struct Group {
      uint32_t first;
      double sum = 0, measured = 0, first_label = 0, members = 0;
    };
    std::map<std::pair<std::set<uint32_t>, std::string>, Group> groups;
    uint64_t count = 300;
    for (uint32_t row = 0; row < count; ++row) {
      std::vector<uint32_t> removed;
      for (uint32_t gene = 0; gene < kGenes; ++gene)
        if (random.below(2) == 0) removed.push_back(gene);
      if (random.below(2) == 0) std::reverse(removed.begin(), removed.end());
      const std::string screen = random.below(2) == 0 ? "a" : "b";
      const double label = random.below(5) == 0 ? NAN : random.normal();
      add(rows, row, removed, label, screen);
      auto [entry, is_new] = groups.try_emplace(
          {std::set<uint32_t>(removed.begin(), removed.end()), screen}, Group{row});
      Group& group = entry->second;
      if (is_new) group.first_label = label;
      group.members += 1;
      if (!std::isnan(label)) group.sum += label, group.measured += 1;
    }
    rows.sort_by_source();
    Tally tally, differing;
    rows.merge_repeats(policy, {"screen"}, tally, differing, genes(kGenes));
    EXPECT_EQ(tally.count, count - groups.size());
    if (policy == DuplicatePolicy::keep) {
      EXPECT_EQ(rows.size(), count);
      continue;
    }
    ASSERT_EQ(rows.size(), groups.size());
    const Samples samples = rows.samples(kGenes);
    const auto row = column<uint32_t>(samples, "row");
    const auto repeats = column<float>(samples, "repeats");
    for (const auto& [key, group] : groups) {
      const auto at = size_t(std::find(row.begin(), row.end(), group.first) - row.begin());
      ASSERT_LT(at, row.size());
      EXPECT_EQ(repeats[at], float(group.members));
      const double expected =
          policy == DuplicatePolicy::first ? group.first_label : group.sum / group.measured;
      const float label = samples.labels.as<float>()[at];
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(label));
      else
        EXPECT_EQ(label, float(expected));
    }
  }
}

TEST(SampleRows, AMeanCarriesItsSpreadAndNoOtherStatistics) {
  SampleRows rows("row");
  const auto add_row = [&](uint64_t row, uint32_t gene, double label, double p, double dose) {
    add(rows, row, {gene}, label);
    rows.set_number(rows.number("p"), p);
    rows.set_number(rows.number("dose"), dose);
  };
  add_row(0, 0, 1, 0.01, 5);
  add_row(1, 0, 4, 0.5, 5);
  add_row(2, 0, NAN, 0.01, 5);
  add_row(3, 1, 7, 0.2, 5);
  rows.sort_by_source();
  Tally tally, differing;
  rows.merge_repeats(DuplicatePolicy::mean, {"screen"}, tally, differing, genes(2));
  const Samples samples = rows.samples(2);
  EXPECT_THAT(samples.labels.as<float>(), ElementsAre(2.5f, 7.f));
  EXPECT_THAT(column<float>(samples, "repeats"), ElementsAre(3, 1));
  EXPECT_THAT(column<float>(samples, "y_repeats"), ElementsAre(2, 1));  // the third has no label
  EXPECT_FLOAT_EQ(column<float>(samples, "y_repeat_sd")[0], float(std::sqrt(4.5)));
  EXPECT_TRUE(std::isnan(column<float>(samples, "y_repeat_sd")[1]));
  EXPECT_TRUE(std::isnan(column<float>(samples, "p")[0]));  // 0.01 is that of the first row
  EXPECT_EQ(column<float>(samples, "p")[1], 0.2f);
  EXPECT_THAT(column<float>(samples, "dose"), ElementsAre(5, 5));
  EXPECT_EQ(differing.count, 1u);
}

// Labels are a true value and noise of a known variance, other in each screen.
TEST(SampleRows, RepeatsTellTheNoiseOfEachScreen) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  SampleRows rows("row");
  constexpr uint32_t kGenes = 2000;
  const std::map<std::string, double> sds = {{"a", 0.5}, {"b", 3}};
  uint64_t row = 0;
  for (const auto& [screen, sd] : sds)
    for (uint32_t gene = 0; gene < kGenes; ++gene) {
      const double truth = 10 * random.normal();
      for (uint32_t i = 0; i < 1 + gene % 3; ++i)
        add(rows, row++, {gene}, truth + sd * random.normal(), screen);
    }
  for (uint32_t gene = 0; gene < 9; ++gene)  // too few to say anything
    for (int i = 0; i < 2; ++i) add(rows, row++, {gene}, random.normal(), "few");
  for (uint32_t gene = 0; gene < 100; ++gene)  // listed twice, measured once
    for (int i = 0; i < 2; ++i) add(rows, row++, {gene}, double(gene), "copies");
  rows.sort_by_source();
  for (const auto policy : {DuplicatePolicy::keep, DuplicatePolicy::mean}) {
    Tally tally, differing;
    const auto noise = rows.merge_repeats(policy, {"screen"}, tally, differing, genes(kGenes));
    ASSERT_EQ(noise.size(), sds.size());
    for (const LabelNoise& one : noise) {
      EXPECT_EQ(one.label, "y");
      EXPECT_EQ(one.column, "screen");
      EXPECT_NEAR(std::sqrt(one.variance), sds.at(one.category), 0.1 * sds.at(one.category));
      EXPECT_EQ(one.sets, 1333u);  // gene % 3 is 1 or 2
      EXPECT_EQ(one.repeats, 667u * 2 + 666u * 3);
    }
  }
}

// Samples that remove the same genes under different conditions are compared with few others:
// comparing each with all would take hours.
TEST(SampleRows, ManyConditionsOfTheSameGenesTakeNoTime) {
  SampleRows rows("row");
  constexpr uint64_t kSamples = 300'000;
  for (uint64_t s = 0; s < kSamples; ++s) {
    rows.add(s, std::vector<uint32_t>{1});
    const double number = s % 100 == 0 ? NAN : s % 100 == 1 ? -0.0 : double(s / 2 * 2);
    rows.set_number(rows.number("dose"), number == 2 ? 0.0 : number);
  }
  rows.sort_by_source();
  ImportReport report;
  Tally& tally = report.tally("a", "repeats");
  rows.merge_repeats(DuplicatePolicy::first, {"dose"}, tally, tally, genes(3));
  std::set<double> doses;  // the different ones; NaN is one, and so is 0
  for (uint64_t s = 0; s < kSamples; ++s)
    if (s % 100 > 1) doses.insert(s / 2 * 2 == 2 ? 0.0 : double(s / 2 * 2));
  EXPECT_EQ(rows.size(), doses.size() + 1);
  EXPECT_EQ(tally.count, kSamples - rows.size());
}

TEST(SampleRows, AColumnOfItsOwnForEverySampleIsRefused) {
  SampleRows rows("key");
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(rows.label(fmt::format("y{}", i)), size_t(i));
  EXPECT_EQ(rows.label("y7"), 7u);
  EXPECT_ERROR(rows.label("one more"), "'one more' would be label or column 1001");
}

}  // namespace
}  // namespace lacuna
