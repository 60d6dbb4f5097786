// Samples that nobody has measured, and what was measured near them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lacuna/run/explanation/explanation.h"
#include "lacuna/screen/screen.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna {

struct UnmeasuredSets {
  std::vector<std::vector<uint32_t>> sets;  // each ascending
  double possible = 0;                      // sets of as many genes, measured ones included
};
// Sets of genes that no sample removes: as many genes as most samples remove, all of them genes
// that some sample removes. All such sets where there are at most `most`, else so many drawn at
// random (fewer where nearly all are measured). given: a gene that every set has. Throws Error
// where no sample removes a gene.
UnmeasuredSets unmeasured_sets(const Screen& screen, std::optional<uint32_t> given, uint64_t most,
                               uint64_t seed);

// The neighbours of some genes in every gene network, in either direction.
class GeneNeighbours {
 public:
  // Reads all edges once. genes: whose neighbours are wanted.
  GeneNeighbours(const HeteroGraph& graph, std::span<const uint32_t> genes);
  const std::vector<std::string>& networks() const { return networks_; }
  // The numbers of the networks in which the two are neighbours; `gene` is one of those of the
  // constructor.
  std::vector<size_t> between(uint32_t gene, uint32_t other) const;

 private:
  std::vector<std::string> networks_;
  std::map<uint32_t, std::map<uint32_t, std::vector<size_t>>> of_;
};

// The training samples that differ from `genes` in one gene, by a neighbour of it: at most `shown`,
// those with the largest |label| first. A sample without this label is none.
std::vector<MeasuredNeighbour> measured_neighbours(const Screen& screen, const Split& split,
                                                   const SamplesOfGenes& samples_of,
                                                   const GeneNeighbours& neighbours,
                                                   std::span<const uint32_t> genes, uint64_t label,
                                                   size_t shown);

}  // namespace lacuna
