#include "lacuna/screen/subset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

class SubsetTest : public ::testing::Test {
 protected:
  SubsetTest()
      : screen_(write_screen(
            directory_ / "screen",
            {small_graph(seed_), small_samples(seed_, kCount), {thirds_split(kCount)}, {}})) {}

  std::set<uint32_t> genes(uint64_t sample) const {
    std::vector<uint32_t> removed;
    RemovedReader(screen_.samples()).read(sample, removed);
    return {removed.begin(), removed.end()};
  }
  // The samples for which `meets` is true, by a plain loop.
  static std::vector<uint64_t> those(const std::function<bool(uint64_t)>& meets) {
    std::vector<uint64_t> chosen;
    for (uint64_t s = 0; s < kCount; ++s)
      if (meets(s)) chosen.push_back(s);
    return chosen;
  }
  std::vector<uint64_t> select(const std::string& where) {
    auto chosen = select_samples(screen_, {where});
    EXPECT_GT(chosen.size(), 0u) << where;  // a test on nothing tests nothing
    EXPECT_LT(chosen.size(), kCount) << where;
    return chosen;
  }
  float label(uint64_t sample, size_t l) const {
    return screen_.samples().labels.as<float>()[2 * sample + l];
  }

  static constexpr uint64_t kCount = 600;
  uint64_t seed_ = test_seed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  TemporaryDirectory directory_;
  Screen screen_;
};

TEST_F(SubsetTest, ByNumberOfGenes) {
  EXPECT_EQ(select("removed=2"), those([&](uint64_t s) { return genes(s).size() == 2; }));
  EXPECT_EQ(select("removed <= 1"), those([&](uint64_t s) { return genes(s).size() <= 1; }));
  EXPECT_EQ(select("1<removed<=3"),
            those([&](uint64_t s) { return genes(s).size() > 1 && genes(s).size() <= 3; }));
  EXPECT_EQ(select("removed!=0"), those([&](uint64_t s) { return !genes(s).empty(); }));
}

TEST_F(SubsetTest, ByGenes) {
  const std::set<uint32_t> list = {3, 17, 39};
  const auto listed = [&](uint32_t gene) { return list.contains(gene); };
  EXPECT_EQ(select("any-gene=G3,G17, G39"), those([&](uint64_t s) {
              const auto set = genes(s);
              return std::any_of(set.begin(), set.end(), listed);
            }));
  EXPECT_EQ(select("no-gene=G3,G17,G39"), those([&](uint64_t s) {
              const auto set = genes(s);
              return std::none_of(set.begin(), set.end(), listed);
            }));
  EXPECT_EQ(select("only-genes=G3,G17,G39"), those([&](uint64_t s) {
              const auto set = genes(s);
              return std::all_of(set.begin(), set.end(), listed);
            }));
  write_file(directory_ / "list.txt", "G3\r\n\nG17\nG39");
  EXPECT_EQ(select("any-gene=@" + (directory_ / "list.txt").string()),
            select("any-gene=G3,G17,G39"));
}

TEST_F(SubsetTest, ByColumnLabelCategoryAndSplit) {
  const Column &sd = screen_.column("sd"), &screen = screen_.column("screen");
  EXPECT_EQ(select("sd<=0.25"), those([&](uint64_t s) { return sd.number(s) <= 0.25; }));
  EXPECT_EQ(select("0.25<=sd<0.5"),
            those([&](uint64_t s) { return sd.number(s) >= 0.25 && sd.number(s) < 0.5; }));
  EXPECT_EQ(select("sd!=7"), those([&](uint64_t s) { return !std::isnan(sd.number(s)); }));
  EXPECT_EQ(select("plate=-3"),
            those([&](uint64_t s) { return screen_.column("plate").number(s) == -3; }));
  EXPECT_EQ(select("fitness>0"), those([&](uint64_t s) { return label(s, 0) > 0; }));
  EXPECT_EQ(select("label:fitness>0"), select("fitness>0"));
  EXPECT_EQ(select("measured=interaction"),
            those([&](uint64_t s) { return !std::isnan(label(s, 1)); }));
  EXPECT_EQ(select("screen=second"), those([&](uint64_t s) { return screen.code(s) == 1u; }));
  EXPECT_EQ(select("screen=first,third"),
            those([&](uint64_t s) { return screen.code(s) == 0u || screen.code(s) == 2u; }));
  EXPECT_EQ(select("screen!=second"), those([&](uint64_t s) {
              return screen.code(s) == 0u || screen.code(s) == 2u;  // unknown meets nothing
            }));
  EXPECT_EQ(select("split:thirds=test,val"),
            those([&](uint64_t s) { return s % 4 == 1 || s % 4 == 2; }));
}

// What was imported as 0.05 is found by 0.05, though 0.05 in f32 is more than 0.05 in f64.
TEST_F(SubsetTest, ABoundIsRoundedAsTheColumnIs) {
  Samples samples = take_samples(screen_.samples(), std::vector<uint64_t>{0, 1, 2, 3});
  samples.labels = Array::from<float>({0.05f, 0.1f, 0.3f, 0.7f}, {4, 1});
  samples.label_names = {"fitness"};
  samples.columns = {{"p", Array::from<float>({0.05f, 0.04f, 0.7f, INFINITY}), {}},
                     {"q", Array::from<double>({0.05, 0.04, double(0.05f), 1}), {}}};
  const Screen screen = write_screen(directory_ / "few", {screen_.graph(), samples, {}, {}});
  const auto select = [&](const char* where) { return select_samples(screen, {where}); };
  using Chosen = std::vector<uint64_t>;
  EXPECT_EQ(select("p=0.05"), Chosen{0});
  EXPECT_EQ(select("p<=0.05"), (Chosen{0, 1}));
  EXPECT_EQ(select("p<0.05"), Chosen{1});
  EXPECT_EQ(select("p!=0.05"), (Chosen{1, 2, 3}));
  EXPECT_EQ(select("p>=0.7"), (Chosen{2, 3}));  // 0.7 in f32 is less than in f64
  EXPECT_EQ(select("0.04<=p<0.7"), (Chosen{0, 1}));
  EXPECT_EQ(select("p<1e300"), (Chosen{0, 1, 2}));
  EXPECT_EQ(select("q=0.05"), Chosen{0});
  EXPECT_EQ(select("q<=0.05"), (Chosen{0, 1}));
  EXPECT_EQ(select("label:fitness=0.1"), Chosen{1});
}

TEST_F(SubsetTest, SeveralHoldTogether) {
  const auto both = select_samples(screen_, {"removed=2", "fitness>0"});
  EXPECT_EQ(both, those([&](uint64_t s) { return genes(s).size() == 2 && label(s, 0) > 0; }));
}

TEST_F(SubsetTest, WhatIsNoConditionIsSaid) {
  const auto said = [&](const std::string& where) {
    return error_of([&] { select_samples(screen_, {where}); });
  };
  EXPECT_NE(said("removed").find("is not a comparison"), std::string::npos);
  EXPECT_NE(said("removed=").find("is incomplete"), std::string::npos);
  EXPECT_NE(said("=2").find("is incomplete"), std::string::npos);
  EXPECT_NE(said("removed=two").find("not a number"), std::string::npos);
  EXPECT_NE(said("removed=nan").find("not a number"), std::string::npos);
  EXPECT_NE(said("removed!2").find("unknown comparison '!'"), std::string::npos);
  EXPECT_NE(said("1>removed>3").find("two bounds"), std::string::npos);
  EXPECT_NE(said("1<removed<3<4").find("is not a comparison"), std::string::npos);
  EXPECT_NE(said("any-gene<G3").find("must be of the form any-gene="), std::string::npos);
  EXPECT_NE(said("screen<first").find("has categories; use = or !="), std::string::npos);
  EXPECT_THROW(select_samples(screen_, {"removed"}), UsageError);
  // What the screen does not have.
  EXPECT_NE(said("any-gene=G3,YFG1").find("there is no gene 'YFG1'"), std::string::npos);
  EXPECT_NE(said("any-gene=@/none").find("/none: cannot open"), std::string::npos);
  EXPECT_NE(said("screen=fourth").find("no category 'fourth'"), std::string::npos);
  EXPECT_NE(said("p<1").find("no column or label 'p'; there is sd, screen, plate, fitness"),
            std::string::npos);
  EXPECT_NE(said("measured=sd").find("'sd'"), std::string::npos);
  EXPECT_NE(said("split:none=test").find("no split 'none'"), std::string::npos);
  EXPECT_NE(said("split:thirds=dev").find("'dev' is not a part"), std::string::npos);
}

TEST_F(SubsetTest, WrittenSubsetHoldsTheChosenSamples) {
  const std::vector<std::string> where = {"removed>=1", "screen!=second"};
  const auto chosen = select_samples(screen_, where);
  const Screen subset =
      write_subset(screen_, directory_ / "out", {.where = where}, {{"command", "test"}});
  EXPECT_NO_THROW(subset.check(Progress::none()));
  ASSERT_EQ(subset.samples().size(), chosen.size());
  const RemovedReader whole(screen_.samples()), part(subset.samples());
  std::vector<uint32_t> a, b;
  for (uint64_t i = 0; i < chosen.size(); ++i) {
    const uint64_t s = chosen[i];
    whole.read(s, a);
    part.read(i, b);
    EXPECT_EQ(a, b);
    const float* const labels = subset.samples().labels.as<float>().data() + 2 * i;
    EXPECT_EQ(labels[0], label(s, 0));
    EXPECT_EQ(std::isnan(labels[1]), std::isnan(label(s, 1)));
    EXPECT_EQ(subset.column("plate").number(i), screen_.column("plate").number(s));
    EXPECT_EQ(subset.column("screen").code(i), screen_.column("screen").code(s));
    EXPECT_EQ(subset.split("thirds").parts.as<uint8_t>()[i],
              screen_.split("thirds").parts.as<uint8_t>()[s]);
  }
  EXPECT_EQ(subset.split("thirds").how["by"], "subset");
  const auto graph_parts = {"genes", "nodes", "features", "edges", "values"};
  EXPECT_EQ(subset.fingerprint().only({graph_parts.begin(), graph_parts.end()}).parts(),
            screen_.fingerprint().only({graph_parts.begin(), graph_parts.end()}).parts());
  EXPECT_ERROR(write_subset(screen_, directory_ / "none", {.where = {"removed>100"}}, {}),
               "none of its 600 samples meets removed>100");
  EXPECT_FALSE(fs::exists(directory_ / "none"));
}

TEST_F(SubsetTest, AtRandom) {
  const auto all = those([](uint64_t) { return true; });
  EXPECT_EQ(draw_samples(all, kCount, seed_), all);
  EXPECT_TRUE(draw_samples(all, 0, seed_).empty());
  EXPECT_ERROR(draw_samples(all, kCount + 1, seed_), "there are not so many");
  std::vector<int> times(kCount);
  for (uint64_t i = 0; i < 400; ++i) {
    const auto drawn = draw_samples(all, 60, seed_ + i);
    ASSERT_EQ(drawn.size(), 60u);
    EXPECT_TRUE(std::is_sorted(drawn.begin(), drawn.end()));
    EXPECT_EQ(std::set(drawn.begin(), drawn.end()).size(), 60u);
    for (const uint64_t s : drawn) ++times[s];
  }
  for (const int count : times) EXPECT_NEAR(count, 40, 36);  // 6 standard deviations
  EXPECT_EQ(draw_samples(all, 60, seed_), draw_samples(all, 60, seed_));
  const SubsetOptions options = {.where = {"removed=2"}, .random = 5, .seed = seed_};
  const Screen few = write_subset(screen_, directory_ / "few", options, {{"command", "test"}});
  EXPECT_EQ(few.samples().size(), 5u);
  EXPECT_EQ(few.splits().at(0).how["random"], 5);
}

}  // namespace
}  // namespace lacuna
