// What a split did that was perhaps not meant, in words for people.
#pragma once

#include <string>
#include <vector>

#include "lacuna/screen/screen.h"

namespace lacuna {

// From Split::how, as draw_split() (split.h) leaves it; none for other splits:
//   - a part that misses the asked share by more than a tenth of it (and by more than one sample),
//     with the reason and what would help
//   - a split by pair or category that kept nothing together, so that it is a random one
//   - samples that are unused because the held-out categories have the same sets of genes
std::vector<std::string> split_notes(const Split& split);

// Samples of validation and test whose set of genes training has too: a label that could be looked
// up.
struct SharedSets {
  uint64_t validation = 0, test = 0;                  // samples
  std::string words(const std::string& split) const;  // empty where there are none
};
SharedSets count_shared_sets(const Samples& samples, uint32_t gene_count, const Split& split);

}  // namespace lacuna
