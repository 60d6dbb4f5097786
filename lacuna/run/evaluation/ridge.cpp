#include "lacuna/run/evaluation/ridge.h"

#include <cmath>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"

namespace lacuna {
namespace {

constexpr double kTolerance = 1e-9;

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Eliminating the intercept centres the columns: with X centred, (X^T X + strength) w = X^T y.
class NormalEquations {
 public:
  NormalEquations(const Indicators& x, std::span<const double> y, double strength,
                  std::span<const double> weights)
      : x_(x), y_(y), strength_(strength), weights_(weights), counts_(x.columns, 0.0) {
    for (uint64_t s = 0; s < x.size(); ++s) {
      for (uint32_t column : x.of(s)) counts_[column] += weight(s);
      samples_ += weight(s);
      mean_y_ += weight(s) * y[s];
    }
    mean_y_ /= samples_;
  }

  // X^T X w + strength w
  Vector apply(const Vector& w) const {
    const double mean = dot(counts_, w) / samples_;
    Vector out(w.size());
    for (size_t c = 0; c < w.size(); ++c) out[c] = strength_ * w[c];
    for (uint64_t s = 0; s < x_.size(); ++s) {
      throw_if_stopped();
      double sum = -mean;
      for (uint32_t column : x_.of(s)) sum += w[column];
      sum *= weight(s);
      for (uint32_t column : x_.of(s)) out[column] += sum;
    }
    return out;
  }

  Vector right_side() const {  // X^T y
    Vector out(counts_.size(), 0.0);
    for (uint64_t s = 0; s < x_.size(); ++s)
      for (uint32_t column : x_.of(s)) out[column] += weight(s) * (y_[s] - mean_y_);
    return out;
  }

  Vector diagonal() const {
    Vector out(counts_);
    for (double& count : out) count += strength_ - count * count / samples_;
    return out;
  }

  double intercept(const Vector& w) const { return mean_y_ - dot(counts_, w) / samples_; }

 private:
  double weight(uint64_t s) const { return weights_.empty() ? 1.0 : weights_[s]; }

  const Indicators& x_;
  std::span<const double> y_;
  double strength_, samples_ = 0, mean_y_ = 0;  // samples: the sum of their weights
  std::span<const double> weights_;
  Vector counts_;  // [columns] weight of the samples that have it
};

}  // namespace

std::optional<RidgeFit> fit_ridge(const Indicators& x, std::span<const double> y, double strength,
                                  std::span<const double> start, int most_steps,
                                  std::span<const double> weights) {
  LACUNA_ASSERT(x.size() == y.size() && !y.empty() && strength > 0);
  LACUNA_ASSERT(weights.empty() || weights.size() == y.size());
  LACUNA_ASSERT(start.empty() || start.size() == x.columns);
  const NormalEquations equations(x, y, strength, weights);
  const Vector right = equations.right_side(), diagonal = equations.diagonal();
  const size_t n = x.columns;
  RidgeFit fit;
  fit.weights.assign(n, 0.0);
  Vector residual = right, scaled(n), direction(n, 0.0);
  if (!start.empty()) {
    fit.weights.assign(start.begin(), start.end());
    const Vector product = equations.apply(fit.weights);
    for (size_t c = 0; c < n; ++c) residual[c] -= product[c];
  }
  const double enough = kTolerance * std::sqrt(dot(right, right));
  LACUNA_ASSERT(std::isfinite(enough));
  double last = 0;  // of residual . scaled
  while (std::sqrt(dot(residual, residual)) > enough) {
    if (++fit.steps > most_steps) return {};
    for (size_t c = 0; c < n; ++c) scaled[c] = residual[c] / diagonal[c];
    const double now = dot(residual, scaled);
    const double keep = last > 0 ? now / last : 0;
    last = now;
    for (size_t c = 0; c < n; ++c) direction[c] = scaled[c] + keep * direction[c];
    const Vector product = equations.apply(direction);
    const double length = now / dot(direction, product);
    for (size_t c = 0; c < n; ++c) {
      fit.weights[c] += length * direction[c];
      residual[c] -= length * product[c];
    }
  }
  fit.intercept = equations.intercept(fit.weights);
  return fit;
}

}  // namespace lacuna
