#include "lacuna/run/evaluation/linear_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/run/evaluation/recording_scores.h"

namespace lacuna {
namespace {

constexpr double kStrengths[] = {1e-3, 1e-2, 1e-1, 1, 10};  // times the features' mean power
constexpr double kFloors[] = {0.02, 0.1, 0.3};              // times the unit's mean rate
constexpr double kLeastFloor = 1e-5;

using Rows = std::vector<uint64_t>;

// X^T X [F, F] (lower half) and X^T y [units, F], centred, of some rows.
struct Normal {
  std::vector<double> gram, right;
  std::vector<double> mean_x, mean_y;  // [F], [units]
  double power = 0;                    // mean of the diagonal
};

std::vector<double> mean_counts(const LinearFieldsInput& in, const Rows& rows) {
  std::vector<double> sum(in.units, 0.0), count(in.units, 0.0);
  for (const uint64_t r : rows)
    for (uint64_t u = 0; u < in.units; ++u)
      if (in.validity[r * in.units + u]) {
        sum[u] += in.counts[r * in.units + u];
        count[u] += 1;
      }
  for (uint64_t u = 0; u < in.units; ++u) sum[u] /= std::max(count[u], 1.0);
  return sum;
}

Normal normal_equations(const LinearFieldsInput& in, const Rows& rows) {
  const uint64_t F = in.features, U = in.units;
  Normal normal = {std::vector<double>(F * F, 0.0), std::vector<double>(U * F, 0.0),
                   std::vector<double>(F, 0.0), mean_counts(in, rows)};
  for (const uint64_t r : rows)
    for (uint64_t f = 0; f < F; ++f) normal.mean_x[f] += in.x[r * F + f];
  for (double& mean : normal.mean_x) mean /= double(rows.size());
  std::vector<float> x(rows.size() * F), y(rows.size() * U, 0.0f);  // centred
  for (uint64_t i = 0; i < rows.size(); ++i) {
    const uint64_t r = rows[i];
    for (uint64_t f = 0; f < F; ++f) x[i * F + f] = in.x[r * F + f] - float(normal.mean_x[f]);
    for (uint64_t u = 0; u < U; ++u)
      if (in.validity[r * U + u]) y[i * U + u] = in.counts[r * U + u] - float(normal.mean_y[u]);
  }
  // Sums of 64 rows in float, which vectorises, then in double. A thread has rows of the result.
  constexpr uint64_t kRows = 64;
  const auto accumulate = [&](const float* left, uint64_t stride, uint64_t ends, double* out) {
    std::vector<float> sums(ends);
    for (uint64_t begin = 0; begin < rows.size(); begin += kRows) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (uint64_t i = begin; i < std::min<uint64_t>(begin + kRows, rows.size()); ++i) {
        const float value = left[i * stride];
        const float* row = x.data() + i * F;
        for (uint64_t f = 0; f < ends; ++f) sums[f] += value * row[f];
      }
      for (uint64_t f = 0; f < ends; ++f) out[f] += sums[f];
    }
  };
  parallel_for(F, 0,
               [&](uint64_t f) { accumulate(x.data() + f, F, f + 1, normal.gram.data() + f * F); });
  parallel_for(U, 0,
               [&](uint64_t u) { accumulate(y.data() + u, U, F, normal.right.data() + u * F); });
  for (uint64_t f = 0; f < F; ++f) normal.power += normal.gram[f * F + f] / double(F);
  return normal;
}

// In place: the lower half of a [n, n] becomes its Cholesky factor. False where it has none.
bool factorise(std::vector<double>& a, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    throw_if_stopped();
    for (uint64_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (uint64_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      if (i == j && !(sum > 0)) return false;
      a[i * n + j] = i == j ? std::sqrt(sum) : sum / a[j * n + j];
    }
  }
  return true;
}

void solve(const std::vector<double>& factor, uint64_t n, double* b) {
  for (uint64_t i = 0; i < n; ++i) {
    for (uint64_t k = 0; k < i; ++k) b[i] -= factor[i * n + k] * b[k];
    b[i] /= factor[i * n + i];
  }
  for (uint64_t i = n; i-- > 0;) {
    b[i] /= factor[i * n + i];
    for (uint64_t k = 0; k < i; ++k) b[k] -= factor[i * n + k] * b[i];
  }
}

LinearFields solve_with(const Normal& normal, const LinearFieldsInput& in, double strength) {
  const uint64_t F = in.features, U = in.units;
  LinearFields fields = {F, U, normal.right, normal.mean_y, std::vector<double>(U), strength};
  std::vector<double> factor = normal.gram;
  const double added = strength * std::max(normal.power, 1e-12);
  for (uint64_t f = 0; f < F; ++f) factor[f * F + f] += added;
  LACUNA_ASSERT(factorise(factor, F));
  parallel_for(U, 0, [&](uint64_t u) {
    double* weight = fields.weight.data() + u * F;
    solve(factor, F, weight);
    for (uint64_t f = 0; f < F; ++f) fields.intercept[u] -= weight[f] * normal.mean_x[f];
  });
  return fields;
}

void set_floor(LinearFields& fields, const std::vector<double>& mean, double share) {
  for (uint64_t u = 0; u < fields.units; ++u)
    fields.floor[u] = std::max(kLeastFloor, share * mean[u]);
}

// Bits per spike of all units together, on rows that were not fitted.
double judge(const LinearFields& fields, const LinearFieldsInput& in, const Rows& rows,
             const std::vector<double>& mean) {
  std::vector<float> x(rows.size() * in.features);
  for (uint64_t i = 0; i < rows.size(); ++i)
    std::copy_n(in.x.begin() + int64_t(rows[i] * in.features), in.features,
                x.begin() + int64_t(i * in.features));
  const std::vector<float> rates = fields.predict(x);
  std::vector<UnitSums> sums(in.units);
  for (uint64_t i = 0; i < rows.size(); ++i)
    for (uint64_t u = 0; u < in.units; ++u)
      if (const uint64_t at = rows[i] * in.units + u; in.validity[at])
        sums[u].add(rates[i * in.units + u], in.counts[at], compared_rate(mean[u]));
  return session_scores(sums).bits_per_spike;
}

}  // namespace

CoarseWindow CoarseWindow::of(uint64_t lags, uint64_t height, uint64_t width,
                              uint64_t most_features) {
  CoarseWindow coarse = {lags, height, width, 1, 1};
  while (coarse.features() > most_features) {  // the axis with more blocks gives way
    const bool is_space = std::max(coarse.row_count(), coarse.column_count()) >= coarse.lag_count();
    ++(is_space ? coarse.pixel_block : coarse.lag_block);
  }
  return coarse;
}

std::vector<float> LinearFields::predict(std::span<const float> x) const {
  const uint64_t n = x.size() / features;
  std::vector<float> rates(n * units);
  const std::vector<float> narrow(weight.begin(), weight.end());
  parallel_for(n, 0, [&](uint64_t i) {
    const float* row = x.data() + i * features;
    for (uint64_t u = 0; u < units; ++u) {
      const float* w = narrow.data() + u * features;
      float parts[8] = {};  // which vectorise
      uint64_t f = 0;
      for (; f + 8 <= features; f += 8)
        for (int k = 0; k < 8; ++k) parts[k] += row[f + k] * w[f + k];
      double sum = intercept[u];
      for (const float part : parts) sum += part;
      for (; f < features; ++f) sum += row[f] * w[f];
      rates[i * units + u] = float(std::max(sum, floor[u]));
    }
  });
  return rates;
}

LinearFields fit_linear_fields(const LinearFieldsInput& in) {
  const uint64_t n = in.trial.size();
  LACUNA_ASSERT(n > 0 && in.x.size() == n * in.features && in.counts.size() == n * in.units);
  std::map<int64_t, uint64_t> trials;
  for (const int64_t trial : in.trial) trials.emplace(trial, trials.size());
  Rows fitted, held, all;
  for (uint64_t r = 0; r < n; ++r) {
    (trials.at(in.trial[r]) % 5 == 4 ? held : fitted).push_back(r);
    all.push_back(r);
  }
  double best_strength = 1, best_floor = kFloors[1];
  if (!held.empty()) {
    const Normal normal = normal_equations(in, fitted);
    double best = -std::numeric_limits<double>::infinity();
    for (const double strength : kStrengths) {
      LinearFields fields = solve_with(normal, in, strength);
      for (const double share : kFloors) {
        set_floor(fields, normal.mean_y, share);
        const double bits = judge(fields, in, held, normal.mean_y);
        if (!(bits > best)) continue;
        best = bits;
        best_strength = strength;
        best_floor = share;
      }
    }
  }
  const Normal normal = normal_equations(in, all);
  LinearFields fields = solve_with(normal, in, best_strength);
  set_floor(fields, normal.mean_y, best_floor);
  return fields;
}

}  // namespace lacuna
