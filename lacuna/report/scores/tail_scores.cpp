#include "lacuna/report/scores/tail_scores.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lacuna/core/error.h"

namespace lacuna::report {
namespace {

struct Ranked {
  double score;  // the highest comes first
  bool is_strong;
};

// Samples that the model does not tell apart, and those of them that are strong.
struct Ties {
  uint64_t samples = 0, strong = 0;
};

std::vector<Ties> ties_of(std::vector<Ranked> ranked) {
  std::sort(ranked.begin(), ranked.end(),
            [](const Ranked& a, const Ranked& b) { return a.score > b.score; });
  std::vector<Ties> ties;
  for (size_t i = 0; i < ranked.size(); ++i) {
    if (i == 0 || ranked[i].score != ranked[i - 1].score) ties.push_back({});
    ++ties.back().samples;
    ties.back().strong += ranked[i].is_strong;
  }
  return ties;
}

double precision_at(const std::vector<Ties>& ties, uint64_t k) {
  double found = 0;
  uint64_t left = k;
  for (const Ties& tie : ties) {
    const uint64_t taken = std::min(left, tie.samples);
    found += double(tie.strong) * double(taken) / double(tie.samples);
    left -= taken;
  }
  return left > 0 ? kNotDefined : found / double(k);
}

}  // namespace

TailScores tail_scores(std::span<const float> predicted, std::span<const float> measured,
                       double threshold, bool is_low) {
  LACUNA_ASSERT(predicted.size() == measured.size());
  std::vector<Ranked> ranked;
  TailScores scores;
  scores.threshold = threshold;
  for (size_t i = 0; i < measured.size(); ++i) {
    if (!std::isfinite(predicted[i]) || !std::isfinite(measured[i])) continue;
    const double value = double(measured[i]);
    const bool is_strong = is_low ? value <= threshold : value >= threshold;
    ranked.push_back({is_low ? -double(predicted[i]) : double(predicted[i]), is_strong});
    scores.strong += is_strong;
  }
  scores.samples = ranked.size();
  if (scores.strong == 0 || scores.strong == scores.samples) return scores;
  const std::vector<Ties> ties = ties_of(std::move(ranked));
  const double strong = double(scores.strong), others = double(scores.samples) - strong;
  double in_order = 0;  // pairs of a strong and another sample with the strong one first
  double precision_sum = 0;
  uint64_t above = 0, strong_above = 0;
  for (const Ties& tie : ties) {
    const double weak = double(tie.samples - tie.strong);
    in_order += weak * (double(strong_above) + 0.5 * double(tie.strong));
    above += tie.samples;
    strong_above += tie.strong;
    precision_sum += double(tie.strong) * double(strong_above) / double(above);
  }
  scores.auroc = in_order / (strong * others);
  scores.average_precision = precision_sum / strong;
  for (size_t i = 0; i < kFirst.size(); ++i) scores.precision[i] = precision_at(ties, kFirst[i]);
  return scores;
}

double lower_threshold(std::span<const float> measured, double share) {
  std::vector<float> values;
  for (const float value : measured)
    if (std::isfinite(value)) values.push_back(value);
  if (values.empty()) return kNotDefined;
  const auto place = ptrdiff_t(std::ceil(share * double(values.size()))) - 1;
  const auto at = values.begin() + std::clamp<ptrdiff_t>(place, 0, ptrdiff_t(values.size()) - 1);
  std::nth_element(values.begin(), at, values.end());
  return double(*at);
}

double upper_threshold(std::span<const float> measured, double share) {
  std::vector<float> turned(measured.begin(), measured.end());
  for (float& value : turned) value = -value;
  return -lower_threshold(turned, share);
}

}  // namespace lacuna::report
