#include "lacuna/screen/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lacuna/core/testing.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

class SummaryTest : public ::testing::Test {
 protected:
  uint64_t seed_ = test_seed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  TemporaryDirectory directory_;
};

TEST_F(SummaryTest, DegreesOfAGraphDrawnByHand) {
  HeteroGraph graph;
  graph.add_nodes("gene", numbered_names("G", 5));
  // 0 -> 1, 0 -> 2, 0 -> 1 again, 3 -> 3: gene 3 has a self loop only, gene 4 nothing.
  graph.add_edges("gene", "drawn", "gene", Array::from<uint8_t>({0, 0, 0, 3, 1, 2, 1, 3}, {2, 4}));
  const Samples none = SampleBuilder(5, {}).finish();
  const auto summary = summarise(write_screen(directory_ / "s", {graph, none, {}, {}}));
  const EdgeSummary& edges = summary.edges.at(0);
  EXPECT_EQ(edges.key, "gene.drawn.gene");
  EXPECT_EQ(edges.count, 4u);
  EXPECT_EQ(edges.self_loops, 1u);
  EXPECT_EQ(edges.in.min, 0u);  // in: 0 2 1 1 0
  EXPECT_EQ(edges.in.median, 1.0);
  EXPECT_EQ(edges.in.max, 2u);
  EXPECT_EQ(edges.out.min, 0u);  // out: 3 0 0 1 0
  EXPECT_EQ(edges.out.median, 0.0);
  EXPECT_EQ(edges.out.max, 3u);
  EXPECT_EQ(summary.isolated_genes, 2u);
}

TEST_F(SummaryTest, CountsAgreeWithALoop) {
  const HeteroGraph graph = small_graph(seed_);
  const Samples samples = small_samples(seed_, 500);
  const Screen screen = write_screen(directory_ / "s", {graph, samples, {thirds_split(500)}, {}});
  const ScreenSummary summary = summarise(screen);
  // Labels, in two plain passes.
  const auto labels = samples.labels.as<float>();
  for (size_t l = 0; l < 2; ++l) {
    double sum = 0, squares = 0, min = INFINITY, max = -INFINITY;
    uint64_t count = 0;
    for (size_t s = 0; s < 500; ++s) {
      const double value = labels[2 * s + l];
      if (std::isnan(value)) continue;
      ++count;
      sum += value;
      min = std::min(min, value);
      max = std::max(max, value);
    }
    for (size_t s = 0; s < 500; ++s)
      if (!std::isnan(labels[2 * s + l]))
        squares += std::pow(labels[2 * s + l] - sum / double(count), 2);
    EXPECT_EQ(summary.labels[l].count, count);
    EXPECT_EQ(summary.labels[l].missing, 500 - count);
    EXPECT_NEAR(summary.labels[l].mean, sum / double(count), 1e-12);
    EXPECT_NEAR(summary.labels[l].sd, std::sqrt(squares / double(count)), 1e-12);
    EXPECT_EQ(summary.labels[l].min, min);
    EXPECT_EQ(summary.labels[l].max, max);
  }
  // Removed genes: different ones.
  const RemovedReader reader(samples);
  std::map<uint64_t, uint64_t> counts;
  std::set<uint32_t> all;
  std::vector<uint32_t> genes;
  for (uint64_t s = 0; s < 500; ++s) {
    reader.read(s, genes);
    ++counts[std::set<uint32_t>(genes.begin(), genes.end()).size()];
    all.insert(genes.begin(), genes.end());
  }
  EXPECT_EQ(summary.removed_counts, counts);
  EXPECT_EQ(summary.genes_removed, all.size());
  // Categories and parts.
  const auto& screen_column = summary.columns.at(1);
  uint64_t in_all = screen_column.unknown;
  const auto codes = samples.columns[1].values.as<uint8_t>();
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(screen_column.categories[c].second,
              uint64_t(std::count(codes.begin(), codes.end(), uint8_t(c))));
    in_all += screen_column.categories[c].second;
  }
  EXPECT_EQ(in_all, 500u);
  EXPECT_GT(screen_column.unknown, 0u);
  EXPECT_EQ(summary.columns.at(2).numbers.min, -4);
  EXPECT_EQ(summary.splits.at(0).train, 125u);
  EXPECT_EQ(summary.splits.at(0).unused, 125u);
}

}  // namespace
}  // namespace lacuna
