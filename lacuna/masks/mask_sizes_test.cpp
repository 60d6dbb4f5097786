#include "lacuna/masks/mask_sizes.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

// What a record takes, counted edge by edge from the rules in words.
uint64_t brute_force_record(const HeteroGraph& graph, double bytes_per_element) {
  uint64_t bytes = 0;
  const auto add = [&](uint64_t count) {
    bytes += uint64_t(std::ceil(std::ceil(double(count) * bytes_per_element) / 64)) * 64;
  };
  for (const NodeType& nodes : graph.node_types()) add(nodes.names.size());
  for (const EdgeType& edges : graph.edge_types()) add(edges.size());
  return bytes;
}

TEST(MaskSizes, RecordsAsCountedByHand) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const HeteroGraph graph = small_graph(seed);
  const Samples samples = small_samples(seed, 100);
  const RemovalRules rules(graph);
  const MaskSizes sizes = measure_sizes(samples, rules, MaskEncoder(rules, MaskForm::positions));
  EXPECT_EQ(sizes.u8.record, double(brute_force_record(graph, 1)));
  EXPECT_EQ(sizes.bits.record, double(brute_force_record(graph, 0.125)));
  EXPECT_EQ(sizes.bf16.record, double(brute_force_record(graph, 2)));
  const MaskTable table(rules, MaskLayout(rules, MaskForm::u8));
  EXPECT_EQ(sizes.table, 4 * (table.ptr.size() + table.place.size()));
  EXPECT_EQ(sizes.labels, 2u);
  EXPECT_EQ(sizes.looked_at, 100u);
  // All samples were looked at, so the mean is the mean.
  EXPECT_NEAR(sizes.removed, double(samples.removed.size()) / 100, 1e-9);
  EXPECT_EQ(sizes.index_bytes(100), 4 * samples.removed.size() + 4 * 101 + 4 * 200);
}

// Every position takes one byte here (the graph is small), and every mask one for its count.
TEST(MaskSizes, PositionsAsCountedByHand) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const HeteroGraph graph = small_graph(seed);
  const Samples samples = small_samples(seed, 60);
  const RemovalRules rules(graph);
  const MaskSizes sizes = measure_sizes(samples, rules, MaskEncoder(rules, MaskForm::positions));
  const RemovedReader reader(samples);
  std::vector<uint32_t> removed;
  double bytes = 0;
  for (uint64_t s = 0; s < 60; ++s) {
    reader.read(s, removed);
    for (const MaskSection& section : rules.sections()) {
      std::set<uint32_t> gone;
      for (const uint32_t gene : removed)
        for (const uint32_t position : section.off.of(gene)) gone.insert(position);
      bytes += 1 + double(gone.size());
    }
  }
  EXPECT_NEAR(sizes.positions.record, bytes / 60, 1e-9);
}

TEST(MaskSizes, YeastSize) {
  const HeteroGraph graph = generate_graph(GraphSize::yeast, 1);
  const RemovalRules rules(graph);
  const MaskSizes sizes =
      measure_sizes(small_samples(1, 300, 6607), rules, MaskEncoder(rules, MaskForm::positions));
  EXPECT_EQ(sizes.u8.record, double(brute_force_record(graph, 1)));
  EXPECT_GT(sizes.u8.record, 2.5e6);
  EXPECT_EQ(sizes.looked_at, 256u);
  EXPECT_NEAR(sizes.u8.stored / sizes.bits.stored, 8, 8 * 0.03);
  EXPECT_LT(sizes.positions.stored, 8'176);
}

}  // namespace
}  // namespace lacuna
