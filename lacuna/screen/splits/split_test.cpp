#include "lacuna/screen/splits/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

using GeneSet = std::set<uint32_t>;

// A screen of triples whose first two genes come from a few query pairs, with repeats, singles,
// doubles and wild types strewn in. Query genes are on the array too.
Samples query_samples(uint64_t seed, uint64_t count, uint32_t genes, uint64_t pairs) {
  Random random(seed, 2);
  std::vector<std::pair<uint32_t, uint32_t>> queries;
  for (uint64_t p = 0; p < pairs; ++p) {
    const uint32_t a = uint32_t(random.below(genes)), b = uint32_t(random.below(genes - 1));
    queries.emplace_back(a, b < a ? b : b + 1);
  }
  SampleBuilder builder(genes, {"label"});
  std::vector<uint32_t> query_pair, last;
  for (uint64_t s = 0; s < count; ++s) {
    const uint64_t query = random.below(pairs);
    const uint64_t kind = random.below(20);
    std::vector<uint32_t> removed = {queries[query].first, queries[query].second,
                                     uint32_t(random.below(genes))};
    if (kind == 0) removed = last;  // a repeat
    if (kind == 1) removed = {};
    if (kind == 2) removed = {uint32_t(random.below(genes))};
    if (kind == 3) removed = {removed[2], removed[1], removed[0], removed[0]};  // order, twice
    if (kind == 4) removed = {removed[0], removed[1]};
    const float label = float(random.normal());
    builder.add(removed, {&label, 1});
    query_pair.push_back(kind < 3 ? 9999 : uint32_t(query));
    last = removed;
  }
  std::vector<std::string> names;
  for (uint64_t p = 0; p < pairs; ++p) names.push_back("pair" + std::to_string(p));
  Samples samples = builder.finish();
  samples.columns.push_back(make_category_column("query_pair", query_pair, names));
  return samples;
}

class SplitTest : public ::testing::Test {
 protected:
  Screen make(uint64_t count = 3000, uint32_t genes = 200, uint64_t pairs = 60) {
    return write(query_samples(seed_, count, genes, pairs), genes);
  }
  Screen write(const Samples& samples, uint32_t genes) {
    const HeteroGraph graph = small_graph(seed_, genes);
    return write_screen(directory_ / std::to_string(screens_++), {graph, samples, {}, {}});
  }
  static std::vector<GeneSet> sets_of(const Screen& screen) {
    std::vector<GeneSet> sets;
    const RemovedReader reader(screen.samples());
    std::vector<uint32_t> genes;
    for (uint64_t s = 0; s < reader.size(); ++s) {
      reader.read(s, genes);
      sets.emplace_back(genes.begin(), genes.end());
    }
    return sets;
  }
  static Part part(const Split& split, uint64_t sample) {
    return Part(split.parts.as<uint8_t>()[sample]);
  }
  static uint64_t count(const Split& split, Part part) {
    const auto parts = split.parts.as<uint8_t>();
    return uint64_t(std::count(parts.begin(), parts.end(), uint8_t(part)));
  }

  uint64_t seed_ = test_seed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  TemporaryDirectory directory_;
  int screens_ = 0;
};

TEST_F(SplitTest, SameSeedSameSplitOtherSeedOther) {
  const Screen screen = make();
  for (const SplitBy by : {SplitBy::random, SplitBy::stratified, SplitBy::gene, SplitBy::pair}) {
    DrawOptions options = {.by = by, .seed = 5, .column = by == SplitBy::stratified ? "label" : ""};
    const Split first = draw_split(screen, "a", options), again = draw_split(screen, "b", options);
    EXPECT_TRUE(std::ranges::equal(first.parts.bytes(), again.parts.bytes())) << name(by);
    options.seed = 6;
    const Split other = draw_split(screen, "c", options);
    EXPECT_FALSE(std::ranges::equal(first.parts.bytes(), other.parts.bytes())) << name(by);
  }
}

TEST_F(SplitTest, CountsAreExactWhereNothingRepeats) {
  SampleBuilder builder(4000, {});
  for (uint32_t s = 0; s < 1003; ++s) builder.add({&s, 1}, {});
  const Screen screen = write(builder.finish(), 4000);
  const Split split = draw_split(screen, "r", {.fractions = {0.7, 0.1, 0.15}, .seed = seed_});
  EXPECT_NEAR(double(count(split, Part::train)), 702.1, 1);
  EXPECT_NEAR(double(count(split, Part::validation)), 100.3, 1);
  EXPECT_NEAR(double(count(split, Part::test)), 150.45, 1);
  EXPECT_NEAR(double(count(split, Part::unused)), 50.15, 1);
  EXPECT_EQ(split.how["counts"]["test"], count(split, Part::test));
}

// Neither the place in the file nor the seed's parity may decide: over many seeds all samples are
// in the test part about equally often.
TEST_F(SplitTest, EverySampleHasTheSameChance) {
  SampleBuilder builder(100, {});
  for (uint32_t s = 0; s < 50; ++s) builder.add({&s, 1}, {});
  const Screen screen = write(builder.finish(), 100);
  std::vector<int> tests(50);
  for (uint64_t draw = 0; draw < 1000; ++draw) {
    const Split split = draw_split(screen, "r", {.fractions = {0.5, 0, 0.5}, .seed = seed_ + draw});
    for (uint64_t s = 0; s < 50; ++s) tests[s] += part(split, s) == Part::test;
  }
  for (const int often : tests) EXPECT_NEAR(often, 500, 100);  // 6 standard deviations
}

TEST_F(SplitTest, RepeatsStayTogetherUnlessAskedApart) {
  const Screen screen = make();
  const auto sets = sets_of(screen);
  const auto divided = [&](const Split& split) {
    std::map<GeneSet, std::set<Part>> parts;
    for (uint64_t s = 0; s < sets.size(); ++s) parts[sets[s]].insert(part(split, s));
    return std::count_if(parts.begin(), parts.end(),
                         [](const auto& entry) { return entry.second.size() > 1; });
  };
  for (const SplitBy by : {SplitBy::random, SplitBy::stratified, SplitBy::gene, SplitBy::pair}) {
    const std::string column = by == SplitBy::stratified ? "query_pair" : "";
    EXPECT_EQ(divided(draw_split(screen, "t", {.by = by, .seed = seed_, .column = column})), 0)
        << name(by);
  }
  EXPECT_EQ(divided(draw_split(screen, "p",
                               {.by = SplitBy::pair, .seed = seed_, .column = "query_pair"})),
            0);
  EXPECT_GT(divided(draw_split(screen, "a", {.seed = seed_, .repeats_together = false})), 0);
}

TEST_F(SplitTest, EveryStratumIsSharedOut) {
  const Screen screen = make(6000, 200, 20);
  const Split split = draw_split(screen, "s",
                                 {.by = SplitBy::stratified,
                                  .fractions = {0.6, 0.2, 0.2},
                                  .seed = seed_,
                                  .column = "query_pair",
                                  .repeats_together = false});
  const Column& column = screen.column("query_pair");
  std::map<uint32_t, std::map<Part, double>> counts;
  std::map<uint32_t, double> sizes;
  for (uint64_t s = 0; s < 6000; ++s) {
    const uint32_t stratum = column.code(s).value_or(9999);
    ++counts[stratum][part(split, s)];
    ++sizes[stratum];
  }
  EXPECT_EQ(sizes.size(), 21u);  // 20 and unknown
  for (auto& [stratum, size] : sizes) {
    EXPECT_NEAR(counts[stratum][Part::train], 0.6 * size, 2.0);
    EXPECT_NEAR(counts[stratum][Part::test], 0.2 * size, 2.0);
  }
}

TEST_F(SplitTest, BinsOfALabelAreSharedOut) {
  const Screen screen = make(5000);
  const Split split = draw_split(screen, "s",
                                 {.by = SplitBy::stratified,
                                  .seed = seed_,
                                  .column = "label:label",
                                  .repeats_together = false});
  const auto labels = screen.samples().labels.as<float>();
  std::vector<std::pair<float, Part>> sorted;
  for (uint64_t s = 0; s < 5000; ++s) sorted.emplace_back(labels[s], part(split, s));
  std::sort(sorted.begin(), sorted.end());
  for (size_t bin = 0; bin < 10; ++bin) {
    const auto begin = sorted.begin() + ptrdiff_t(bin * 500);
    const auto tests = std::count_if(begin, begin + 500,
                                     [](const auto& entry) { return entry.second == Part::test; });
    EXPECT_NEAR(double(tests), 50, 2) << "bin " << bin;
  }
}

// By brute force: for every test sample, look for a gene that no training sample removes.
TEST_F(SplitTest, GeneSplitLeaksNoGene) {
  const Screen screen = make();
  const Split split = draw_split(screen, "g", {.by = SplitBy::gene, .seed = seed_});
  const auto sets = sets_of(screen);
  GeneSet in_training, in_validation;
  for (uint64_t s = 0; s < sets.size(); ++s) {
    if (part(split, s) == Part::train) in_training.insert(sets[s].begin(), sets[s].end());
    if (part(split, s) == Part::validation) in_validation.insert(sets[s].begin(), sets[s].end());
  }
  const auto unseen_in = [](const GeneSet& set, const GeneSet& seen) {
    return std::any_of(set.begin(), set.end(), [&](uint32_t g) { return !seen.contains(g); });
  };
  for (uint64_t s = 0; s < sets.size(); ++s) {
    if (part(split, s) == Part::test) {
      EXPECT_TRUE(unseen_in(sets[s], in_training)) << s;
      EXPECT_TRUE(unseen_in(sets[s], in_validation)) << s;
    }
    if (part(split, s) == Part::validation) {
      EXPECT_TRUE(unseen_in(sets[s], in_training)) << s;
    }
    if (sets[s].empty()) {
      EXPECT_EQ(part(split, s), Part::train);
    }
    EXPECT_NE(part(split, s), Part::unused);
  }
  EXPECT_NEAR(double(count(split, Part::test)), 300, 60);
  EXPECT_NEAR(double(count(split, Part::validation)), 300, 60);
  EXPECT_GT(split.how["test_genes"], 0);
}

TEST_F(SplitTest, GeneSplitLeavesTheRestUnused) {
  const Screen screen = make();
  const Split split =
      draw_split(screen, "g", {.by = SplitBy::gene, .fractions = {0.5, 0.1, 0.1}, .seed = seed_});
  EXPECT_NEAR(double(count(split, Part::train)), 1500, 1);
  EXPECT_GT(count(split, Part::unused), 500u);
}

// By brute force, from the definition in split.h and not from how the split is drawn.
TEST_F(SplitTest, PairSplitLeaksNoQueryPair) {
  const Screen screen = make();
  const Split split = draw_split(screen, "p", {.by = SplitBy::pair, .seed = seed_});
  const auto sets = sets_of(screen);
  using Pair = std::pair<uint32_t, uint32_t>;
  std::map<Pair, int> counts;
  std::map<Pair, std::set<Part>> parts;
  const auto pairs_of = [](const GeneSet& set) {
    std::vector<Pair> pairs;
    for (const uint32_t a : set)
      for (const uint32_t b : set)
        if (a < b) pairs.emplace_back(a, b);
    return pairs;
  };
  for (uint64_t s = 0; s < sets.size(); ++s)
    for (const Pair& pair : pairs_of(sets[s])) {
      ++counts[pair];
      parts[pair].insert(part(split, s));
    }
  int queries = 0;
  for (const auto& set : sets) {
    const auto pairs = pairs_of(set);  // ascending, so the first of equals is the lowest
    if (pairs.empty()) continue;
    const auto query =
        std::max_element(pairs.begin(), pairs.end(),
                         [&](const Pair& a, const Pair& b) { return counts[a] < counts[b]; });
    EXPECT_EQ(parts[*query].size(), 1u);
    ++queries;
  }
  EXPECT_GT(queries, 2000);
  EXPECT_NEAR(double(count(split, Part::test)), 300, 150);
  EXPECT_NEAR(double(count(split, Part::train)), 2400, 250);
}

TEST_F(SplitTest, PairSplitByColumnKeepsCategoriesTogether) {
  const Screen screen = make();
  const Split split =
      draw_split(screen, "p", {.by = SplitBy::pair, .seed = seed_, .column = "query_pair"});
  std::map<uint32_t, std::set<Part>> parts;
  for (uint64_t s = 0; s < 3000; ++s)
    if (const auto code = screen.column("query_pair").code(s)) parts[*code].insert(part(split, s));
  EXPECT_EQ(parts.size(), 60u);
  for (const auto& [code, in] : parts) EXPECT_EQ(in.size(), 1u) << code;
}

TEST_F(SplitTest, CategoriesAreHeldOutWhole) {
  const Screen screen = make();
  const Split by_pair =
      draw_split(screen, "p", {.by = SplitBy::pair, .seed = seed_, .column = "query_pair"});
  const Split split =
      draw_split(screen, "c", {.by = SplitBy::category, .seed = seed_, .column = "query_pair"});
  EXPECT_TRUE(std::ranges::equal(split.parts.as<uint8_t>(), by_pair.parts.as<uint8_t>()));
  EXPECT_EQ(split.how["unit"], "categories of column 'query_pair'");
}

// Test is what was named; no set of genes is on both sides, unless repeats are apart.
TEST_F(SplitTest, NamedCategoriesAreTest) {
  const Screen screen = make();
  DrawOptions options = {.by = SplitBy::category,
                         .seed = seed_,
                         .column = "query_pair",
                         .hold_out = {"pair3", "pair7"}};
  const auto sets = sets_of(screen);
  for (const bool together : {true, false}) {
    options.repeats_together = together;
    const Split split = draw_split(screen, "c", options);
    std::set<GeneSet> tested;
    for (uint64_t s = 0; s < sets.size(); ++s) {
      const auto code = screen.column("query_pair").code(s);
      EXPECT_EQ(part(split, s) == Part::test, code == 3u || code == 7u) << s;
      if (part(split, s) == Part::test) tested.insert(sets[s]);
    }
    uint64_t unused = 0;
    for (uint64_t s = 0; s < sets.size(); ++s) {
      if (part(split, s) == Part::test) continue;
      const bool is_unused = together && tested.contains(sets[s]);
      EXPECT_EQ(part(split, s) == Part::unused, is_unused) << s;
      unused += is_unused ? 1 : 0;
    }
    EXPECT_EQ(unused > 0, together);  // the generator strews repeats in
    EXPECT_EQ(split.how["unused_repeats"], unused);
    const double train = double(count(split, Part::train));
    EXPECT_NEAR(train / (train + double(count(split, Part::validation))), 8.0 / 9, 0.01);
  }
  options.hold_out = {"pair99"};
  EXPECT_ERROR(draw_split(screen, "c", options), "no category 'pair99' to hold out; did you mean");
  options = {.by = SplitBy::category};
  EXPECT_ERROR(draw_split(screen, "c", options), "needs a column");
  options = {.by = SplitBy::pair, .hold_out = {"pair3"}};
  EXPECT_ERROR(draw_split(screen, "c", options), "go with a split by category");
}

TEST_F(SplitTest, WhatCannotWorkIsSaid) {
  const Screen screen = make(200);
  EXPECT_ERROR(draw_split(screen, "x", {.fractions = {0.9, 0.1, 0.1}}), "more than 1");
  EXPECT_ERROR(draw_split(screen, "x", {.fractions = {0.9, -0.1, 0.1}}), "not between 0 and 1");
  EXPECT_ERROR(draw_split(screen, "x", {.fractions = {NAN, 0.1, 0.1}}), "not between 0 and 1");
  EXPECT_ERROR(draw_split(screen, "x", {.by = SplitBy::stratified}), "needs a column");
  EXPECT_ERROR(draw_split(screen, "x", {.by = SplitBy::stratified, .column = "none"}),
               "no column or label 'none'; there is query_pair, label");
  EXPECT_ERROR(draw_split(screen, "x", {.by = SplitBy::random, .column = "label"}),
               "uses no column");
  EXPECT_ERROR(draw_split(screen, "x", {.by = SplitBy::pair, .column = "label"}),
               "needs categories");
  EXPECT_ERROR(split_by_from_name("luck"), "'luck' is no way to split");
  // One group cannot fill three parts.
  SampleBuilder builder(9, {});
  const uint32_t genes[] = {1, 2};
  for (int s = 0; s < 10; ++s) builder.add(genes, {});
  const Screen one = write(builder.finish(), 9);
  for (const SplitBy by : {SplitBy::random, SplitBy::gene, SplitBy::pair})
    EXPECT_ERROR(draw_split(one, "x", {.by = by}), "no sample is left for") << name(by);
  const Screen none = write(SampleBuilder(9, {}).finish(), 9);
  EXPECT_ERROR(draw_split(none, "x", {}), "no sample is left for train");
}

TEST_F(SplitTest, ImportedListsBecomeParts) {
  const Screen screen = make(10);
  const fs::path file = directory_ / "split.json";
  write_file(file, R"({"train": [0, 1, 2], "val": [3], "test": [9, 8]})");
  const Split split = split_from_json(screen, "given", file);
  const std::vector<uint8_t> expected = {0, 0, 0, 1, 255, 255, 255, 255, 2, 2};
  EXPECT_TRUE(std::ranges::equal(split.parts.as<uint8_t>(), expected));
  EXPECT_EQ(split.how["counts"]["unused"], 4);
  const auto said = [&](const std::string& text) {
    write_file(file, text);
    return error_of([&] { split_from_json(screen, "given", file); });
  };
  EXPECT_NE(said(R"({"train": [10]})").find("sample 10 into train, but there are 10"),
            std::string::npos);
  EXPECT_NE(said(R"({"train": [1], "test": [1]})").find("sample 1 into train and test"),
            std::string::npos);
  EXPECT_NE(said(R"({"train": [-1]})").find("-1 in 'train'"), std::string::npos);
  EXPECT_NE(said(R"({"train": 3})").find("split.json: 'train' is not a list"), std::string::npos);
  EXPECT_NE(said("[1, 2]").find("not an object"), std::string::npos);
  EXPECT_NE(said(R"({"dev": []})").find("'dev' is not a part"), std::string::npos);
  EXPECT_NE(said(std::string(100'000, '[')).find("nested deeper than"), std::string::npos);
  EXPECT_NE(said(R"({"train": [1,)").find("not valid JSON"), std::string::npos);
}

TEST_F(SplitTest, FoldsHoldOutEveryGeneOnce) {
  const Screen screen = make();
  const auto sets = sets_of(screen);
  const DrawOptions options = {.by = SplitBy::gene, .fractions = {0.8, 0.1, 0.1}, .seed = seed_};
  const std::vector<Split> folds = draw_gene_folds(screen, "gene", 5, options);
  ASSERT_EQ(folds.size(), 5u);
  std::map<uint32_t, int>
      held_out;  // by gene, in how many folds no sample of it is anything but test
  std::vector<int> tested(sets.size());
  uint64_t genes = 0, fewest = UINT64_MAX, most = 0;
  GeneSet all;
  for (const GeneSet& set : sets) all.insert(set.begin(), set.end());
  for (size_t f = 0; f < folds.size(); ++f) {
    EXPECT_EQ(folds[f].name, "gene-" + std::to_string(f + 1));
    GeneSet elsewhere, trained;
    for (uint64_t s = 0; s < sets.size(); ++s) {
      const Part where = part(folds[f], s);
      tested[s] += where == Part::test;
      if (where != Part::test) elsewhere.insert(sets[s].begin(), sets[s].end());
      if (where == Part::train) trained.insert(sets[s].begin(), sets[s].end());
    }
    for (const uint32_t gene : all) held_out[gene] += !elsewhere.contains(gene);
    for (uint64_t s = 0; s < sets.size(); ++s) {
      if (part(folds[f], s) != Part::validation) continue;
      EXPECT_TRUE(std::any_of(sets[s].begin(), sets[s].end(),
                              [&](uint32_t gene) { return !trained.contains(gene); }));
    }
    const auto here = folds[f].how.at("test_genes").get<uint64_t>();
    genes += here;
    fewest = std::min(fewest, here);
    most = std::max(most, here);
    EXPECT_GT(count(folds[f], Part::validation), 0u);
  }
  EXPECT_EQ(genes, all.size());
  EXPECT_LE(most - fewest, 1u);
  for (const auto& [gene, times] : held_out) EXPECT_GE(times, 1) << gene;
  for (uint64_t s = 0; s < sets.size(); ++s) EXPECT_EQ(tested[s] > 0, !sets[s].empty());
  const auto again = draw_gene_folds(screen, "gene", 5, options);
  for (size_t f = 0; f < folds.size(); ++f)
    EXPECT_TRUE(std::ranges::equal(folds[f].parts.bytes(), again[f].parts.bytes()));
  EXPECT_THROW(draw_gene_folds(screen, "gene", 1, options), Error);
  EXPECT_THROW(draw_gene_folds(screen, "gene", 5, {.by = SplitBy::random}), Error);
}

}  // namespace
}  // namespace lacuna
