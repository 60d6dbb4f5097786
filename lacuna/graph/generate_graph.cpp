#include "lacuna/graph/generate_graph.h"

#include <algorithm>
#include <bit>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/graph/heavy_tail.h"

namespace lacuna {
namespace {

// Streams of random numbers: one per gene-gene type, counted from 0, and these.
constexpr uint64_t kGeneReactionStream = 1000, kReactionMetaboliteStream = 1001,
                   kCoefficientStream = 1002;

// Which pairs are edges, one bit per pair: repeats are noticed at once and a scan gives the edges
// in order. 50 MB for 20,000 genes.
class Pairs {
 public:
  Pairs(uint32_t sources, uint32_t targets)
      : sources_(sources), words_a_row_((targets + 63) / 64), words_(sources * words_a_row_, 0) {}

  bool has(uint32_t source, uint32_t target) const {
    return words_[word(source, target)] & bit(target);
  }
  // False where the pair was there already.
  bool add(uint32_t source, uint32_t target) {
    if (has(source, target)) return false;
    words_[word(source, target)] |= bit(target);
    return true;
  }
  void remove(uint32_t source, uint32_t target) { words_[word(source, target)] &= ~bit(target); }

  template <class Visit>
  void for_each(Visit visit) const {
    for (uint32_t source = 0; source < sources_; ++source)
      for (uint64_t w = 0; w < words_a_row_; ++w)
        for (uint64_t word = words_[source * words_a_row_ + w]; word != 0; word &= word - 1)
          visit(source, uint32_t(w * 64 + uint64_t(std::countr_zero(word))));
  }

 private:
  uint64_t word(uint32_t source, uint32_t target) const {
    return source * words_a_row_ + target / 64;
  }
  static uint64_t bit(uint32_t target) { return uint64_t(1) << target % 64; }

  uint32_t sources_;
  uint64_t words_a_row_;
  std::vector<uint64_t> words_;
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

// The module of a gene is its number modulo their count. A gene drawn as the partner of `gene`: of
// its own module with this probability, else any.
constexpr double kWithinModule = 0.8;
uint32_t draw_partner(uint32_t gene, uint32_t modules, const HeavyTail& partners, Random& random) {
  const bool within = modules > 0 && random.uniform() < kWithinModule;
  return within ? partners.draw_within(gene % modules, random) : partners.draw(random);
}

// Draws pairs until `wanted` edges are there. An undirected pair is two edges, except a last single
// one. draw_target gets the source.
template <class DrawSource, class DrawTarget>
void fill(Pairs& pairs, uint64_t wanted, bool directed, DrawSource draw_source,
          DrawTarget draw_target) {
  while (wanted > 0) {
    const uint32_t source = draw_source(), target = draw_target(source);
    if (source == target || !pairs.add(source, target)) continue;
    --wanted;
    if (!directed && wanted > 0 && pairs.add(target, source)) --wanted;
  }
}

void fill_with_tail(Pairs& pairs, uint32_t genes, const GeneEdgeCounts& counts, uint32_t modules,
                    Random& random) {
  const std::vector<uint32_t> order = shuffled(genes, random);
  const auto hubs_end = order.begin() + std::ptrdiff_t(counts.hubs.size());
  const std::vector<uint32_t> others(hubs_end, order.end());
  const auto any = [&](uint32_t) { return others[random.below(others.size())]; };
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
    const HeavyTail target(shuffled(genes, random), modules);
    fill(
        pairs, left, true, [&] { return source.draw(random); },
        [&](uint32_t gene) { return draw_partner(gene, modules, target, random); });
  } else {
    const HeavyTail end(others, modules);
    fill(
        pairs, left, false, [&] { return end.draw(random); },
        [&](uint32_t gene) { return draw_partner(gene, modules, end, random); });
  }
}

using GenePair = std::pair<uint32_t, uint32_t>;

// `count` genes in rounds, each round all genes in an order of its own: how often they come up
// differs by one at most.
std::vector<uint32_t> in_rounds(uint32_t genes, uint64_t count, Random& random) {
  std::vector<uint32_t> all;
  all.reserve(count + genes);
  while (all.size() < count) {
    const std::vector<uint32_t> round = shuffled(genes, random);
    all.insert(all.end(), round.begin(), round.end());
  }
  all.resize(count);
  return all;
}

// An undirected link takes both its ends from the same rounds. Some may repeat, or link a gene to
// itself.
std::vector<GenePair> draw_even_links(uint32_t genes, uint64_t count, bool directed,
                                      Random& random) {
  std::vector<GenePair> links(count);
  if (directed) {
    const auto sources = in_rounds(genes, count, random), targets = in_rounds(genes, count, random);
    for (uint64_t i = 0; i < count; ++i) links[i] = {sources[i], targets[i]};
  } else {
    const auto ends = in_rounds(genes, 2 * count, random);
    for (uint64_t i = 0; i < count; ++i) links[i] = {ends[2 * i], ends[2 * i + 1]};
  }
  return links;
}

// The same degrees for all. A link that repeats another, or is a loop, exchanges partners with an
// accepted one, which leaves all degrees as they are.
void fill_evenly(Pairs& pairs, uint32_t genes, const GeneEdgeCounts& counts, Random& random) {
  const uint64_t edges = counts.edges - genes;         // without the self loops
  LACUNA_ASSERT(edges < uint64_t(genes) * genes / 3);  // so that an exchange is soon found
  const auto can_be = [&](uint32_t a, uint32_t b) { return a != b && !pairs.has(a, b); };
  const auto add = [&](const GenePair& link) {
    pairs.add(link.first, link.second);
    if (!counts.directed) pairs.add(link.second, link.first);
  };
  const auto remove = [&](const GenePair& link) {
    pairs.remove(link.first, link.second);
    if (!counts.directed) pairs.remove(link.second, link.first);
  };
  std::vector<GenePair> there, left;
  const uint64_t count = counts.directed ? edges : (edges + 1) / 2;
  for (const GenePair& link : draw_even_links(genes, count, counts.directed, random)) {
    const bool fits = can_be(link.first, link.second);
    if (fits) add(link);
    (fits ? there : left).push_back(link);
  }
  while (!left.empty()) {
    GenePair& link = left.back();
    GenePair& other = there[random.below(there.size())];
    if (!can_be(link.first, other.second) || !can_be(other.first, link.second)) continue;
    remove(other);
    std::swap(link.second, other.second);
    add(other);
    add(link);
    there.push_back(link);
    left.pop_back();
  }
  if (!counts.directed && edges % 2 == 1) pairs.remove(there.back().second, there.back().first);
}

Array gene_gene_edges(uint32_t genes, const GeneEdgeCounts& counts, bool even, uint32_t modules,
                      Random random) {
  Pairs pairs(genes, genes);
  if (even)
    fill_evenly(pairs, genes, counts, random);
  else
    fill_with_tail(pairs, genes, counts, modules, random);
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

// Edges come reaction by reaction: the second edge of a reaction gets the opposite sign of the
// first.
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
    case GraphSize::mini:
      return "mini";
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
  for (const auto size :
       {GraphSize::tiny, GraphSize::mini, GraphSize::small, GraphSize::yeast, GraphSize::human})
    if (name(size) == text) return size;
  throw Error("unknown size '{}'; it is tiny, mini, small, yeast or human", text);
}

GraphCounts size_of(GraphSize size) {
  switch (size) {
    case GraphSize::tiny:
      return {
          40, {{"physical", 200}, {"regulatory", 120, true}, {"coexpression", 400, false, {30}}},
          20, 12,
          18, 60};
    case GraphSize::mini:
      return {
          120, {{"physical", 360}, {"regulatory", 360, true}, {"coexpression", 1'080, false, {60}}},
          60,  30,
          50,  200};
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

uint32_t most_modules(GraphSize size) { return size_of(size).genes / 8; }

HeteroGraph generate_graph(GraphSize size, uint64_t seed, std::string_view even_type,
                           uint32_t modules) {
  const GraphCounts counts = size_of(size);
  if (modules > most_modules(size))
    throw UsageError("{} modules are too many at size {}; give at most {}", modules, name(size),
                     most_modules(size));
  const auto is_even = [&](const GeneEdgeCounts& type) { return type.name == even_type; };
  if (!even_type.empty() && std::ranges::none_of(counts.types, is_even))
    throw Error("there is no gene-gene type '{}' to make even", even_type);
  HeteroGraph graph;
  graph.add_nodes("gene", numbered("G", counts.genes));
  if (counts.reactions > 0) graph.add_nodes("reaction", numbered("R", counts.reactions));
  if (counts.metabolites > 0) graph.add_nodes("metabolite", numbered("M", counts.metabolites));
  for (size_t t = 0; t < counts.types.size(); ++t)
    graph.add_edges("gene", counts.types[t].name, "gene",
                    gene_gene_edges(counts.genes, counts.types[t], is_even(counts.types[t]),
                                    modules, Random(seed, t)));
  if (counts.reactions > 0) {
    add_gene_reaction_edges(graph, counts, Random(seed, kGeneReactionStream));
    add_reaction_metabolite_edges(graph, counts, seed);
  }
  return graph;
}

}  // namespace lacuna
