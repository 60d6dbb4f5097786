#include "lacuna/run/evaluation/apart/ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lacuna/core/error.h"

namespace lacuna {

Ranking::Ranking(std::span<const double> strength) : order_(strength.size()) {
  has_nan_ = std::any_of(strength.begin(), strength.end(), [](double v) { return std::isnan(v); });
  if (has_nan_) return;  // sorting would not end well
  std::iota(order_.begin(), order_.end(), 0u);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](uint32_t a, uint32_t b) { return strength[a] > strength[b]; });
  for (uint32_t i = 0; i < order_.size(); ++i)
    if (i == 0 || strength[order_[i]] != strength[order_[i - 1]]) ptr_.push_back(i);
  ptr_.push_back(uint32_t(order_.size()));
}

Ranking::Equals Ranking::equals(size_t group, const std::vector<bool>& is_tail,
                                std::span<const double> weights) const {
  Equals equals;
  for (uint32_t i = ptr_[group]; i < ptr_[group + 1]; ++i) {
    equals.weight += weights[order_[i]];
    if (is_tail[order_[i]]) equals.tail += weights[order_[i]];
  }
  return equals;
}

Found Ranking::found(const std::vector<bool>& is_tail, std::span<const double> weights) const {
  LACUNA_ASSERT(is_tail.size() == order_.size() && weights.size() == order_.size());
  if (has_nan_) return {};
  double seen = 0, tail = 0;
  double precisions = 0;  // summed over the tail
  double in_order = 0;    // pairs of one of the tail and another with the first before the other
  for (size_t g = 0; g + 1 < ptr_.size(); ++g) {
    const Equals of = equals(g, is_tail, weights);
    if (of.weight == 0) continue;
    in_order += (of.weight - of.tail) * (tail + 0.5 * of.tail);
    seen += of.weight;
    tail += of.tail;
    precisions += of.tail * tail / seen;
  }
  const double others = seen - tail;
  if (!(tail > 0) || !(others > 0)) return {.tail = tail};
  return {in_order / (tail * others), precisions / tail, tail};
}

double Ranking::precision_at(double k, const std::vector<bool>& is_tail,
                             std::span<const double> weights) const {
  LACUNA_ASSERT(is_tail.size() == order_.size() && weights.size() == order_.size() && k > 0);
  if (has_nan_) return kNotDefined;
  double seen = 0, tail = 0;
  for (size_t g = 0; g + 1 < ptr_.size(); ++g) {
    const Equals of = equals(g, is_tail, weights);
    if (of.weight == 0) continue;
    if (seen + of.weight >= k)  // of equals, each as likely among the first k
      return (tail + of.tail * (k - seen) / of.weight) / k;
    seen += of.weight;
    tail += of.tail;
  }
  return kNotDefined;
}

double lower_threshold(std::span<const float> measured, double share) {
  std::vector<float> values;
  for (const float value : measured)
    if (std::isfinite(value)) values.push_back(value);
  if (values.empty()) return kNotDefined;
  const auto count =
      std::clamp<int64_t>(std::llround(share * double(values.size())), 1, int64_t(values.size()));
  std::nth_element(values.begin(), values.begin() + (count - 1), values.end());
  return double(values[size_t(count - 1)]);
}

double upper_threshold(std::span<const float> measured, double share) {
  std::vector<float> turned(measured.begin(), measured.end());
  for (float& value : turned) value = -value;
  return -lower_threshold(turned, share);
}

}  // namespace lacuna
