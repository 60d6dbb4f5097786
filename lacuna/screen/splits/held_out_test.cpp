#include "lacuna/screen/splits/held_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "lacuna/core/testing.h"
#include "lacuna/screen/splits/split.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

using ::testing::HasSubstr;
using GeneSet = std::set<uint32_t>;

// Triples: one of `pairs` query pairs, which share no genes, and one of the other genes. Some
// repeats, some wild types. The number of the query pair is a column.
Samples separate_query_samples(uint64_t seed, uint64_t count, uint32_t genes, uint32_t pairs) {
  Random random(seed, 2);
  SampleBuilder builder(genes, {"label"});
  std::vector<uint32_t> query, last;
  for (uint64_t s = 0; s < count; ++s) {
    const auto pair = uint32_t(random.below(pairs));
    std::vector<uint32_t> removed = {2 * pair, 2 * pair + 1,
                                     2 * pairs + uint32_t(random.below(genes - 2 * pairs))};
    const bool is_repeat = s > 0 && random.below(10) == 0, is_wild = random.below(30) == 0;
    if (is_repeat) removed = last;
    if (is_wild) removed = {};
    const float label = float(random.normal());
    builder.add(removed, {&label, 1});
    query.push_back(removed.empty() ? 9999 : removed[0] / 2);
    last = removed;
  }
  std::vector<std::string> names;
  for (uint32_t p = 0; p < pairs; ++p) names.push_back("pair" + std::to_string(p));
  Samples samples = builder.finish();
  samples.columns.push_back(make_category_column("query", query, names));
  return samples;
}

class HeldOutTest : public ::testing::Test {
 protected:
  HeldOutTest() : samples_(separate_query_samples(seed_, 1500, 120, 20)) {
    const HeteroGraph graph = small_graph(seed_, 120);
    write_screen(directory_ / "screen", {graph, samples_, {}, {}});
  }
  Screen screen() { return Screen::open(directory_ / "screen"); }
  Split draw(const DrawOptions& options) { return draw_split(screen(), "drawn", options); }
  std::vector<uint64_t> chosen(const Split& split, Part part) {
    std::vector<uint64_t> numbers;
    for (uint64_t s = 0; s < samples_.size(); ++s)
      if (Part(split.parts.as<uint8_t>()[s]) == part) numbers.push_back(s);
    return numbers;
  }
  HeldOutUnits units(const Split& split, Part part = Part::test) {
    return held_out_units(screen(), split, chosen(split, part));
  }
  GeneSet set_of(uint64_t sample) {
    std::vector<uint32_t> genes;
    RemovedReader(samples_).read(sample, genes);
    return {genes.begin(), genes.end()};
  }

  const uint64_t seed_ = test_seed();
  TemporaryDirectory directory_;
  Samples samples_;
};

TEST_F(HeldOutTest, SamplesOfARandomSplitAndItsRepeatsAsOne) {
  SCOPED_TRACE(seed_);
  for (const bool together : {false, true}) {
    const Split split = draw({.seed = seed_, .repeats_together = together});
    EXPECT_EQ(split.how.at("unit"), "samples");
    const HeldOutUnits found = units(split);
    const auto numbers = chosen(split, Part::test);
    std::set<GeneSet> sets;
    for (uint64_t s : numbers) sets.insert(set_of(s));
    EXPECT_EQ(found.count, together ? sets.size() : numbers.size());
    ASSERT_EQ(found.size(), numbers.size());
    std::map<GeneSet, uint32_t> unit_of;
    for (uint64_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(found.of(i).size(), 1u);
      if (together) {
        EXPECT_EQ(unit_of.try_emplace(set_of(numbers[i]), found.of(i)[0]).first->second,
                  found.of(i)[0]);
      } else {
        EXPECT_EQ(found.of(i)[0], i);
      }
    }
    EXPECT_EQ(found.why, "");
  }
}

TEST_F(HeldOutTest, GenesThatTrainingNeverRemoves) {
  SCOPED_TRACE(seed_);
  const Split split = draw({.by = SplitBy::gene, .seed = seed_});
  EXPECT_EQ(split.how.at("unit"), "genes");
  GeneSet trained;
  for (uint64_t s : chosen(split, Part::train)) trained.merge(set_of(s));
  for (const Part part : {Part::test, Part::validation}) {
    const HeldOutUnits found = units(split, part);
    EXPECT_EQ(found.unit, "genes");
    const auto numbers = chosen(split, part);
    std::map<uint32_t, uint32_t> gene_of;  // by unit
    for (uint64_t i = 0; i < numbers.size(); ++i) {
      GeneSet held;
      for (uint32_t gene : set_of(numbers[i]))
        if (!trained.contains(gene)) held.insert(gene);
      ASSERT_EQ(found.of(i).size(), held.size());
      auto gene = held.begin();
      for (const uint32_t unit : found.of(i)) {
        EXPECT_LT(unit, found.count);
        EXPECT_EQ(gene_of.try_emplace(unit, *gene).first->second, *gene);
        ++gene;
      }
    }
    EXPECT_EQ(gene_of.size(), found.count);
  }
  // Nothing of the training part was held out.
  const HeldOutUnits training = units(split, Part::train);
  EXPECT_EQ(training.unit, "samples");
  EXPECT_EQ(training.count, chosen(split, Part::train).size());
  EXPECT_THAT(training.why, HasSubstr("no gene that training does not"));
}

TEST_F(HeldOutTest, QueryPairsOrTheCategoriesOfAColumn) {
  SCOPED_TRACE(seed_);
  for (const char* column : {"", "query"}) {
    const Split split = draw({.by = SplitBy::pair, .seed = seed_, .column = column});
    const std::string unit = *column ? "categories of column 'query'" : "pairs";
    EXPECT_EQ(split.how.at("unit"), unit);
    const auto numbers = chosen(split, Part::test);
    const HeldOutUnits found = units(split);
    EXPECT_EQ(found.unit, unit);
    std::map<uint32_t, uint32_t> unit_of;  // by query pair
    for (uint64_t i = 0; i < numbers.size(); ++i) {
      const GeneSet set = set_of(numbers[i]);
      if (set.empty()) continue;
      EXPECT_EQ(unit_of.try_emplace(*set.begin() / 2, found.of(i)[0]).first->second,
                found.of(i)[0]);
    }
    std::set<uint32_t> different;
    for (const auto& [pair, number] : unit_of) different.insert(number);
    EXPECT_EQ(different.size(), unit_of.size());  // one unit per pair
    EXPECT_LT(found.count, 30u);                  // of 150 samples
  }
}

TEST_F(HeldOutTest, TheUnitOfAnOlderSplitOfASubsetAndOfJoinedScreens) {
  SCOPED_TRACE(seed_);
  Split split = draw({.by = SplitBy::pair, .seed = seed_});
  const HeldOutUnits expected = units(split);
  const auto expect_same = [&] {
    const HeldOutUnits found = units(split);
    EXPECT_EQ(found.unit, "pairs");
    EXPECT_EQ(found.units, expected.units);
  };
  split.how.erase("unit");  // as it was drawn before units were named
  expect_same();
  const Json how = split.how;
  split.how = {{"by", "subset"}, {"where", "x=1"}, {"of", how}};
  expect_same();
  split.how = {{"by", "concat"}, {"of", {how, how}}};
  expect_same();
  split.how = {{"by", "concat"}, {"of", {how, Json{{"by", "gene"}}}}};
  EXPECT_EQ(units(split).unit, "samples");
  EXPECT_THAT(units(split).why, HasSubstr("different units"));
}

TEST_F(HeldOutTest, AnImportedSplitResamplesSamplesAndSaysSo) {
  for (const Json& how : {Json{{"by", "import"}}, Json{{"from", "index lists"}}, Json()}) {
    Split split = draw({});
    split.how = how;
    const HeldOutUnits found = units(split);
    EXPECT_EQ(found.unit, "samples");
    EXPECT_EQ(found.count, chosen(split, Part::test).size());
    EXPECT_THAT(found.why, HasSubstr("was not drawn by lacuna"));
  }
}

}  // namespace
}  // namespace lacuna
