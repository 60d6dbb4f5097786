#include "lacuna/run/evaluation/network/column_ridge.h"

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

constexpr uint64_t kParts = 16;  // sums are taken in so many pieces, then in order

// body(part, begin, end), one for each part of [0, count)
template <class Body>
void in_parts(uint64_t count, int threads, Body&& body) {
  parallel_for(kParts, threads, [&](uint64_t part) {
    body(part, count * part / kParts, count * (part + 1) / kParts);
  });
}

std::vector<double> add_up(const std::vector<std::vector<double>>& parts) {
  std::vector<double> sum(parts[0].size(), 0.0);
  for (const auto& part : parts)
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  return sum;
}

// Solves a x = b for a symmetric, positive a: [n, n], of which the lower triangle is read.
std::vector<double> solve_cholesky(std::vector<double> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(sum) : sum / a[j * n + j];
    }
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

}  // namespace

ColumnRidge::ColumnRidge(std::span<const float> x, size_t columns, std::span<const double> y,
                         std::span<const double> weights, size_t unscaled, int threads)
    : columns_(columns) {
  const uint64_t n = y.size();
  LACUNA_ASSERT(n > 0 && x.size() == n * columns && weights.size() == n);
  double total = 0, sum_y = 0;
  for (uint64_t s = 0; s < n; ++s) {
    total += weights[s];
    sum_y += weights[s] * y[s];
  }
  mean_y_ = sum_y / total;
  std::vector<std::vector<double>> parts(kParts);
  in_parts(n, threads, [&](uint64_t part, uint64_t begin, uint64_t end) {
    parts[part].assign(columns, 0.0);
    for (uint64_t s = begin; s < end; ++s)
      for (size_t c = 0; c < columns; ++c)
        parts[part][c] += weights[s] * double(x[s * columns + c]);
  });
  mean_ = add_up(parts);
  for (double& mean : mean_) mean /= total;
  in_parts(n, threads, [&](uint64_t part, uint64_t begin, uint64_t end) {
    parts[part].assign(columns, 0.0);
    for (uint64_t s = begin; s < end; ++s)
      for (size_t c = 0; c < columns; ++c) {
        const double centred = double(x[s * columns + c]) - mean_[c];
        parts[part][c] += weights[s] * centred * centred;
      }
  });
  scale_ = add_up(parts);
  for (size_t c = 0; c < columns; ++c) {
    const double sd = std::sqrt(scale_[c] / total);
    const bool has_spread = sd > 1e-9 * std::max(std::abs(mean_[c]), 1e-9);
    scale_[c] = !has_spread ? 0.0 : c < unscaled ? 1.0 : sd;
  }
  // The lower triangle, and below it the right side.
  in_parts(n, threads, [&](uint64_t part, uint64_t begin, uint64_t end) {
    parts[part].assign((columns + 1) * columns, 0.0);
    std::vector<double> row(columns);
    for (uint64_t s = begin; s < end; ++s) {
      for (size_t c = 0; c < columns; ++c)
        row[c] = scale_[c] > 0 ? (double(x[s * columns + c]) - mean_[c]) / scale_[c] : 0.0;
      for (size_t i = 0; i <= columns; ++i) {
        const double factor = weights[s] * (i < columns ? row[i] : y[s] - mean_y_);
        double* out = parts[part].data() + i * columns;
        for (size_t j = 0; j < std::min(i + 1, columns); ++j) out[j] += factor * row[j];
      }
    }
  });
  gram_ = add_up(parts);
  right_.assign(gram_.end() - int64_t(columns), gram_.end());
  gram_.resize(columns * columns);
}

ColumnRidge::Fit ColumnRidge::fit(double strength) const {
  std::vector<double> a = gram_;
  for (size_t c = 0; c < columns_; ++c) a[c * columns_ + c] += strength;
  Fit fit = {mean_y_, solve_cholesky(std::move(a), right_)};
  for (size_t c = 0; c < columns_; ++c) {
    fit.weights[c] = scale_[c] > 0 ? fit.weights[c] / scale_[c] : 0.0;
    fit.intercept -= fit.weights[c] * mean_[c];
  }
  return fit;
}

double ColumnRidge::Fit::predict(std::span<const float> row) const {
  LACUNA_ASSERT(row.size() == weights.size());
  double sum = intercept;
  for (size_t c = 0; c < row.size(); ++c) sum += weights[c] * double(row[c]);
  return sum;
}

}  // namespace lacuna
