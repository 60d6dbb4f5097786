// For tests only: fits to compare with.
#pragma once

#include <cmath>
#include <vector>

#include "lacuna/run/evaluation/ridge.h"

namespace lacuna {

// The dense normal equations with a column of ones in front, by Gaussian elimination.
// weights: [S], or empty: all 1
inline std::vector<double> dense_ridge(const Indicators& x, const std::vector<double>& y,
                                       double strength, const std::vector<double>& weights = {}) {
  const size_t n = x.columns + 1;
  std::vector<std::vector<double>> a(n, std::vector<double>(n + 1, 0.0));
  for (size_t c = 1; c < n; ++c) a[c][c] = strength;
  for (uint64_t s = 0; s < x.size(); ++s) {
    std::vector<double> row(n, 0.0);
    row[0] = 1;
    for (uint32_t column : x.of(s)) row[column + 1] = 1;
    const double weight = weights.empty() ? 1 : weights[s];
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) a[i][j] += weight * row[i] * row[j];
      a[i][n] += weight * row[i] * y[s];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    size_t pivot = i;
    for (size_t r = i; r < n; ++r)
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    std::swap(a[i], a[pivot]);
    for (size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (size_t j = i; j <= n; ++j) a[r][j] -= factor * a[i][j];
    }
  }
  std::vector<double> solution;
  for (size_t i = 0; i < n; ++i) solution.push_back(a[i][n] / a[i][i]);
  return solution;  // intercept, weights
}

}  // namespace lacuna
