#include "lacuna/train/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/threads.h"

namespace lacuna {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Floats, held as doubles: the sum of millions of equal ones is exact, so that a side without
// spread is seen as such.
struct Pairs {
  std::vector<double> predicted, measured;  // [n]
  bool has_nan = false;                     // a prediction is NaN
};

Pairs measured_pairs(std::span<const float> predicted, std::span<const float> measured) {
  if (predicted.size() != measured.size())
    throw Error("{} predictions were given for {} measurements", predicted.size(), measured.size());
  Pairs pairs;
  for (size_t i = 0; i < measured.size(); ++i) {
    if (std::isnan(measured[i])) continue;
    pairs.predicted.push_back(predicted[i]);
    pairs.measured.push_back(measured[i]);
    pairs.has_nan = pairs.has_nan || std::isnan(predicted[i]);
  }
  return pairs;
}

// Items in ascending order, cut into groups of equals.
struct Groups {
  std::vector<uint32_t> order;  // [n]
  std::vector<uint32_t> ptr;    // [groups + 1] into order
};

Groups sort_into_groups(std::span<const double> values) {
  Groups groups;
  groups.order.resize(values.size());
  std::iota(groups.order.begin(), groups.order.end(), 0u);
  std::sort(groups.order.begin(), groups.order.end(), [&](uint32_t a, uint32_t b) {
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
  for (size_t i = 0; i < values.size(); ++i)
    if (i == 0 || values[groups.order[i]] != values[groups.order[i - 1]])
      groups.ptr.push_back(uint32_t(i));
  groups.ptr.push_back(uint32_t(values.size()));
  return groups;
}

// The ranks that items have in a sample that holds item i counts[i] times.
void rank_drawn(const Groups& groups, std::span<const uint32_t> counts, std::span<double> ranks) {
  uint64_t before = 0;  // drawn items of lower groups
  for (size_t g = 0; g + 1 < groups.ptr.size(); ++g) {
    uint64_t drawn = 0;
    for (uint32_t k = groups.ptr[g]; k < groups.ptr[g + 1]; ++k) drawn += counts[groups.order[k]];
    const double shared = double(before) + 0.5 * double(drawn + 1);
    for (uint32_t k = groups.ptr[g]; k < groups.ptr[g + 1]; ++k) ranks[groups.order[k]] = shared;
    before += drawn;
  }
}

// Pearson of a sample that holds pair i counts[i] times.
double pearson_drawn(std::span<const double> a, std::span<const double> b,
                     std::span<const uint32_t> counts) {
  double n = 0, sum_a = 0, sum_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double count = counts[i];
    n += count;
    sum_a += count * a[i];
    sum_b += count * b[i];
  }
  if (n < 2) return kNan;
  const double mean_a = sum_a / n, mean_b = sum_b / n;
  double aa = 0, bb = 0, ab = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double count = counts[i], da = a[i] - mean_a, db = b[i] - mean_b;
    aa += count * da * da;
    bb += count * db * db;
    ab += count * da * db;
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa) / std::sqrt(bb) : kNan;
}

// The metrics of samples drawn from the pairs, each given by how often it holds each pair: sorting
// is done once, a draw costs a few passes.
class DrawnMetrics {
 public:
  explicit DrawnMetrics(Pairs pairs) : pairs_(std::move(pairs)) {
    if (pairs_.has_nan) return;
    predicted_groups_ = sort_into_groups(pairs_.predicted);
    measured_groups_ = sort_into_groups(pairs_.measured);
  }

  size_t size() const { return pairs_.measured.size(); }

  Metrics operator()(std::span<const uint32_t> counts) const {
    const size_t n = size();
    Metrics metrics = {0, kNan, kNan, kNan};
    metrics.count = std::accumulate(counts.begin(), counts.end(), uint64_t(0));
    if (pairs_.has_nan || n == 0) return metrics;
    double squares = 0;
    for (size_t i = 0; i < n; ++i) {
      const double error = pairs_.predicted[i] - pairs_.measured[i];
      squares += double(counts[i]) * error * error;
    }
    metrics.mse = squares / double(metrics.count);
    metrics.pearson = pearson_drawn(pairs_.predicted, pairs_.measured, counts);
    std::vector<double> predicted_ranks(n), measured_ranks(n);
    rank_drawn(predicted_groups_, counts, predicted_ranks);
    rank_drawn(measured_groups_, counts, measured_ranks);
    metrics.spearman = pearson_drawn(predicted_ranks, measured_ranks, counts);
    return metrics;
  }

 private:
  Pairs pairs_;
  Groups predicted_groups_, measured_groups_;
};

// How often each of n pairs comes up in n draws.
std::vector<uint32_t> draw(size_t n, uint64_t seed, uint64_t round) {
  Random random(seed, round);
  std::vector<uint32_t> counts(n, 0);
  for (size_t i = 0; i < n; ++i) ++counts[random.below(n)];
  return counts;
}

// The middle `level` of the values, NaN left out; linear between order statistics.
Interval middle(std::vector<double> values, double level) {
  std::erase_if(values, [](double v) { return std::isnan(v); });
  if (values.empty()) return {kNan, kNan};
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double q) {
    const double at = q * double(values.size() - 1);
    const size_t low = size_t(at), high = std::min(low + 1, values.size() - 1);
    return values[low] + (at - double(low)) * (values[high] - values[low]);
  };
  return {quantile((1 - level) / 2), quantile((1 + level) / 2)};
}

}  // namespace

Metrics compute_metrics(std::span<const float> predicted, std::span<const float> measured) {
  const DrawnMetrics metrics(measured_pairs(predicted, measured));
  return metrics(std::vector<uint32_t>(metrics.size(), 1));
}

MetricIntervals bootstrap(std::span<const float> predicted, std::span<const float> measured,
                          uint64_t seed, int rounds, double level) {
  const DrawnMetrics metrics(measured_pairs(predicted, measured));
  std::vector<double> pearsons(size_t(rounds), 0), spearmans(pearsons), mses(pearsons);  // [rounds]
  parallel_for(uint64_t(rounds), 0, [&](uint64_t round) {
    const Metrics drawn = metrics(draw(metrics.size(), seed, round));
    pearsons[round] = drawn.pearson;
    spearmans[round] = drawn.spearman;
    mses[round] = drawn.mse;
  });
  return {middle(pearsons, level), middle(spearmans, level), middle(mses, level)};
}

}  // namespace lacuna
