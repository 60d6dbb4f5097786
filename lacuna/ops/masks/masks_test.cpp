#include "lacuna/ops/masks/masks.h"

#include <gtest/gtest.h>

#include "lacuna/core/error.h"
#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/ops/testing.h"

namespace lacuna {
namespace {

using testing::random_removed;
using testing::RandomRemoved;

bool is_removed(const RandomRemoved& removed, size_t b, uint32_t gene) {
  for (int32_t k = removed.ptr[b]; k < removed.ptr[b + 1]; ++k)
    if (removed.index[size_t(k)] == int32_t(gene)) return true;
  return false;
}

// The record of a sample from the rules' own words, edge by edge.
std::vector<uint8_t> expected_record(const HeteroGraph& graph, const MaskLayout& layout,
                                     const RandomRemoved& removed, size_t b) {
  std::vector<uint8_t> record(layout.stride(), 0);
  const auto write = [&](const std::string& name, const auto& is_kept) {
    const auto& section = layout.section(name);
    for (uint64_t i = 0; i < section.count; ++i) record[section.offset + i] = is_kept(i);
  };
  const auto gene_kept = [&](uint64_t gene) { return !is_removed(removed, b, uint32_t(gene)); };
  std::vector<bool> reaction_kept(graph.nodes("reaction").size(), true);
  for (const EdgeType& edges : graph.edge_types()) {
    if (edges.target != "reaction") continue;
    const auto genes = edges.sources(), reactions = edges.targets();
    for (size_t e = 0; e < genes.size(); ++e)
      if (!gene_kept(genes[e])) reaction_kept[reactions[e]] = false;
  }
  write("gene", gene_kept);
  write("reaction", [&](uint64_t r) { return reaction_kept[r]; });
  write("metabolite", [](uint64_t) { return true; });
  for (const EdgeType& edges : graph.edge_types()) {
    const auto sources = edges.sources(), targets = edges.targets();
    write(edges.key(), [&](uint64_t e) {
      if (edges.target == "gene") return gene_kept(sources[e]) && gene_kept(targets[e]);
      return edges.target == "reaction" ? gene_kept(sources[e]) : bool(reaction_kept[sources[e]]);
    });
  }
  return record;
}

void expect_records(const HeteroGraph& graph, const MaskLayout& layout,
                    const RandomRemoved& removed, const uint8_t* records) {
  for (size_t b = 0; b + 1 < removed.ptr.size(); ++b) {
    const auto expected = expected_record(graph, layout, removed, b);
    const uint8_t* record = records + b * layout.stride();
    ASSERT_EQ(std::vector<uint8_t>(record, record + layout.stride()), expected) << "sample " << b;
  }
}

struct Fixture {
  uint64_t seed = fresh_seed();
  HeteroGraph graph = generate_graph(GraphSize::tiny, seed);
  RemovalRules rules = RemovalRules(graph);
  MaskLayout layout = MaskLayout(rules, MaskForm::u8);
  MaskTable table = MaskTable(rules, layout);
};

TEST(Masks, SectionsStandInOrderAtMultiplesOf64) {
  const Fixture f;
  for (const MaskForm form : {MaskForm::u8, MaskForm::bits, MaskForm::bf16}) {
    const MaskLayout layout(f.rules, form);
    ASSERT_EQ(layout.sections().size(), f.rules.sections().size());
    uint64_t end = 0;
    for (size_t s = 0; s < layout.sections().size(); ++s) {
      const auto& section = layout.sections()[s];
      EXPECT_EQ(section.name, f.rules.sections()[s].name);
      EXPECT_EQ(section.count, f.rules.sections()[s].count);
      EXPECT_EQ(section.offset % 64, 0u);
      EXPECT_GE(section.offset, end);
      EXPECT_LT(section.offset, end + 64);
      end = section.offset + section.bytes;
    }
    EXPECT_EQ(layout.stride() % 64, 0u);
    EXPECT_GE(layout.stride(), end);
    EXPECT_EQ(layout.sections()[0].name, "gene");
    const uint64_t genes = f.graph.genes().size();
    EXPECT_EQ(layout.sections()[0].bytes, form == MaskForm::u8     ? genes
                                          : form == MaskForm::bits ? (genes + 7) / 8
                                                                   : 2 * genes);
    EXPECT_EQ(mask_form_from_name(name(form)), form);
  }
}

TEST(Masks, RecordsFollowTheRules) {
  const Fixture f;
  SCOPED_TRACE(f.seed);
  const auto removed = random_removed(f.seed, f.graph.genes().size(), 9, 4);
  for (const int threads : {1, 3}) {
    std::vector<uint8_t> records(9 * f.layout.stride(), 0xaa);
    write_masks(f.layout, f.table, removed.view(), records.data(), threads);
    expect_records(f.graph, f.layout, removed, records.data());
  }
}

TEST(Masks, ArenaGivesTheRecordsOfEveryBatch) {
  const Fixture f;
  SCOPED_TRACE(f.seed);
  MaskArena arena(f.layout, f.table, 8);
  for (uint64_t round = 0; round < 20; ++round) {
    const int64_t batch = int64_t(round * 5 % 9);
    const auto removed = random_removed(f.seed + round, f.graph.genes().size(), batch, 5);
    expect_records(f.graph, f.layout, removed, arena.update(removed.view()));
    if (HasFatalFailure()) return;
  }
  RandomRemoved everything;
  std::vector<int32_t> genes(f.graph.genes().size());
  for (size_t i = 0; i < genes.size(); ++i) genes[i] = int32_t(i);
  everything.add(genes);
  expect_records(f.graph, f.layout, everything, arena.update(everything.view()));
  RandomRemoved nothing;
  nothing.add({});
  expect_records(f.graph, f.layout, nothing, arena.update(nothing.view()));
}

TEST(Masks, BadInputIsNamed) {
  const Fixture f;
  MaskArena arena(f.layout, f.table, 2);
  RandomRemoved one;
  one.add(std::vector<int32_t>{1});
  arena.update(one.view());
  const auto expect_error = [&](const RandomRemoved& removed, const std::string& part) {
    std::vector<uint8_t> records(size_t(removed.view().batch()) * f.layout.stride());
    const auto says = [&](const std::function<void()>& call) {
      try {
        call();
        return std::string("nothing was thrown");
      } catch (const Error& error) {
        return std::string(error.what());
      }
    };
    const std::string said = says([&] { arena.update(removed.view()); });
    EXPECT_NE(said.find(part), std::string::npos) << said;
    expect_records(f.graph, f.layout, one, arena.records());  // nothing was changed
    if (part.find("arena") != std::string::npos) return;
    EXPECT_EQ(says([&] { write_masks(f.layout, f.table, removed.view(), records.data()); }), said);
  };
  RandomRemoved bad;
  bad.add(std::vector<int32_t>{0, 40});
  expect_error(bad, "removed[1] = 40 (sample 0)");
  RandomRemoved many;
  for (int i = 0; i < 3; ++i) many.add({});
  expect_error(many, "3 samples does not fit a mask arena of 2");
  EXPECT_THROW(MaskTable(f.rules, MaskLayout(f.rules, MaskForm::bits)), Error);
  EXPECT_THROW(f.layout.section("gene.love.gene"), Error);
}

// A graph of genes alone has the same table from its plan as from the rules.
TEST(Masks, TableOfAPlanIsThatOfTheRules) {
  const Fixture f;
  SCOPED_TRACE(f.seed);
  HeteroGraph genes;
  genes.add_nodes("gene", f.graph.genes().names);
  std::vector<std::vector<uint32_t>> ends;
  for (const EdgeType* edges : f.graph.gene_edges()) {
    genes.add_edges("gene", edges->name, "gene", edges->edges);
    ends.push_back(edges->sources());
    ends.push_back(edges->targets());
  }
  std::vector<EdgeList> lists;
  for (size_t t = 0; t < ends.size(); t += 2) lists.push_back({ends[t], ends[t + 1]});
  const GraphPlan plan = GraphPlan::make(genes.genes().size(), lists);

  const RemovalRules rules(genes);
  const MaskLayout layout(rules, MaskForm::u8);
  std::vector<int64_t> counts;
  for (const auto& section : layout.sections()) counts.push_back(int64_t(section.count));
  const MaskTable expected(rules, layout), table(plan, MaskLayout(counts, MaskForm::u8));
  EXPECT_EQ(MaskLayout(counts, MaskForm::u8).stride(), layout.stride());
  EXPECT_EQ(table.ptr, expected.ptr);
  EXPECT_EQ(table.place, expected.place);
}

}  // namespace
}  // namespace lacuna
