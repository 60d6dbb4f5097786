// Where a model is wrong: errors of its predictions by removed gene and by pair of removed genes.
//
// The error of a sample is predicted minus measured. It counts for every gene that the sample
// removes and for every pair of them. Samples without a measurement, or whose prediction is not
// finite, are left out.
//
// Genes differ in how much there is to predict: an error of 0.05 is a failure for a gene whose
// labels all lie within 0.02, and a success for one that spans 1. So genes are ranked by their
// error (root of the mean square) over the spread of their measurements (standard deviation): 1 is
// what the gene's own mean would reach. Pairs have few samples, and no spread to speak of: they are
// ranked by their mean absolute error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/screen/screen.h"

namespace lacuna::report {

struct GroupError {
  std::vector<uint32_t> genes;  // one, or two
  uint64_t count = 0;
  double mean_absolute = 0, mean = 0;
  double measured = 0, predicted = 0;  // means
  double spread = 0;                   // standard deviation of the measurements
  double relative = 0;  // root of the mean squared error / spread; NaN without spread
};

// The groups (genes, or pairs) with at least `least` samples.
struct GroupErrors {
  std::vector<GroupError>
      worst;                // genes by `relative`, pairs by `mean_absolute`; the largest first
  std::vector<double> all;  // [groups] the same of all of them, descending; NaN at the end
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
