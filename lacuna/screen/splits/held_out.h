// What a split holds out, as the units that a bootstrap resamples (run/evaluation/bootstrap.h).
//
// How certain a score is depends on how many units were held out, not on how many samples: 3,000
// samples of five unseen query pairs say little about a sixth pair. The unit is what the split
// assigned to parts, as Split::how says:
//
//   random, stratified  samples; where repeats were kept together, the samples that remove the same
//                       set of genes are one unit
//   gene                genes that no training sample removes. A sample belongs to all of those
//                       that it removes, and weighs the product of their draws
//   pair                groups of samples that a common query pair keeps together
//                       (sample_groups.h), or the categories of the column that was given
//   category            the categories of the column; where test was named, as random
//
// A split of a subset has the unit of the split that it was taken from, and so has one of joined
// screens where all agree. Where the unit is not known (an imported split), or nothing was held
// out (the training part of a split by gene), samples are the units, and `why` says so. A sample
// without such a unit (a wild type in a split by gene) is a unit of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lacuna/screen/screen.h"

namespace lacuna {

struct HeldOutUnits {
  std::string unit = "samples";  // or "genes", "pairs", "categories of column 'query'", ...
  std::string why = {};          // why samples, where the split names another unit or none
  uint64_t count = 0;            // units
  // Sample i has the units units[ptr[i] .. ptr[i + 1]), each below `count`, at least one.
  std::vector<uint64_t> ptr = {0};   // [S + 1]
  std::vector<uint32_t> units = {};  // [ptr[S]]

  uint64_t size() const { return ptr.size() - 1; }  // samples
  std::span<const uint32_t> of(uint64_t i) const {
    return {units.data() + ptr[i], ptr[i + 1] - ptr[i]};
  }
};

// Every sample a unit of its own.
HeldOutUnits each_sample(uint64_t samples);

// The units of the chosen samples of one part of a split of this screen. Throws Error where the
// split names a column that the screen does not have.
HeldOutUnits held_out_units(const Screen& screen, const Split& split,
                            std::span<const uint64_t> chosen);

}  // namespace lacuna
