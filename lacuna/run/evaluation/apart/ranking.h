// How early a ranking has the few samples that it is to find (the tail).
//
// Samples of equal strength count together: none of them comes before the others. A sample of
// weight w counts like w copies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/run/evaluation/metrics.h"

namespace lacuna {

// NaN where there is no sample of the tail, or no other, or where a strength is NaN.
struct Found {
  double auroc = kNotDefined;  // 0.5 by chance; of equals half are in order
  // The mean, over the tail, of the share of the tail among all that rank at least as high.
  double average_precision = kNotDefined;
  double tail = 0;  // weight of the tail
};

class Ranking {
 public:
  // strength: [S], the highest ranks first.
  explicit Ranking(std::span<const double> strength);

  // is_tail, weights: [S]
  Found found(const std::vector<bool>& is_tail, std::span<const double> weights) const;
  // The share of the tail among the first samples of weight k > 0, of equals at the end what is
  // expected; NaN where all weigh less, or where a strength is NaN.
  double precision_at(double k, const std::vector<bool>& is_tail,
                      std::span<const double> weights) const;

 private:
  struct Equals {
    double weight = 0, tail = 0;  // of all, of those in the tail
  };
  Equals equals(size_t group, const std::vector<bool>& is_tail,
                std::span<const double> weights) const;

  std::vector<uint32_t> order_;  // [S] the strongest first
  std::vector<uint32_t> ptr_;    // [groups of equals + 1], into order_
  bool has_nan_ = false;
};

// The value that a share of the finite values (0.05), at least one of them, lies at or below (at or
// above); NaN where there is none.
double lower_threshold(std::span<const float> measured, double share);
double upper_threshold(std::span<const float> measured, double share);

}  // namespace lacuna
