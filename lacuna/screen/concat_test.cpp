#include "lacuna/screen/concat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

class ConcatTest : public ::testing::Test {
 protected:
  Screen write(const std::string& name, const HeteroGraph& graph, const Samples& samples,
               std::vector<Split> splits = {}) {
    return write_screen(directory_ / name, {graph, samples, std::move(splits), {}});
  }
  std::string refused(const HeteroGraph& other) {
    const Screen a = write("a", small_graph(seed_), small_samples(seed_, 10));
    const Screen b = write("b", other, SampleBuilder(other.genes().size(), {}).finish());
    const std::string words = error_of([&] { join_samples(std::vector{a, b}, ""); });
    EXPECT_NE(words.find((directory_ / "a").string() + " and " + (directory_ / "b").string()),
              std::string::npos)
        << words;
    fs::remove_all(directory_ / "a");
    fs::remove_all(directory_ / "b");
    return words;
  }

  uint64_t seed_ = test_seed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  TemporaryDirectory directory_;
};

TEST_F(ConcatTest, HalvesGiveTheWhole) {
  const HeteroGraph graph = small_graph(seed_);
  const Samples samples = small_samples(seed_, 100);
  const Screen whole = write("whole", graph, samples, {thirds_split(100)});
  std::vector<uint64_t> first, second;
  for (uint64_t s = 0; s < 100; ++s) (s < 37 ? first : second).push_back(s);
  const Split split = thirds_split(100);
  const std::vector<Screen> halves = {
      write("first", graph, take_samples(samples, first), {take_samples(split, first)}),
      write("second", graph, take_samples(samples, second), {take_samples(split, second)})};
  const JoinedSamples joined = join_samples(halves, "");
  const Screen out = write("out", graph, joined.samples, joined.splits);
  EXPECT_NO_THROW(out.check(Progress::none()));
  EXPECT_EQ(out.fingerprint().parts(), whole.fingerprint().parts());
  EXPECT_TRUE(
      std::ranges::equal(out.split("thirds").parts.bytes(), whole.split("thirds").parts.bytes()));
  EXPECT_TRUE(joined.dropped_splits.empty());
}

TEST_F(ConcatTest, UnitesLabelsAndColumns) {
  const HeteroGraph graph = small_graph(seed_);
  const auto one = [&](std::vector<std::string> labels, std::vector<float> values) {
    SampleBuilder builder(40, std::move(labels));
    const uint32_t gene = 1;
    builder.add({&gene, 1}, values);
    return builder.finish();
  };
  Samples a = one({"fitness", "size"}, {1, 2}), b = one({"size", "colour"}, {3, 4});
  a.columns = {make_category_column("medium", std::vector<uint32_t>{1}, {"rich", "poor"}),
               {"sd", Array::from<float>({0.5f}), {}},
               {"plate", Array::from<int32_t>({7}), {}},
               {"both", Array::from<uint16_t>({9}), {}}};
  b.columns = {make_category_column("medium", std::vector<uint32_t>{0}, {"salt"}),
               {"sd", Array::from<double>({0.25}), {}},
               {"both", Array::from<uint16_t>({10}), {}}};
  const std::vector<Screen> screens = {write("a", graph, a, {thirds_split(1)}),
                                       write("b", graph, b)};
  const JoinedSamples joined = join_samples(screens, "from");
  const Samples& samples = joined.samples;
  EXPECT_EQ(samples.label_names, (std::vector<std::string>{"fitness", "size", "colour"}));
  const auto labels = samples.labels.as<float>();
  EXPECT_EQ(labels[0], 1);
  EXPECT_EQ(labels[1], 2);
  EXPECT_TRUE(std::isnan(labels[2]));
  EXPECT_TRUE(std::isnan(labels[3]));
  EXPECT_EQ(labels[4], 3);
  EXPECT_EQ(labels[5], 4);
  const Column medium = find_values(samples, "medium");
  EXPECT_EQ(medium.categories, (std::vector<std::string>{"rich", "poor", "salt"}));
  EXPECT_EQ(medium.code(0), 1u);
  EXPECT_EQ(medium.code(1), 2u);
  EXPECT_EQ(find_values(samples, "sd").values.dtype(), DType::f64);
  EXPECT_EQ(find_values(samples, "sd").number(1), 0.25);
  EXPECT_EQ(find_values(samples, "plate").number(0), 7);
  EXPECT_TRUE(std::isnan(find_values(samples, "plate").number(1)));
  EXPECT_EQ(find_values(samples, "both").values.dtype(), DType::u16);
  EXPECT_EQ(find_values(samples, "both").number(1), 10);
  const Column from = find_values(samples, "from");
  EXPECT_EQ(from.categories, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(from.code(1), 1u);
  EXPECT_EQ(joined.dropped_splits, std::vector<std::string>{"thirds"});
  EXPECT_ERROR(join_samples(screens, "medium"), "have a column 'medium' already");
}

TEST_F(ConcatTest, AColumnAScreenLacksIsUnknownThere) {
  const HeteroGraph graph = small_graph(seed_);
  const Screen with = write("with", graph, small_samples(seed_, 5));
  SampleBuilder builder(40, {});
  builder.add({}, {});
  const Screen without = write("without", graph, builder.finish());
  const JoinedSamples joined = join_samples(std::vector{without, with}, "");
  EXPECT_FALSE(find_values(joined.samples, "screen").code(0).has_value());
  EXPECT_TRUE(std::isnan(find_values(joined.samples, "sd").number(0)));
}

TEST_F(ConcatTest, ColumnsThatDoNotFitAreRefused) {
  const HeteroGraph graph = small_graph(seed_);
  Samples a = small_samples(seed_, 1), b = small_samples(seed_, 1);
  b.columns[1] = {"screen", Array::from<float>({1}), {}};
  const Screen first = write("a", graph, a), second = write("b", graph, b);
  EXPECT_ERROR(join_samples(std::vector{first, second}, ""),
               "column 'screen' holds categories in " + (directory_ / "a").string());
  a.columns = {{"key", Array::from<int64_t>({(int64_t(1) << 53) + 1}), {}}};
  const Screen third = write("c", graph, a);
  EXPECT_ERROR(join_samples(std::vector{first, third}, ""), "column 'key' holds 9007199254740993");
}

TEST_F(ConcatTest, RefusesAnotherGraphByName) {
  const auto renamed = [&](uint32_t at, uint32_t count) {
    auto names = numbered_names("G", count).all();
    names[at] = "other";
    return names;
  };
  // The same number of genes, one shifted name.
  HeteroGraph shifted;
  shifted.add_nodes("gene", Names(renamed(17, 40)));
  shifted.add_nodes("reaction", numbered_names("R", 5));
  const HeteroGraph graph = small_graph(seed_);
  for (const auto& type : graph.edge_types())
    shifted.add_edges(type.source, type.name, type.target, type.edges, type.values);
  EXPECT_NE(refused(shifted).find("line 18 is 'G17' in the first, 'other' in the second"),
            std::string::npos);
  EXPECT_NE(refused(small_graph(seed_, 41)).find("'gene': 40 in the first, 41 in the second"),
            std::string::npos);
  // One edge turned round.
  const auto changed = [&](auto change) {
    HeteroGraph copy;
    for (const auto& type : graph.node_types()) copy.add_nodes(type.name, type.names);
    auto feature = graph.genes().features[0];
    copy.add_feature("gene", feature.name, feature.values);
    for (const auto& type : graph.edge_types()) {
      EdgeType edges = type;
      if (change(edges))
        copy.add_edges(edges.source, edges.name, edges.target, edges.edges, edges.values);
    }
    return copy;
  };
  const auto words = refused(changed([](EdgeType& type) {
    if (type.name != "physical") return true;
    auto pairs = widen(type.edges);
    pairs[119] = (pairs[119] + 1) % 40;
    type.edges = Array::from(std::move(pairs), {2, 120});
    return true;
  }));
  EXPECT_NE(words.find("edges of type 'gene.physical.gene': edge 119 is"), std::string::npos);
  EXPECT_NE(refused(changed([](EdgeType& type) {
              return type.name != "none";
            })).find("only the first has edges of type 'gene.none.gene'"),
            std::string::npos);
  EXPECT_NE(refused(changed([](EdgeType& type) {
              for (auto& value : type.values)
                value.values = Array::from(std::vector<float>(type.size()));
              return true;
            })).find("value 'weight' of 'gene.weighted.gene'"),
            std::string::npos);
  // The same contents are the same graph.
  const Screen a = write("a", graph, small_samples(seed_, 3));
  const Screen b = write("b", changed([](EdgeType&) { return true; }), small_samples(seed_, 3));
  EXPECT_NO_THROW(check_same_graph(a, b));
}

}  // namespace
}  // namespace lacuna
