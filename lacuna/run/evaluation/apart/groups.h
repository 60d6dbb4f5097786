// Samples of a part that are scored on their own, beside the part as a whole.
//
//   "unseen genes"  how many of a sample's genes training never removed: "none", "one", "several"
//                   (not all), "all"
//   "degree"        how many genes the unseen gene is linked to, in any network and either
//                   direction: "0", "1 to 9", "10 to 29", ..., "1000 or more". Of several unseen
//                   genes the one with the fewest links counts: the one of which least is known.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lacuna/graph/hetero_graph.h"
#include "lacuna/screen/samples.h"

namespace lacuna {

struct SampleGrouping {
  static constexpr uint8_t kNone = 255;
  std::string by;                  // as above
  std::vector<std::string> names;  // of the groups, in order
  std::vector<uint8_t> group;      // [S] a group, or kNone
};

// Whether a training sample of the split removes it: [genes].
std::vector<bool> seen_genes(const Samples& samples, uint32_t genes, const Split& split);

// Both groupings of the chosen samples; nothing where all of their genes were seen, no "degree"
// where the graph has no network of genes.
std::vector<SampleGrouping> group_samples(const Samples& samples, const HeteroGraph& graph,
                                          const std::vector<bool>& is_seen,
                                          std::span<const uint64_t> chosen);

}  // namespace lacuna
