#include "lacuna/run/ensemble/ensemble_weights.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"

namespace lacuna {
namespace {

// The nearest point whose members are from 0 on and add up to 1.
std::vector<double> onto_simplex(const std::vector<double>& point) {
  std::vector<double> sorted = point;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0, shift = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    sum += sorted[i];
    const double candidate = (sum - 1) / double(i + 1);
    if (sorted[i] > candidate) shift = candidate;
  }
  std::vector<double> nearest;
  for (const double value : point) nearest.push_back(std::max(0.0, value - shift));
  const double total = std::accumulate(nearest.begin(), nearest.end(), 0.0);
  for (double& value : nearest) value /= total;
  return nearest;
}

}  // namespace

std::vector<double> best_weights(const std::vector<std::vector<float>>& members,
                                 std::span<const float> measured) {
  const size_t count = members.size();
  LACUNA_ASSERT(count > 0);
  // With weights of sum 1 the error is the weighted mean of the members' errors: gram[i, j] is the
  // mean product of those of i and j, and the weights minimise w^T gram w.
  std::vector<double> gram(count * count, 0.0), weights(count, 1 / double(count));
  double samples = 0;
  for (size_t s = 0; s < measured.size(); ++s) {
    if (std::isnan(measured[s])) continue;
    ++samples;
    for (size_t i = 0; i < count; ++i)
      for (size_t j = 0; j < count; ++j)
        gram[i * count + j] += (double(members[i][s]) - double(measured[s])) *
                               (double(members[j][s]) - double(measured[s]));
  }
  double trace = 0;  // at least the largest eigenvalue
  for (size_t i = 0; i < count; ++i) trace += gram[i * count + i];
  if (samples == 0 || !(trace > 0)) return weights;
  for (int step = 0; step < 20'000; ++step) {
    throw_if_stopped();
    std::vector<double> next = weights;
    for (size_t i = 0; i < count; ++i)
      for (size_t j = 0; j < count; ++j) next[i] -= gram[i * count + j] * weights[j] / trace;
    next = onto_simplex(next);
    double moved = 0;
    for (size_t i = 0; i < count; ++i) moved = std::max(moved, std::abs(next[i] - weights[i]));
    weights = std::move(next);
    if (moved < 1e-12) break;
  }
  return weights;
}

MeanAndSpread combine(const std::vector<std::vector<float>>& members,
                      std::span<const double> weights) {
  LACUNA_ASSERT(members.size() == weights.size() && !members.empty());
  MeanAndSpread result;
  for (size_t s = 0; s < members[0].size(); ++s) {
    double mean = 0, squares = 0;
    for (size_t m = 0; m < members.size(); ++m) mean += weights[m] * double(members[m][s]);
    for (size_t m = 0; m < members.size(); ++m) {
      const double apart = double(members[m][s]) - mean;
      squares += weights[m] * apart * apart;
    }
    result.mean.push_back(float(mean));
    result.spread.push_back(float(std::sqrt(squares)));
  }
  return result;
}

}  // namespace lacuna
