// Where a model is wrong: errors of its predictions by removed gene and by pair of removed genes.
//
// The error of a sample is predicted minus measured. It counts for every gene that the sample
// removes and for every pair of them. Samples without a measurement, or whose prediction is not
// finite, are left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/screen/screen.h"

namespace lacuna::report {

struct GroupError {
  std::string name;  // "YAL001C", "YAL001C + YBR020W"
  uint64_t count = 0;
  double mean_absolute = 0, mean = 0;
};

// The groups (genes, or pairs) with at least `least` samples.
struct GroupErrors {
  std::vector<GroupError> worst;      // by mean absolute error, the largest first
  std::vector<double> mean_absolute;  // [groups] of all of them, in no given order
  uint64_t least = 1;
  uint64_t groups = 0, smaller = 0;  // with at least that many samples, and with fewer
};
struct ErrorsByGene {
  uint64_t samples = 0;
  double mean_absolute = 0;  // over samples
  GroupErrors genes, pairs;
  uint64_t all_pairs = 0;           // of all samples together
  bool has_too_many_pairs = false;  // for `pairs`, which is empty then
};
inline constexpr uint64_t kMostErrorPairs = 50'000'000;

// A mean over one or two samples is mostly noise, so genes need 5 samples and pairs 3 to be ranked;
// where no group has so many, all are. Throws Error when a prediction is of a sample that the
// screen does not have. 16 bytes of memory for every pair of every sample, twice while they are
// sorted; where there are more than `most_pairs`, pairs are left out.
ErrorsByGene errors_by_gene(const Screen& screen, const PartPredictions& predictions,
                            uint64_t label, size_t shown = 15,
                            uint64_t most_pairs = kMostErrorPairs);

}  // namespace lacuna::report
