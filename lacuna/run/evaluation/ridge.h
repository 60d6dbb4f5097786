// Ridge regression on indicators (columns that a sample has or has not):
//
//   minimise over intercept and w:
//   sum over samples s weight[s] (y[s] - intercept - sum over columns c of s w[c])^2
//     + strength * sum w[c]^2
//
// A whole weight counts like as many copies of the sample. The intercept is not shrunk. Solved in
// double by conjugate gradients on the normal equations, scaled by their diagonal, until the
// gradient has fallen to 1e-9 of what it is at w = 0. On one thread and in a fixed order: the same
// bits on every run. A step costs one pass over the indicators.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lacuna {

// Sample s has the columns column[ptr[s] .. ptr[s + 1]), each at most once.
struct Indicators {
  uint32_t columns = 0;               // how many there are
  std::vector<uint64_t> ptr = {0};    // [S + 1]
  std::vector<uint32_t> column = {};  // [ptr[S]], each below `columns`

  uint64_t size() const { return ptr.size() - 1; }  // samples
  std::span<const uint32_t> of(uint64_t sample) const {
    return {column.data() + ptr[sample], ptr[sample + 1] - ptr[sample]};
  }
};

struct RidgeFit {
  double intercept = 0;
  std::vector<double> weights = {};  // [columns]; 0 for a column that no sample has
  int steps = 0;
};

inline constexpr int kRidgeSteps = 10'000;  // more than a few hundred are rare

// y: [S] finite, S > 0. strength > 0. start: [columns] weights to begin from (a fit of nearly the
// same strength saves steps), or empty: zeros. weights: [S] from 0 on, their sum above 0, or empty:
// all 1. Nothing where kRidgeSteps steps are not enough.
std::optional<RidgeFit> fit_ridge(const Indicators& x, std::span<const double> y, double strength,
                                  std::span<const double> start = {}, int most_steps = kRidgeSteps,
                                  std::span<const double> weights = {});

}  // namespace lacuna
