#include "lacuna/graph/removal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;
using Edges = std::vector<std::pair<uint32_t, uint32_t>>;

Array pairs(const Edges& edges) {
  std::vector<uint32_t> both;
  for (const auto& edge : edges) both.push_back(edge.first);
  for (const auto& edge : edges) both.push_back(edge.second);
  return Array::from(std::move(both), {2, edges.size()});
}

Names numbered(const std::string& prefix, uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
  return Names(std::move(names));
}

const MaskSection& section(const RemovalRules& rules, const std::string& name) {
  for (const MaskSection& section : rules.sections())
    if (section.name == name) return section;
  throw Error("no section {}", name);
}

// Positions that are off in a sample, from the incidence lists.
std::vector<uint32_t> off(const RemovalRules& rules, const std::string& name,
                          const std::vector<uint32_t>& removed) {
  std::set<uint32_t> positions;
  for (const uint32_t gene : removed) {
    const auto of_gene = section(rules, name).off.of(gene);
    positions.insert(of_gene.begin(), of_gene.end());
  }
  return {positions.begin(), positions.end()};
}

// ---- the hand-checked graph: five genes, two edge types, reactions A{0,1}, B{3}, C{}

HeteroGraph hand_checked_graph() {
  HeteroGraph graph;
  graph.add_nodes("gene", numbered("g", 5));
  graph.add_nodes("reaction", Names({"A", "B", "C"}));
  graph.add_nodes("metabolite", Names({"x", "y"}));
  graph.add_edges("gene", "physical", "gene",
                  pairs({{0, 1}, {1, 2}, {3, 4}, {0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}}));
  graph.add_edges("gene", "regulatory", "gene",
                  pairs({{2, 0}, {4, 2}, {0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}}));
  graph.add_edges("gene", "rule", "reaction", pairs({{0, 0}, {1, 0}, {3, 1}}));
  graph.add_edges("reaction", "stoichiometry", "metabolite",
                  pairs({{0, 0}, {0, 1}, {1, 1}, {2, 0}}),
                  {{"coefficient", Array::from(std::vector<float>{-1, 1, -2, 1})}});
  return graph;
}

TEST(RemovalRules, HandCheckedGraph) {
  const RemovalRules rules(hand_checked_graph());
  const auto physical = [&](auto s) { return off(rules, "gene.physical.gene", s); };
  const auto regulatory = [&](auto s) { return off(rules, "gene.regulatory.gene", s); };
  const auto rule = [&](auto s) { return off(rules, "gene.rule.reaction", s); };
  const auto stoichiometry = [&](auto s) {
    return off(rules, "reaction.stoichiometry.metabolite", s);
  };
  const auto reaction = [&](auto s) { return off(rules, "reaction", s); };
  using Removed = std::vector<uint32_t>;
  EXPECT_THAT(physical(Removed{1}), ElementsAre(0, 1, 4));
  EXPECT_THAT(regulatory(Removed{1}), ElementsAre(3));
  EXPECT_THAT(rule(Removed{1}), ElementsAre(1));
  EXPECT_THAT(stoichiometry(Removed{1}), ElementsAre(0, 1));
  EXPECT_THAT(reaction(Removed{1}), ElementsAre(0));
  EXPECT_THAT(physical(Removed{0, 3}), ElementsAre(0, 2, 3, 6));
  EXPECT_THAT(regulatory(Removed{0, 3}), ElementsAre(0, 2, 5));
  EXPECT_THAT(rule(Removed{0, 3}), ElementsAre(0, 2));
  EXPECT_THAT(stoichiometry(Removed{0, 3}), ElementsAre(0, 1, 2));
  EXPECT_THAT(reaction(Removed{0, 3}), ElementsAre(0, 1));
  EXPECT_THAT(physical(Removed{4}), ElementsAre(2, 7));
  EXPECT_THAT(regulatory(Removed{4}), ElementsAre(1, 6));
  EXPECT_THAT(rule(Removed{4}), ElementsAre());
  EXPECT_THAT(stoichiometry(Removed{4}), ElementsAre());
  EXPECT_THAT(reaction(Removed{4}), ElementsAre());
}

TEST(RemovalRules, HandCheckedIncidence) {
  const RemovalRules rules(hand_checked_graph());
  const Incidence& physical = section(rules, "gene.physical.gene").off;
  EXPECT_THAT(physical.ptr, ElementsAre(0, 2, 5, 7, 9, 11));
  EXPECT_THAT(physical.position, ElementsAre(0, 3, 0, 1, 4, 1, 5, 2, 6, 2, 7));
  const Incidence& regulatory = section(rules, "gene.regulatory.gene").off;
  EXPECT_THAT(regulatory.ptr, ElementsAre(0, 2, 3, 6, 7, 9));
  EXPECT_THAT(regulatory.position, ElementsAre(0, 2, 3, 0, 1, 4, 5, 1, 6));
}

TEST(RemovalRules, StricterViewTakesTheReactionsOtherEdges) {
  const RemovalRules rules(hand_checked_graph(), GeneReactionView::gene_and_reaction);
  EXPECT_THAT(off(rules, "gene.rule.reaction", {1}), ElementsAre(0, 1));
  EXPECT_THAT(off(rules, "gene.rule.reaction", {0, 3}), ElementsAre(0, 1, 2));
  EXPECT_THAT(off(rules, "gene.rule.reaction", {4}), ElementsAre());
}

TEST(RemovalRules, SectionsAreNodesThenEdgesInTheGraphsOrder) {
  const RemovalRules rules(hand_checked_graph());
  std::vector<std::string> names;
  std::vector<uint64_t> counts;
  for (const MaskSection& section : rules.sections()) {
    names.push_back(section.name);
    counts.push_back(section.count);
  }
  EXPECT_THAT(names, ElementsAre("gene", "reaction", "metabolite", "gene.physical.gene",
                                 "gene.regulatory.gene", "gene.rule.reaction",
                                 "reaction.stoichiometry.metabolite"));
  EXPECT_THAT(counts, ElementsAre(5, 3, 2, 8, 7, 3, 4));
}

// ---- random graphs, against the rules applied edge by edge

struct RandomGraph {
  uint32_t genes, reactions, metabolites;
  Edges physical, regulatory, rule, other_rule, stoichiometry;
};

Edges random_edges(Random& random, uint32_t sources, uint32_t targets, uint64_t most) {
  Edges edges;
  if (sources == 0 || targets == 0 || random.below(5) == 0) return edges;  // an empty type
  for (uint64_t e = random.below(most + 1); e > 0; --e) {
    if (!edges.empty() && random.below(4) == 0) {
      edges.push_back(edges[random.below(edges.size())]);  // a repeated edge
    } else {
      edges.emplace_back(random.below(sources), random.below(targets));
    }
  }
  return edges;
}

// Small enough that genes and reactions without edges, self loops and genes in several reactions
// are all common.
RandomGraph random_graph(Random& random) {
  RandomGraph g;
  g.genes = uint32_t(random.below(12)) + (random.below(6) != 0);
  g.reactions = uint32_t(random.below(8));
  g.metabolites = uint32_t(random.below(5));
  g.physical = random_edges(random, g.genes, g.genes, 40);
  g.regulatory = random_edges(random, g.genes, g.genes, 10);
  g.rule = random_edges(random, g.genes, g.reactions, 12);
  g.other_rule = random_edges(random, g.genes, g.reactions, 4);
  g.stoichiometry = random_edges(random, g.reactions, g.metabolites, 12);
  return g;
}

HeteroGraph build(const RandomGraph& g) {
  HeteroGraph graph;
  graph.add_nodes("gene", numbered("g", g.genes));
  graph.add_nodes("reaction", numbered("r", g.reactions));
  graph.add_nodes("metabolite", numbered("m", g.metabolites));
  graph.add_edges("gene", "physical", "gene", pairs(g.physical));
  graph.add_edges("gene", "regulatory", "gene", pairs(g.regulatory));
  graph.add_edges("gene", "rule", "reaction", pairs(g.rule));
  graph.add_edges("gene", "other_rule", "reaction", pairs(g.other_rule));
  graph.add_edges("reaction", "stoichiometry", "metabolite", pairs(g.stoichiometry));
  return graph;
}

bool contains(const std::vector<uint32_t>& list, uint32_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool reaction_is_kept(const RandomGraph& g, uint32_t reaction,
                      const std::vector<uint32_t>& removed) {
  for (const Edges* edges : {&g.rule, &g.other_rule})
    for (const auto& [gene, target] : *edges)
      if (target == reaction && contains(removed, gene)) return false;
  return true;
}

template <class Kept>
std::vector<uint32_t> positions_off(uint64_t count, Kept kept) {
  std::vector<uint32_t> off;
  for (uint32_t i = 0; i < count; ++i)
    if (!kept(i)) off.push_back(i);
  return off;
}

void expect_same(const RandomGraph& g, const RemovalRules& rules,
                 const std::vector<uint32_t>& removed) {
  const auto kept = [&](uint32_t gene) { return !contains(removed, gene); };
  const auto reaction_kept = [&](uint32_t r) { return reaction_is_kept(g, r, removed); };
  const bool strict = rules.view() == GeneReactionView::gene_and_reaction;
  const auto gene_gene = [&](const Edges& edges) {
    return positions_off(edges.size(),
                         [&](auto e) { return kept(edges[e].first) && kept(edges[e].second); });
  };
  const auto gene_reaction = [&](const Edges& edges) {
    return positions_off(edges.size(), [&](auto e) {
      return kept(edges[e].first) && (!strict || reaction_kept(edges[e].second));
    });
  };
  EXPECT_EQ(off(rules, "gene", removed), positions_off(g.genes, kept));
  EXPECT_EQ(off(rules, "reaction", removed), positions_off(g.reactions, reaction_kept));
  EXPECT_THAT(off(rules, "metabolite", removed), ElementsAre());
  EXPECT_EQ(off(rules, "gene.physical.gene", removed), gene_gene(g.physical));
  EXPECT_EQ(off(rules, "gene.regulatory.gene", removed), gene_gene(g.regulatory));
  EXPECT_EQ(off(rules, "gene.rule.reaction", removed), gene_reaction(g.rule));
  EXPECT_EQ(off(rules, "gene.other_rule.reaction", removed), gene_reaction(g.other_rule));
  EXPECT_EQ(off(rules, "reaction.stoichiometry.metabolite", removed),
            positions_off(g.stoichiometry.size(),
                          [&](auto e) { return reaction_kept(g.stoichiometry[e].first); }));
}

std::vector<std::vector<uint32_t>> removals(Random& random, uint32_t genes) {
  std::vector<std::vector<uint32_t>> all = {{}};  // the wild type
  if (genes == 0) return all;
  for (int i = 0; i < 8; ++i) {
    std::vector<uint32_t> removed;
    for (uint64_t n = random.below(6); n > 0; --n) removed.push_back(uint32_t(random.below(genes)));
    if (i % 2 && !removed.empty()) removed.push_back(removed[0]);  // a gene twice
    all.push_back(removed);
  }
  std::vector<uint32_t> everything(genes);
  for (uint32_t gene = 0; gene < genes; ++gene) everything[gene] = genes - 1 - gene;
  all.push_back(everything);
  return all;
}

TEST(RemovalRules, AgreeWithRulesAppliedEdgeByEdge) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (uint64_t round = 0; round < 400; ++round) {
    Random random(seed, round);
    const RandomGraph g = random_graph(random);
    const HeteroGraph graph = build(g);
    for (const auto view : {GeneReactionView::gene, GeneReactionView::gene_and_reaction}) {
      const RemovalRules rules(graph, view);
      ASSERT_EQ(rules.gene_count(), g.genes);
      for (const auto& removed : removals(random, g.genes)) expect_same(g, rules, removed);
    }
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(RemovalRules, ListsAscendWithoutRepeats) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (uint64_t round = 0; round < 100; ++round) {
    Random random(seed, round);
    const HeteroGraph graph = build(random_graph(random));
    const RemovalRules rules(graph, GeneReactionView::gene_and_reaction);
    for (const MaskSection& section : rules.sections()) {
      ASSERT_EQ(section.off.ptr.size(), rules.gene_count() + 1u);
      ASSERT_EQ(section.off.ptr.back(), section.off.position.size());
      for (uint32_t gene = 0; gene < rules.gene_count(); ++gene) {
        const auto of_gene = section.off.of(gene);
        for (size_t i = 0; i + 1 < of_gene.size(); ++i) ASSERT_LT(of_gene[i], of_gene[i + 1]);
        ASSERT_TRUE(of_gene.empty() || of_gene.back() < section.count);
      }
    }
  }
}

// ---- what is refused

TEST(RemovalRules, WhatNoRuleCoversIsRefused) {
  HeteroGraph graph = hand_checked_graph();
  graph.add_edges("metabolite", "back", "reaction", pairs({{0, 0}}));
  EXPECT_ERROR(RemovalRules(graph), "edges of type 'metabolite.back.reaction'");
  HeteroGraph reversed = hand_checked_graph();
  reversed.add_edges("reaction", "by", "gene", pairs({}));
  EXPECT_ERROR(RemovalRules(reversed), "edges of type 'reaction.by.gene'");
  HeteroGraph proteins = hand_checked_graph();
  proteins.add_nodes("protein", Names());
  EXPECT_ERROR(RemovalRules(proteins), "nodes of type 'protein'");
  EXPECT_ERROR(RemovalRules(HeteroGraph()), "no nodes of type 'gene'");
}

TEST(RemovalRules, ViewsHaveNamesAndHashes) {
  const HeteroGraph graph = hand_checked_graph();
  EXPECT_EQ(gene_reaction_view_from_name("gene"), GeneReactionView::gene);
  EXPECT_EQ(gene_reaction_view_from_name("gene_and_reaction"), GeneReactionView::gene_and_reaction);
  EXPECT_THROW(gene_reaction_view_from_name("strict"), Error);
  const RemovalRules gene(graph), both(graph, GeneReactionView::gene_and_reaction);
  EXPECT_EQ(gene.hash(), RemovalRules(graph).hash());
  EXPECT_NE(gene.hash(), both.hash());
}

TEST(CheckRemoved, NamesTheSampleAndTheIndex) {
  const auto check = [](std::vector<uint32_t> removed, uint32_t genes) {
    check_removed(removed, 1204, genes);
  };
  EXPECT_NO_THROW(check({0, 6606, 6606}, 6607));
  EXPECT_NO_THROW(check({}, 0));
  EXPECT_EQ(
      error_of([&] {
        check({0, 6607}, 6607);
      }),
      "sample 1204 removes gene index 6607, but the screen has 6607 genes (0 to 6606); was it "
      "made for another gene list?");
  EXPECT_ERROR(check({0}, 0), "the screen has 0 genes; was");
}

}  // namespace
}  // namespace lacuna
