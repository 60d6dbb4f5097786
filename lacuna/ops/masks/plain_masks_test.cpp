#include "lacuna/ops/masks/plain_masks.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"

namespace lacuna {
namespace {

Array edges_of(std::vector<uint8_t> sources, const std::vector<uint8_t>& targets) {
  const uint64_t count = sources.size();
  sources.insert(sources.end(), targets.begin(), targets.end());
  return Array::from(std::move(sources), {2, count});
}

// The five genes of the hand-checked table in removal_test.cpp.
HeteroGraph five_genes() {
  HeteroGraph graph;
  graph.add_nodes("gene", Names({"a", "b", "c", "d", "e"}));
  graph.add_nodes("reaction", Names({"A", "B", "C"}));
  graph.add_nodes("metabolite", Names({"x", "y"}));
  graph.add_edges("gene", "physical", "gene",
                  edges_of({0, 1, 3, 0, 1, 2, 3, 4}, {1, 2, 4, 0, 1, 2, 3, 4}));
  graph.add_edges("gene", "regulatory", "gene",
                  edges_of({2, 4, 0, 1, 2, 3, 4}, {0, 2, 0, 1, 2, 3, 4}));
  graph.add_edges("gene", "rule", "reaction", edges_of({0, 1, 3}, {0, 0, 1}));
  graph.add_edges("reaction", "stoichiometry", "metabolite", edges_of({0, 0, 1, 2}, {0, 1, 1, 0}));
  return graph;
}

std::set<uint64_t> gone(const std::vector<uint8_t>& record, const MaskLayout::Section& section) {
  std::set<uint64_t> result;
  for (uint64_t i = 0; i < section.count; ++i)
    if (!record[section.offset + i]) result.insert(i);
  return result;
}

TEST(PlainMasks, FiveGenesByHand) {
  using Set = std::set<uint64_t>;
  const HeteroGraph graph = five_genes();
  const MaskLayout layout(RemovalRules(graph), MaskForm::u8);
  const PlainMasks plain(graph);
  struct Case {
    std::vector<uint32_t> removed;
    Set physical, regulatory, rule, stoichiometry, reaction;
  };
  for (const Case& one :
       std::vector<Case>{{{1}, {0, 1, 4}, {3}, {1}, {0, 1}, {0}},
                         {{0, 3, 0}, {0, 2, 3, 6}, {0, 2, 5}, {0, 2}, {0, 1, 2}, {0, 1}},
                         {{4}, {2, 7}, {1, 6}, {}, {}, {}},
                         {{}, {}, {}, {}, {}, {}}}) {
    const auto record = plain.record(one.removed, layout);
    const auto off = [&](const char* name) { return gone(record, layout.section(name)); };
    EXPECT_EQ(off("gene"), Set(one.removed.begin(), one.removed.end()));
    EXPECT_EQ(off("gene.physical.gene"), one.physical);
    EXPECT_EQ(off("gene.regulatory.gene"), one.regulatory);
    EXPECT_EQ(off("gene.rule.reaction"), one.rule);
    EXPECT_EQ(off("reaction.stoichiometry.metabolite"), one.stoichiometry);
    EXPECT_EQ(off("reaction"), one.reaction);
    EXPECT_EQ(off("metabolite"), Set());
  }
}

TEST(PlainMasks, EqualThoseOfTheLists) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const HeteroGraph graph = generate_graph(GraphSize::small, seed);
  const RemovalRules rules(graph);
  const MaskLayout layout(rules, MaskForm::u8);
  const MaskTable table(rules, layout);
  const PlainMasks plain(graph);
  Random random(seed);
  for (const uint32_t count : {0u, 1u, 3u, 40u}) {
    std::vector<uint32_t> removed;
    for (uint32_t i = 0; i < count; ++i)
      removed.push_back(uint32_t(random.below(graph.genes().size())));
    const std::vector<int32_t> index(removed.begin(), removed.end()), ptr = {0, int32_t(count)};
    std::vector<uint8_t> expected(layout.stride(), 0xaa);
    write_masks(layout, table, {index, ptr}, expected.data(), 1);
    EXPECT_EQ(plain.record(removed, layout), expected);
  }
}

}  // namespace
}  // namespace lacuna
