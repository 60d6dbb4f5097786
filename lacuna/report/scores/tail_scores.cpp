#include "lacuna/report/scores/tail_scores.h"

#include <cmath>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/run/evaluation/apart/ranking.h"

namespace lacuna::report {

TailScores tail_scores(std::span<const float> predicted, std::span<const float> measured,
                       double threshold, bool is_low) {
  LACUNA_ASSERT(predicted.size() == measured.size());
  const double sign = is_low ? -1 : 1;
  TailScores scores = {.threshold = threshold};
  std::vector<double> strength;  // [samples]
  std::vector<bool> is_strong;   // [samples]
  for (size_t i = 0; i < measured.size(); ++i) {
    if (!std::isfinite(predicted[i]) || !std::isfinite(measured[i])) continue;
    strength.push_back(sign * double(predicted[i]));
    is_strong.push_back(sign * double(measured[i]) >= sign * threshold);
    scores.strong += is_strong.back();
  }
  scores.samples = strength.size();
  if (scores.strong == 0 || scores.strong == scores.samples) return scores;
  const Ranking ranking(strength);
  const std::vector<double> once(strength.size(), 1.0);
  const Found found = ranking.found(is_strong, once);
  scores.auroc = found.auroc;
  scores.average_precision = found.average_precision;
  for (size_t i = 0; i < kFirst.size(); ++i)
    scores.precision[i] = ranking.precision_at(double(kFirst[i]), is_strong, once);
  return scores;
}

}  // namespace lacuna::report
