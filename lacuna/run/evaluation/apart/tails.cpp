#include "lacuna/run/evaluation/apart/tails.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/run/evaluation/apart/ranking.h"

namespace lacuna {
namespace {

constexpr uint64_t kFewestSamples = 20;  // of which 5% is one

struct Precisions {
  double average = kNotDefined, at_k = kNotDefined;
};

// k: the size of the tail
Precisions precisions_of(const Ranking& ranking, const std::vector<bool>& is_tail,
                         std::span<const double> weights) {
  const Found found = ranking.found(is_tail, weights);
  if (std::isnan(found.average_precision)) return {};
  return {found.average_precision, ranking.precision_at(found.tail, is_tail, weights)};
}

Estimate estimate_of(double value, const std::vector<double>& draws) {
  const Interval interval = middle(draws);
  return {value, interval.low, interval.high};
}

// sign: -1 for the lowest values
TailScores score_tail(const std::vector<std::string>& names,
                      const std::vector<std::vector<float>>& predictors,
                      std::span<const float> measured, const DrawnWeights& drawn, int rounds,
                      double sign) {
  const auto& rows = drawn.rows();
  const auto strengths = [&](std::span<const float> values) {
    std::vector<double> strengths;
    for (const uint64_t row : rows) strengths.push_back(sign * double(values[row]));
    return strengths;
  };
  std::vector<float> truth;
  for (const uint64_t row : rows) truth.push_back(measured[row]);
  const double threshold =
      sign < 0 ? lower_threshold(truth, kTailShare) : upper_threshold(truth, kTailShare);
  std::vector<bool> is_tail;
  for (const float value : truth) is_tail.push_back(sign * double(value) >= sign * threshold);
  TailScores tail = {.tail = sign < 0 ? "lowest" : "highest", .threshold = threshold};
  tail.count = uint64_t(std::count(is_tail.begin(), is_tail.end(), true));
  tail.samples = rows.size();

  std::vector<Ranking> rankings;
  for (const auto& predicted : predictors) rankings.emplace_back(strengths(predicted));
  const bool has_draws = rounds > 0 && drawn.units() >= 2;
  std::vector<std::vector<Precisions>> draws(
      predictors.size(), std::vector<Precisions>(has_draws ? size_t(rounds) : 0));
  if (has_draws)
    parallel_for(uint64_t(rounds), 0, [&](uint64_t round) {
      const std::vector<double> weights = drawn.draw(round);
      for (size_t p = 0; p < rankings.size(); ++p)
        draws[p][round] = precisions_of(rankings[p], is_tail, weights);
    });
  const std::vector<double> once(rows.size(), 1.0);
  std::vector<Precisions> whole;
  for (size_t p = 0; p < rankings.size(); ++p) {
    whole.push_back(precisions_of(rankings[p], is_tail, once));
    std::vector<double> average, at_k, lead;
    for (size_t r = 0; r < draws[p].size(); ++r) {
      average.push_back(draws[p][r].average);
      at_k.push_back(draws[p][r].at_k);
      lead.push_back(draws[0][r].average - draws[p][r].average);
    }
    TailScore score = {.predictor = names[p],
                       .average_precision = estimate_of(whole[p].average, average),
                       .precision_at_k = estimate_of(whole[p].at_k, at_k)};
    if (p > 0) score.lead.value = whole[0].average - whole[p].average;
    if (p > 0 && drawn.units() >= kFewestUnits) score.lead = estimate_of(score.lead.value, lead);
    tail.scores.push_back(std::move(score));
  }
  return tail;
}

}  // namespace

Standing TailScore::standing() const {
  if (std::isnan(lead.value)) return Standing::not_defined;
  if (lead.low > 0) return Standing::ahead;
  return lead.high < 0 ? Standing::behind : Standing::not_told_apart;
}

const TailScore* TailScores::best_baseline() const {
  const TailScore* best = nullptr;
  for (size_t p = 1; p < scores.size(); ++p) {
    const double found = scores[p].average_precision.value;
    if (!scores[p].is_member && std::isfinite(found) &&
        (!best || found > best->average_precision.value))
      best = &scores[p];
  }
  return best;
}

const TailScore* TailScores::find(std::string_view predictor) const {
  const auto found = std::ranges::find(scores, predictor, &TailScore::predictor);
  return found == scores.end() ? nullptr : &*found;
}

std::vector<TailScores> tail_scores(const std::vector<std::string>& names,
                                    const std::vector<std::vector<float>>& predictors,
                                    std::span<const float> measured, const HeldOutUnits& units,
                                    uint64_t seed, int rounds) {
  LACUNA_ASSERT(names.size() == predictors.size() && rounds >= 0);
  const DrawnWeights drawn(measured, units, seed);
  const auto& rows = drawn.rows();
  const bool has_spread = std::any_of(
      rows.begin(), rows.end(), [&](uint64_t row) { return measured[row] != measured[rows[0]]; });
  if (rows.size() < kFewestSamples || !has_spread) return {};
  std::vector<TailScores> tails;
  for (const double sign : {-1.0, 1.0})
    tails.push_back(score_tail(names, predictors, measured, drawn, rounds, sign));
  return tails;
}

}  // namespace lacuna
