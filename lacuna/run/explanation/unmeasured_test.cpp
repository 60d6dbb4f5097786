#include "lacuna/run/explanation/unmeasured.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;

// Pairs of ten of twelve genes, most of them measured, and a few single genes.
struct PairScreen {
  explicit PairScreen(uint64_t seed) {
    Random random(seed);
    SampleBuilder builder(12, {"a", "label"});
    std::vector<uint8_t> parts;
    for (int i = 0; i < 60; ++i) {
      const uint32_t a = uint32_t(random.below(10)), b = uint32_t(random.below(10));
      const std::vector<uint32_t> removed = i < 50 ? std::vector{b, a} : std::vector{a};
      builder.add(removed, std::vector<float>{0, float(random.normal())});
      parts.push_back(uint8_t(i % 3 == 0 ? Part::test : Part::train));
    }
    split = {"split", Array::from(std::move(parts)), Json::object()};
    screen.emplace(write_screen(folder / "screen", {.graph = small_graph(seed, 12),
                                                    .samples = builder.finish(),
                                                    .splits = {split},
                                                    .made_by = Json::object()}));
  }
  std::vector<std::vector<uint32_t>> sets() const {
    std::vector<std::vector<uint32_t>> all;
    const RemovedReader reader(screen->samples());
    std::vector<uint32_t> removed;
    for (uint64_t s = 0; s < reader.size(); ++s) {
      reader.read(s, removed);
      const std::set<uint32_t> genes(removed.begin(), removed.end());
      all.emplace_back(genes.begin(), genes.end());
    }
    return all;
  }

  TemporaryDirectory folder;
  Split split;
  std::optional<Screen> screen;
};

TEST(UnmeasuredSets, AreAllThatNoSampleRemoves) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const PairScreen data(seed);
  const auto measured = data.sets();
  std::set<uint32_t> genes;
  for (const auto& set : measured) genes.insert(set.begin(), set.end());
  std::set<std::vector<uint32_t>> expected;
  for (const uint32_t a : genes)
    for (const uint32_t b : genes)
      if (a < b && std::ranges::find(measured, std::vector{a, b}) == measured.end())
        expected.insert({a, b});
  const UnmeasuredSets all = unmeasured_sets(*data.screen, std::nullopt, 1000, 1);
  EXPECT_EQ(std::set(all.sets.begin(), all.sets.end()), expected);
  EXPECT_EQ(all.sets.size(), expected.size());
  EXPECT_EQ(all.possible, double(genes.size() * (genes.size() - 1) / 2));

  const uint32_t given = *genes.begin();
  const UnmeasuredSets with = unmeasured_sets(*data.screen, given, 1000, 1);
  for (const auto& set : with.sets) {
    EXPECT_TRUE(expected.contains(set));
    EXPECT_TRUE(std::ranges::find(set, given) != set.end());
  }
  EXPECT_EQ(with.sets.size(), size_t(std::ranges::count_if(expected, [&](const auto& set) {
              return set[0] == given || set[1] == given;
            })));

  const uint64_t most = expected.size() / 2;
  const UnmeasuredSets some = unmeasured_sets(*data.screen, std::nullopt, most, 7);
  EXPECT_EQ(some.sets.size(), most);
  EXPECT_EQ(some.sets, unmeasured_sets(*data.screen, std::nullopt, most, 7).sets);
  for (const auto& set : some.sets) EXPECT_TRUE(expected.contains(set));
}

TEST(MeasuredNeighbours, AreTrainingSamplesWithOneGeneReplacedByANeighbour) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const PairScreen data(seed);
  const auto measured = data.sets();
  const auto labels = data.screen->samples().labels.as<float>();
  const HeteroGraph& graph = data.screen->graph();
  const auto is_linked = [&](const EdgeType& type, uint32_t a, uint32_t b) {
    const auto sources = type.sources(), targets = type.targets();
    for (size_t e = 0; e < sources.size(); ++e)
      if ((sources[e] == a && targets[e] == b) || (sources[e] == b && targets[e] == a)) return true;
    return false;
  };
  const std::vector<uint32_t> pair = {2, 5};
  std::multiset<std::pair<double, std::vector<std::string>>> expected;
  for (size_t s = 0; s < measured.size(); ++s) {
    if (s % 3 == 0 || measured[s].size() != 2) continue;
    for (int side = 0; side < 2; ++side) {
      const uint32_t kept = pair[1 - side], replaced = pair[side];
      const auto& set = measured[s];
      if (set[0] != kept && set[1] != kept) continue;
      const uint32_t other = set[0] == kept ? set[1] : set[0];
      std::vector<std::string> networks;
      for (const EdgeType* type : graph.gene_edges())
        if (other != replaced && is_linked(*type, replaced, other)) networks.push_back(type->name);
      if (!networks.empty()) expected.insert({double(labels[s * 2 + 1]), networks});
    }
  }
  const GeneNeighbours neighbours(graph, pair);
  const auto found = measured_neighbours(*data.screen, data.split, SamplesOfGenes(*data.screen),
                                         neighbours, pair, 1, 1000);
  std::multiset<std::pair<double, std::vector<std::string>>> seen;
  for (size_t i = 0; i < found.size(); ++i) {
    seen.insert({found[i].measured, found[i].networks});
    EXPECT_TRUE(i == 0 || std::abs(found[i].measured) <= std::abs(found[i - 1].measured));
  }
  EXPECT_EQ(seen, expected);
  EXPECT_LE(measured_neighbours(*data.screen, data.split, SamplesOfGenes(*data.screen), neighbours,
                                pair, 1, 1)
                .size(),
            1u);
}

TEST(ExplanationFile, ComesBackAsItWas) {
  const TemporaryDirectory folder;
  Explanation written = {.checkpoint = "last",
                         .part = "test",
                         .screen = "s",
                         .samples = 3,
                         .labels = {"x", "y"},
                         .networks = {"physical"},
                         .with_all = {{3, 0.5, 0.4, 0.1}, {3, kNotDefined, kNotDefined, 0.2}},
                         .without = {{{3, 0.25, 0.2, 0.3}, {3, 0, 0, 0}}},
                         .label = "x"};
  written.strongest = {{.with = "A",
                        .candidates = 4,
                        .possible = 10,
                        .lowest = {{{"A", "B"}, -2, {0.5}, {{"B", "C", {"physical"}, -1}}}},
                        .highest = {}}};
  write_explanation(folder.path(), written);
  const Explanation read = read_explanation(folder / kExplanationFile);
  EXPECT_THAT(read.networks, ElementsAre("physical"));
  EXPECT_EQ(read.without[0][0].pearson, 0.25);
  EXPECT_TRUE(std::isnan(read.with_all[1].pearson));
  ASSERT_EQ(read.strongest.size(), 1u);
  EXPECT_EQ(read.strongest[0].possible, 10);
  EXPECT_THAT(read.strongest[0].lowest.at(0).genes, ElementsAre("A", "B"));
  EXPECT_EQ(read.strongest[0].lowest[0].neighbours.at(0).measured, -1);
  write_text_atomically(folder / kExplanationFile, "{}");
  EXPECT_ERROR(read_explanation(folder / kExplanationFile), "explanation.json");
}

}  // namespace
}  // namespace lacuna
