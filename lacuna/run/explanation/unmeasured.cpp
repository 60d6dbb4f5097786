#include "lacuna/run/explanation/unmeasured.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"

namespace lacuna {
namespace {

using GeneSet = std::vector<uint32_t>;  // ascending

// How many genes most samples remove, and the genes that some sample removes.
struct ScreenShape {
  size_t size = 0;
  std::vector<uint32_t> genes;
};

ScreenShape shape_of(const Screen& screen) {
  GeneSets sets(screen);
  std::vector<bool> is_removed(screen.graph().genes().size());
  std::map<size_t, uint64_t> counts;
  for (uint64_t sample = 0; sample < sets.size(); ++sample) {
    const auto& genes = sets.read(sample);
    if (!genes.empty()) ++counts[genes.size()];
    for (const uint32_t gene : genes) is_removed[gene] = true;
  }
  if (counts.empty())
    throw Error("no sample of {} removes a gene: there is nothing to predict beside it",
                screen.path().string());
  ScreenShape shape;
  shape.size = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                 return a.second < b.second;
               })->first;
  for (uint32_t gene = 0; gene < is_removed.size(); ++gene)
    if (is_removed[gene]) shape.genes.push_back(gene);
  return shape;
}

std::set<GeneSet> measured_sets(const Screen& screen, size_t size, std::optional<uint32_t> given) {
  GeneSets sets(screen);
  std::set<GeneSet> measured;
  for (uint64_t sample = 0; sample < sets.size(); ++sample) {
    const auto& genes = sets.read(sample);
    if (genes.size() != size) continue;
    if (given && !std::binary_search(genes.begin(), genes.end(), *given)) continue;
    measured.insert(genes);
  }
  return measured;
}

double binomial(double n, size_t k) {
  double result = 1;
  for (size_t i = 0; i < k; ++i) result *= (n - double(i)) / double(i + 1);
  return n < double(k) ? 0 : std::round(result);
}

// The set of the genes at these places, with the given one.
GeneSet set_at(const std::vector<uint32_t>& genes, const std::vector<size_t>& places,
               std::optional<uint32_t> given) {
  GeneSet set;
  for (const size_t place : places) set.push_back(genes[place]);
  if (given) set.push_back(*given);
  std::sort(set.begin(), set.end());
  return set;
}

// The next combination of places below n, in order; false after the last.
bool advance(std::vector<size_t>& places, size_t n) {
  for (size_t i = places.size(); i-- > 0;) {
    if (places[i] + (places.size() - i) >= n) continue;
    ++places[i];
    for (size_t j = i + 1; j < places.size(); ++j) places[j] = places[j - 1] + 1;
    return true;
  }
  return false;
}

std::vector<size_t> draw_places(Random& random, size_t count, size_t n) {
  std::vector<size_t> places;
  while (places.size() < count) {
    const size_t place = random.below(n);
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  return places;
}

}  // namespace

UnmeasuredSets unmeasured_sets(const Screen& screen, std::optional<uint32_t> given, uint64_t most,
                               uint64_t seed) {
  ScreenShape shape = shape_of(screen);
  const std::set<GeneSet> measured = measured_sets(screen, shape.size, given);
  if (given) std::erase(shape.genes, *given);
  const size_t drawn = shape.size - (given ? 1 : 0), n = shape.genes.size();
  UnmeasuredSets result;
  result.possible = binomial(double(n), drawn);
  if (n < drawn) return result;
  if (result.possible <= double(most)) {
    std::vector<size_t> places(drawn);
    for (size_t i = 0; i < drawn; ++i) places[i] = i;
    do {
      GeneSet set = set_at(shape.genes, places, given);
      if (!measured.contains(set)) result.sets.push_back(std::move(set));
    } while (advance(places, n));
    return result;
  }
  Random random(seed);
  std::set<GeneSet> chosen;
  for (uint64_t tries = 0; chosen.size() < most && tries < 20 * most; ++tries) {
    GeneSet set = set_at(shape.genes, draw_places(random, drawn, n), given);
    if (!measured.contains(set)) chosen.insert(std::move(set));
  }
  result.sets.assign(chosen.begin(), chosen.end());
  return result;
}

GeneNeighbours::GeneNeighbours(const HeteroGraph& graph, std::span<const uint32_t> genes) {
  for (const uint32_t gene : genes) of_[gene];
  for (const EdgeType* type : graph.gene_edges()) {
    const size_t network = networks_.size();
    networks_.push_back(type->name);
    const auto add = [&](uint32_t gene, uint32_t other) {
      const auto found = of_.find(gene);
      if (found == of_.end() || gene == other) return;
      auto& known = found->second[other];
      if (known.empty() || known.back() != network) known.push_back(network);
    };
    const auto sources = type->sources(), targets = type->targets();
    for (size_t e = 0; e < sources.size(); ++e) {
      add(sources[e], targets[e]);
      add(targets[e], sources[e]);
    }
  }
}

std::vector<size_t> GeneNeighbours::between(uint32_t gene, uint32_t other) const {
  const auto& known = of_.at(gene);
  const auto found = known.find(other);
  return found == known.end() ? std::vector<size_t>{} : found->second;
}

std::vector<MeasuredNeighbour> measured_neighbours(const Screen& screen, const Split& split,
                                                   const SamplesOfGenes& samples_of,
                                                   const GeneNeighbours& neighbours,
                                                   std::span<const uint32_t> genes, uint64_t label,
                                                   size_t shown) {
  const Names& names = screen.graph().genes().names;
  const auto parts = split.parts.as<uint8_t>();
  const auto labels = screen.samples().labels.as<float>();
  GeneSets sets(screen);
  std::vector<MeasuredNeighbour> found;
  const auto look_at = [&](uint32_t gene, const GeneSet& others, uint64_t sample) {
    if (sample >= parts.size() || Part(parts[sample]) != Part::train) return;
    const auto& removed = sets.read(sample);
    if (removed.size() != genes.size() ||
        !std::includes(removed.begin(), removed.end(), others.begin(), others.end()))
      return;
    const double value = double(labels[sample * screen.samples().label_count() + label]);
    GeneSet rest;
    std::set_difference(removed.begin(), removed.end(), others.begin(), others.end(),
                        std::back_inserter(rest));
    if (rest.size() != 1 || !std::isfinite(value)) return;
    MeasuredNeighbour neighbour = {names[gene], names[rest[0]], {}, value};
    for (const size_t network : neighbours.between(gene, rest[0]))
      neighbour.networks.push_back(neighbours.networks()[network]);
    if (!neighbour.networks.empty()) found.push_back(std::move(neighbour));
  };
  for (const uint32_t gene : genes) {
    GeneSet others;
    for (const uint32_t other : genes)
      if (other != gene) others.push_back(other);
    std::sort(others.begin(), others.end());
    if (!others.empty()) {
      for (const uint32_t sample : samples_of.of(others[0])) look_at(gene, others, sample);
    } else {
      for (uint64_t sample = 0; sample < sets.size(); ++sample) look_at(gene, others, sample);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const MeasuredNeighbour& a, const MeasuredNeighbour& b) {
                     return std::abs(a.measured) > std::abs(b.measured);
                   });
  if (found.size() > shown) found.resize(shown);
  return found;
}

}  // namespace lacuna
