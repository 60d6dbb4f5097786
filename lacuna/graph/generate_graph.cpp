#include "lacuna/graph/generate_graph.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"

namespace lacuna {
namespace {

// Streams of random numbers: one a gene-gene type from 0, and these.
constexpr uint64_t kGeneReactionStream = 1000, kReactionMetaboliteStream = 1001,
                   kCoefficientStream = 1002;

// Which pairs are edges: a bit a pair, so that repeats are seen at once and a scan gives the edges
// in order. 50 MB for 20,000 genes.
class Pairs {
 public:
  Pairs(uint32_t sources, uint32_t targets)
      : sources_(sources), words_a_row_((targets + 63) / 64), words_(sources * words_a_row_, 0) {}

  // False where the pair was there already.
  bool add(uint32_t source, uint32_t target) {
    uint64_t& word = words_[source * words_a_row_ + target / 64];
    const uint64_t bit = uint64_t(1) << target % 64;
    if (word & bit) return false;
    word |= bit;
    return true;
  }

  template <class Visit>
  void for_each(Visit visit) const {
    for (uint32_t source = 0; source < sources_; ++source)
      for (uint64_t w = 0; w < words_a_row_; ++w)
        for (uint64_t word = words_[source * words_a_row_ + w]; word != 0; word &= word - 1)
          visit(source, uint32_t(w * 64 + uint64_t(std::countr_zero(word))));
  }

 private:
  uint32_t sources_;
  uint64_t words_a_row_;
  std::vector<uint64_t> words_;
};

std::vector<uint32_t> shuffled(uint32_t count, Random& random) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

// Draws nodes of a list so that place r comes up in proportion to (r + c)^(-2/3): with t uniform
// from kCut to 1, r = n * (t^3 - kCut^3) / (1 - kCut^3). The cut sets c, and thereby the first
// place's share: about 17 times the mean.
class HeavyTail {
 public:
  explicit HeavyTail(std::vector<uint32_t> nodes) : nodes_(std::move(nodes)) {}
  uint32_t draw(Random& random) const {
    const double t = kCut + (1.0 - kCut) * random.uniform();
    const double share = (t * t * t - kCut * kCut * kCut) / (1.0 - kCut * kCut * kCut);
    return nodes_[std::min(size_t(share * double(nodes_.size())), nodes_.size() - 1)];
  }

 private:
  static constexpr double kCut = 0.15;
  std::vector<uint32_t> nodes_;
};

Names numbered(std::string_view prefix, uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{:05}", prefix, i + 1));
  return Names(std::move(names));
}

// sources, then targets: [2, E]
Array to_array(std::vector<uint32_t> sources, const std::vector<uint32_t>& targets,
               uint64_t node_count) {
  const uint64_t count = sources.size();
  sources.insert(sources.end(), targets.begin(), targets.end());
  return narrow(sources, node_count, {2, count});
}

// Draws pairs until `wanted` edges are there. An undirected pair is two edges, except a last single
// one.
template <class DrawSource, class DrawTarget>
void fill(Pairs& pairs, uint64_t wanted, bool directed, DrawSource draw_source,
          DrawTarget draw_target) {
  while (wanted > 0) {
    const uint32_t source = draw_source(), target = draw_target();
    if (source == target || !pairs.add(source, target)) continue;
    --wanted;
    if (!directed && wanted > 0 && pairs.add(target, source)) --wanted;
  }
}

Array gene_gene_edges(uint32_t genes, const GeneEdgeCounts& counts, Random random) {
  Pairs pairs(genes, genes);
  const std::vector<uint32_t> order = shuffled(genes, random);
  const auto hubs_end = order.begin() + std::ptrdiff_t(counts.hubs.size());
  const std::vector<uint32_t> others(hubs_end, order.end());
  const auto any = [&] { return others[random.below(others.size())]; };
  uint64_t left = counts.edges - genes;  // without the self loops
  for (size_t h = 0; h < counts.hubs.size(); ++h) {
    const uint64_t edges = counts.hubs[h] * (counts.directed ? 1u : 2u);
    LACUNA_ASSERT(counts.hubs[h] < others.size() && edges <= left);
    fill(
        pairs, edges, counts.directed, [&] { return order[h]; }, any);
    left -= edges;
  }
  if (counts.directed) {  // one gene in eight regulates; targets have an order of their own
    const HeavyTail source({hubs_end, hubs_end + std::max(genes / 8, 4u)});
    const HeavyTail target(shuffled(genes, random));
    fill(
        pairs, left, true, [&] { return source.draw(random); },
        [&] { return target.draw(random); });
  } else {
    const HeavyTail end(others);
    const auto draw = [&] { return end.draw(random); };
    fill(pairs, left, false, draw, draw);
  }
  std::vector<uint32_t> sources, targets;
  sources.reserve(counts.edges * 2);
  targets.reserve(counts.edges);
  pairs.for_each([&](uint32_t source, uint32_t target) {
    sources.push_back(source);
    targets.push_back(target);
  });
  for (uint32_t gene = 0; gene < genes; ++gene) {
    sources.push_back(gene);
    targets.push_back(gene);
  }
  LACUNA_ASSERT(sources.size() == counts.edges);
  return to_array(std::move(sources), targets, genes);
}

void add_gene_reaction_edges(HeteroGraph& graph, const GraphCounts& counts, Random random) {
  // A sixth of the genes are enzymes, 55% of the reactions have genes; the rest of the edges makes
  // complexes.
  std::vector<uint32_t> enzymes = shuffled(counts.genes, random);
  enzymes.resize(std::max(counts.genes / 6, 4u));
  std::vector<uint32_t> catalysed = shuffled(counts.reactions, random);
  catalysed.resize(size_t(counts.reactions) * 55 / 100);
  LACUNA_ASSERT(catalysed.size() <= counts.gene_reaction_edges);
  const HeavyTail gene(enzymes), reaction(catalysed);
  Pairs pairs(counts.genes, counts.reactions);
  for (const uint32_t target : catalysed) pairs.add(gene.draw(random), target);
  for (uint64_t left = counts.gene_reaction_edges - catalysed.size(); left > 0;)
    left -= pairs.add(gene.draw(random), reaction.draw(random));
  std::vector<uint32_t> sources, targets;
  pairs.for_each([&](uint32_t source, uint32_t target) {
    sources.push_back(source);
    targets.push_back(target);
  });
  graph.add_edges("gene", "rule", "reaction",
                  to_array(std::move(sources), targets, std::max(counts.genes, counts.reactions)));
}

// Mostly 1, sometimes 2 to 4, now and then a fraction.
float magnitude(Random& random) {
  const uint64_t kind = random.below(20);
  if (kind < 15) return 1.0f;
  if (kind < 19) return float(2 + random.below(3));
  return float(1 + random.below(99)) / 100.0f;
}

// Edges arrive reaction by reaction: the second of a reaction has the sign that the first has not.
std::vector<float> draw_coefficients(const std::vector<uint32_t>& reactions, Random random) {
  std::vector<float> coefficients;
  for (size_t e = 0; e < reactions.size(); ++e) {
    const bool second =
        e > 0 && reactions[e] == reactions[e - 1] && (e == 1 || reactions[e] != reactions[e - 2]);
    const bool negative = second ? coefficients[e - 1] > 0 : random.below(2) == 0;
    coefficients.push_back(negative ? -magnitude(random) : magnitude(random));
  }
  return coefficients;
}

void add_reaction_metabolite_edges(HeteroGraph& graph, const GraphCounts& counts, uint64_t seed) {
  Random random(seed, kReactionMetaboliteStream);
  const HeavyTail metabolite(shuffled(counts.metabolites, random));
  Pairs pairs(counts.reactions, counts.metabolites);
  uint64_t left = counts.reaction_metabolite_edges;
  for (uint32_t reaction = 0; reaction < counts.reactions; ++reaction)
    for (int needed = 2; needed > 0;) needed -= pairs.add(reaction, metabolite.draw(random));
  LACUNA_ASSERT(left >= 2 * uint64_t(counts.reactions));
  left -= 2 * uint64_t(counts.reactions);
  while (left > 0)
    left -= pairs.add(uint32_t(random.below(counts.reactions)), metabolite.draw(random));
  std::vector<uint32_t> sources, targets;
  pairs.for_each([&](uint32_t source, uint32_t target) {
    sources.push_back(source);
    targets.push_back(target);
  });
  auto coefficients = draw_coefficients(sources, Random(seed, kCoefficientStream));
  graph.add_edges(
      "reaction", "stoichiometry", "metabolite",
      to_array(std::move(sources), targets, std::max(counts.reactions, counts.metabolites)),
      {{"coefficient", Array::from(std::move(coefficients))}});
}

}  // namespace

std::string_view name(GraphSize size) {
  switch (size) {
    case GraphSize::tiny:
      return "tiny";
    case GraphSize::small:
      return "small";
    case GraphSize::yeast:
      return "yeast";
    case GraphSize::human:
      return "human";
  }
  LACUNA_ASSERT(false);
  return "";
}

GraphSize graph_size_from_name(std::string_view text) {
  for (const auto size : {GraphSize::tiny, GraphSize::small, GraphSize::yeast, GraphSize::human})
    if (name(size) == text) return size;
  throw Error("unknown size '{}'; it is tiny, small, yeast or human", text);
}

GraphCounts size_of(GraphSize size) {
  switch (size) {
    case GraphSize::tiny:
      return {
          40, {{"physical", 200}, {"regulatory", 120, true}, {"coexpression", 400, false, {30}}},
          20, 12,
          18, 60};
    case GraphSize::small:
      return {1000,
              {{"physical", 12'000},
               {"regulatory", 4'000, true},
               {"coexpression", 40'000, false, {700, 400}}},
              300,
              150,
              240,
              1'100};
    case GraphSize::yeast:
      return {6607,
              {{"physical", 144'211},
               {"regulatory", 44'310, true},
               {"tflink", 207'250, true, {4900}},
               {"neighborhood", 153'320},
               {"fusion", 18'394},
               {"cooccurence", 17'692},
               {"coexpression", 1'002'806, false, {5028, 3500, 2500}},
               {"experimental", 828'701, false, {4200, 3000}},
               {"database", 79'224}},
              7122,
              2806,
              5'450,
              26'325};
    case GraphSize::human:
      return {20'000,
              {{"regulatory", 200'000, true},
               {"database", 500'000},
               {"physical", 1'500'000},
               {"experimental", 4'000'000, false, {9000}},
               {"coexpression", 6'000'000, false, {15'000, 9000}}},
              0,
              0,
              0,
              0};
  }
  LACUNA_ASSERT(false);
  return {};
}

HeteroGraph generate_graph(GraphSize size, uint64_t seed) {
  const GraphCounts counts = size_of(size);
  HeteroGraph graph;
  graph.add_nodes("gene", numbered("G", counts.genes));
  if (counts.reactions > 0) graph.add_nodes("reaction", numbered("R", counts.reactions));
  if (counts.metabolites > 0) graph.add_nodes("metabolite", numbered("M", counts.metabolites));
  for (size_t t = 0; t < counts.types.size(); ++t)
    graph.add_edges("gene", counts.types[t].name, "gene",
                    gene_gene_edges(counts.genes, counts.types[t], Random(seed, t)));
  if (counts.reactions > 0) {
    add_gene_reaction_edges(graph, counts, Random(seed, kGeneReactionStream));
    add_reaction_metabolite_edges(graph, counts, seed);
  }
  return graph;
}

}  // namespace lacuna
