// Ridge regression on a few dense columns, for as many strengths as wanted from one pass:
//
//   minimise over intercept and w:
//   sum over samples s weight[s] (y[s] - intercept - sum over columns c u[s,c] w[c])^2
//     + strength * sum w[c]^2,     u[s,c] = (x[s,c] - mean[c]) / scale[c]
//
// mean and scale are the weighted mean and standard deviation of the column; a column without
// spread takes no part. The intercept is not shrunk. Solved in double by Cholesky. The same bits
// for any number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

class ColumnRidge {
 public:
  // x: [n, columns] row after row, n > 0. y, weights: [n], the weights from 0 on, their sum above
  // 0. The first `unscaled` columns keep their scale (1 in the formula).
  ColumnRidge(std::span<const float> x, size_t columns, std::span<const double> y,
              std::span<const double> weights, size_t unscaled = 0, int threads = 0);

  struct Fit {
    double intercept = 0;
    std::vector<double> weights;  // [columns], of the columns as they are given

    double predict(std::span<const float> row) const;  // [columns]
  };
  Fit fit(double strength) const;  // above 0

 private:
  size_t columns_;
  double mean_y_ = 0;
  std::vector<double> mean_, scale_;  // [columns]; scale 0: no spread
  std::vector<double> gram_;          // [columns, columns] lower triangle
  std::vector<double> right_;         // [columns]
};

}  // namespace lacuna
