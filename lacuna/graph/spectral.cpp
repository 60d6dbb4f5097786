#include "lacuna/graph/spectral.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/system/stop.h"

namespace lacuna {
namespace {

constexpr double kResidual = 1e-9;  // of the largest eigenvalue of A A^T
// Where many values are nearly equal the search is slow, and which of their mixtures it finds
// matters to nobody: after kRounds this is enough.
constexpr double kEnough = 1e-3;
constexpr double kSmallest = 1e-7;       // of the largest singular value: below it counts as 0
constexpr size_t kSpare = 8;             // vectors beyond those that are asked for
constexpr int kDepth = 4, kRounds = 40;  // powers of A A^T in a space; spaces

using Vectors = std::vector<std::vector<double>>;  // each [N]

// In eight sums side by side, so that an addition need not wait for the one before.
double dot(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr size_t kSums = 8;
  double sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= a.size(); i += kSums)
    for (size_t j = 0; j < kSums; ++j) sums[j] += a[i + j] * b[i + j];
  for (; i < a.size(); ++i) sums[i % kSums] += a[i] * b[i];
  return std::accumulate(sums, sums + kSums, 0.0);
}

void subtract(double factor, const std::vector<double>& from, std::vector<double>& x) {
  for (size_t i = 0; i < x.size(); ++i) x[i] -= factor * from[i];
}

// A, as edges with their normalised weights.
class Adjacency {
 public:
  explicit Adjacency(const WeightedEdges& edges)
      : edges_(edges), weights_(edges.sources.size(), 1) {
    std::vector<double> leaving(edges.nodes, 0), arriving(edges.nodes, 0);
    for (size_t e = 0; e < weights_.size(); ++e) {
      if (!edges.weights.empty()) weights_[e] = double(edges.weights[e]);
      if (!std::isfinite(weights_[e])) throw Error("edge {} has the value {}", e, weights_[e]);
      leaving[edges.sources[e]] += std::abs(weights_[e]);
      arriving[edges.targets[e]] += std::abs(weights_[e]);
    }
    for (size_t e = 0; e < weights_.size(); ++e)
      if (weights_[e] != 0)
        weights_[e] /= std::sqrt(leaving[edges.sources[e]] * arriving[edges.targets[e]]);
  }

  // A A^T x
  std::vector<double> twice(const std::vector<double>& x) const {
    std::vector<double> back(x.size(), 0), forth(x.size(), 0);
    for (size_t e = 0; e < weights_.size(); ++e)
      back[edges_.sources[e]] += weights_[e] * x[edges_.targets[e]];
    for (size_t e = 0; e < weights_.size(); ++e)
      forth[edges_.targets[e]] += weights_[e] * back[edges_.sources[e]];
    return forth;
  }

 private:
  WeightedEdges edges_;
  std::vector<double> weights_;  // [E]
};

// Makes x orthogonal to the basis, twice for the sake of rounding, and adds it with length 1; not
// where next to nothing is left of it.
void add_to_basis(std::vector<double> x, Vectors& basis) {
  const double before = std::sqrt(dot(x, x));
  for (int pass = 0; pass < 2; ++pass)
    for (const auto& other : basis) subtract(dot(other, x), other, x);
  const double length = std::sqrt(dot(x, x));
  if (!(length > 1e-10 * before)) return;
  for (double& number : x) number /= length;
  basis.push_back(std::move(x));
}

// Eigenvalues and vectors of a symmetric matrix [n, n] by Jacobi's rotations; vectors[k] is of
// values[k], descending.
struct SmallEigen {
  std::vector<double> values;
  Vectors vectors;

  explicit SmallEigen(std::vector<double> a, size_t n) {
    std::vector<double> v(n * n, 0);
    for (size_t i = 0; i < n; ++i) v[i * n + i] = 1;
    double all = 0;
    for (const double number : a) all += number * number;
    for (int sweep = 0; sweep < 60; ++sweep) {
      double off = 0;
      for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < i; ++j) off += a[i * n + j] * a[i * n + j];
      if (off <= 1e-30 * all) break;
      for (size_t p = 0; p + 1 < n; ++p)
        for (size_t q = p + 1; q < n; ++q) rotate(a, v, n, p, q);
    }
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t i, size_t j) { return a[i * n + i] > a[j * n + j]; });
    for (const size_t k : order) {
      values.push_back(a[k * n + k]);
      vectors.emplace_back(n);
      for (size_t i = 0; i < n; ++i) vectors.back()[i] = v[k * n + i];
    }
  }

 private:
  // a -> R a R^T, with rows of v turned alike, so that a[p, q] becomes 0
  static void rotate(std::vector<double>& a, std::vector<double>& v, size_t n, size_t p, size_t q) {
    const double off = a[p * n + q];
    if (off == 0) return;
    const double theta = (a[q * n + q] - a[p * n + p]) / (2 * off);
    const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
    const double c = 1 / std::sqrt(t * t + 1), s = t * c;
    const auto turn = [&](double& x, double& y) {
      const double left = x, right = y;
      x = c * left - s * right;
      y = s * left + c * right;
    };
    for (size_t i = 0; i < n; ++i) turn(a[i * n + p], a[i * n + q]);
    for (size_t i = 0; i < n; ++i) turn(a[p * n + i], a[q * n + i]);
    for (size_t i = 0; i < n; ++i) turn(v[p * n + i], v[q * n + i]);
  }
};

// The best vectors of a space for A A^T.
struct Ritz {
  std::vector<double> values;  // descending, of A A^T
  Vectors vectors;
  double residual = 0;  // the largest of the first `count`
};

Ritz best_of_space(const Adjacency& a, const Vectors& basis, size_t keep, size_t count) {
  const size_t n = basis.size();
  Vectors images;
  for (const auto& x : basis) images.push_back(a.twice(x));
  std::vector<double> small(n * n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j <= i; ++j) small[i * n + j] = small[j * n + i] = dot(basis[i], images[j]);
  const SmallEigen eigen(std::move(small), n);
  Ritz best;
  for (size_t k = 0; k < std::min(keep, n); ++k) {
    std::vector<double> x(basis[0].size(), 0), rest(basis[0].size(), 0);
    for (size_t i = 0; i < n; ++i) {
      subtract(-eigen.vectors[k][i], basis[i], x);
      subtract(-eigen.vectors[k][i], images[i], rest);
    }
    subtract(eigen.values[k], x, rest);
    if (k < count) best.residual = std::max(best.residual, std::sqrt(dot(rest, rest)));
    best.values.push_back(eigen.values[k]);
    best.vectors.push_back(std::move(x));
  }
  return best;
}

Vectors first_vectors(uint32_t nodes, size_t count) {
  Random random(1);
  Vectors basis;
  for (size_t k = 0; k < count; ++k) {
    std::vector<double> x(nodes);
    for (double& number : x) number = random.normal();
    add_to_basis(std::move(x), basis);
  }
  return basis;
}

Vectors krylov_space(const Adjacency& a, const Vectors& start) {
  Vectors basis, last = start;
  for (int power = 0; power < kDepth; ++power) {
    const size_t before = basis.size();
    for (auto& x : last) add_to_basis(std::move(x), basis);
    last.clear();
    for (size_t i = before; i < basis.size() && power + 1 < kDepth; ++i)
      last.push_back(a.twice(basis[i]));
  }
  return basis;
}

}  // namespace

SingularPairs largest_singular_pairs(const WeightedEdges& edges, uint32_t count) {
  if (count == 0 || count > edges.nodes)
    throw Error("{} spectral features are asked for, of a network with {} genes; ask for 1 to {}",
                count, edges.nodes, edges.nodes);
  const Adjacency a(edges);
  const size_t block = std::min<size_t>(count + kSpare, edges.nodes);
  Ritz best;
  best.vectors = first_vectors(edges.nodes, block);
  for (int round = 0; round < kRounds; ++round) {
    throw_if_stopped();
    best = best_of_space(a, krylov_space(a, best.vectors), block, count);
    if (best.residual <= kResidual * best.values[0]) break;
  }
  if (best.residual > kEnough * best.values[0])
    throw Error("{} spectral features were not found in {} rounds; ask for fewer", count, kRounds);
  SingularPairs result;
  const double largest = std::sqrt(std::max(best.values[0], 0.0));
  for (size_t k = 0; k < count; ++k) {
    double value = k < best.values.size() ? std::sqrt(std::max(best.values[k], 0.0)) : 0;
    if (value <= kSmallest * largest) value = 0;
    result.values.push_back(value);
    std::vector<double> x = value > 0 ? best.vectors[k] : std::vector<double>(edges.nodes, 0);
    const auto top = std::ranges::max_element(
        x, [](double p, double q) { return std::abs(p) < std::abs(q) * (1 - 1e-9); });
    if (*top < 0)
      for (double& number : x) number = -number;
    result.vectors.insert(result.vectors.end(), x.begin(), x.end());
  }
  return result;
}

}  // namespace lacuna
