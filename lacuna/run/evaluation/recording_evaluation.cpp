#include "lacuna/run/evaluation/recording_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/run/evaluation/bootstrap.h"

namespace lacuna {
namespace {

constexpr uint64_t kRateBins = 20;
constexpr uint64_t kTraceRows = 360;

// Sums by trial: [trials, units] of each predictor.
struct TrialSums {
  std::vector<int64_t> trials;                    // numbers, as they come
  std::vector<std::vector<UnitSums>> predictors;  // [P] of [trials * units]
  uint64_t units = 0;
};

// A trial is told apart by segment and number.
using TrialKey = std::pair<uint32_t, int64_t>;

TrialSums sum_by_trial(const SessionPredictions& in, const std::vector<uint64_t>& rows) {
  std::map<TrialKey, uint64_t> places;
  TrialSums sums;
  sums.units = in.unit_count();
  sums.predictors.resize(in.predictors.size());
  std::vector<double> mean;  // [units]
  for (const double count : in.mean) mean.push_back(compared_rate(count));
  for (const uint64_t r : rows) {
    const TrialKey key = {in.rows[r].segment, in.rows[r].trial};
    const auto [found, is_new] = places.emplace(key, places.size());
    if (is_new) {
      sums.trials.push_back(key.second);
      for (auto& predictor : sums.predictors) predictor.resize(places.size() * sums.units);
    }
    for (uint64_t u = 0; u < sums.units; ++u) {
      const uint64_t at = r * sums.units + u;
      if (!in.validity[at]) continue;
      for (size_t p = 0; p < in.predictors.size(); ++p)
        sums.predictors[p][found->second * sums.units + u].add(in.predictors[p].rates[at],
                                                               in.counts[at], mean[u]);
    }
  }
  return sums;
}

// Of each unit, trials taken times[trial] times; empty: once.
std::vector<UnitSums> total(const TrialSums& sums, size_t predictor,
                            const std::vector<uint32_t>& times = {}) {
  std::vector<UnitSums> units(sums.units);
  for (size_t trial = 0; trial < sums.trials.size(); ++trial) {
    const double weight = times.empty() ? 1 : times[trial];
    if (weight == 0) continue;
    for (uint64_t u = 0; u < sums.units; ++u)
      units[u] += sums.predictors[predictor][trial * sums.units + u] * weight;
  }
  return units;
}

// [2 * predictors][rounds]: bits per spike and correlation of every predictor in every draw.
using SessionDraws = std::vector<std::vector<double>>;

SessionDraws draw_trials(const TrialSums& sums, int rounds, uint64_t seed) {
  const size_t predictors = sums.predictors.size(), trials = sums.trials.size();
  SessionDraws draws(2 * predictors);
  if (trials < 2) return draws;
  for (int round = 0; round < rounds; ++round) {
    throw_if_stopped();
    Random random(seed, uint64_t(round));
    std::vector<uint32_t> times(trials, 0);
    for (size_t i = 0; i < trials; ++i) ++times[random.below(trials)];
    for (size_t p = 0; p < predictors; ++p) {
      const SessionScores scores = session_scores(total(sums, p, times));
      draws[2 * p].push_back(scores.bits_per_spike);
      draws[2 * p + 1].push_back(scores.correlation);
    }
  }
  return draws;
}

Estimate estimate(double value, const std::vector<double>& draws) {
  if (draws.empty()) return {value, kNotDefined, kNotDefined};
  const Interval interval = middle(draws);
  return {value, interval.low, interval.high};
}

std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> result(a.size());
  for (size_t i = 0; i < a.size(); ++i) result[i] = a[i] - b[i];
  return result;
}

// values: [2 * predictors], as draws.
std::vector<RecordingScore> scores_of(const std::vector<std::string>& names,
                                      const std::vector<double>& values,
                                      const SessionDraws& draws) {
  std::vector<RecordingScore> scores;
  for (size_t p = 0; p < names.size(); ++p) {
    RecordingScore score = {names[p], estimate(values[2 * p], draws[2 * p]),
                            estimate(values[2 * p + 1], draws[2 * p + 1])};
    if (p > 0) score.lead = estimate(values[0] - values[2 * p], difference(draws[0], draws[2 * p]));
    scores.push_back(std::move(score));
  }
  return scores;
}

struct Scored {
  ScoredRows rows;
  std::vector<double> values;  // [2 * predictors]
  SessionDraws draws;
  TrialSums sums;
};

Scored score_rows(const SessionPredictions& in, const std::string& name,
                  const std::vector<uint64_t>& rows, int rounds, uint64_t seed) {
  Scored scored = {.rows = {.name = name, .rows = rows.size()},
                   .values = {},
                   .draws = {},
                   .sums = sum_by_trial(in, rows)};
  scored.rows.trials = scored.sums.trials.size();
  std::vector<std::string> names;
  for (size_t p = 0; p < in.predictors.size(); ++p) {
    const SessionScores scores = session_scores(total(scored.sums, p));
    scored.values.push_back(scores.bits_per_spike);
    scored.values.push_back(scores.correlation);
    scored.rows.spikes = scores.spikes;
    names.push_back(in.predictors[p].name);
  }
  scored.draws = draw_trials(scored.sums, rounds, seed);
  scored.rows.scores = scores_of(names, scored.values, scored.draws);
  return scored;
}

// Presentations of one stimulus: the rows of each, in order of their offset.
using Presentations = std::vector<std::vector<uint64_t>>;

// Stimuli that were shown at least twice, cut to the offsets that all presentations have.
std::vector<Presentations> repeated_stimuli(const SessionPredictions& in) {
  std::map<std::pair<uint32_t, int64_t>, std::map<int64_t, std::map<uint64_t, uint64_t>>> shown;
  for (uint64_t r = 0; r < in.rows.size(); ++r)
    if (const PredictedRow& row = in.rows[r]; row.stimulus >= 0)
      shown[{row.segment, row.stimulus}][row.trial].emplace(row.offset, r);
  std::vector<Presentations> stimuli;
  for (const auto& [stimulus, trials] : shown) {
    if (trials.size() < 2) continue;
    Presentations presentations(trials.size());
    for (const auto& [offset, first] : trials.begin()->second) {
      const bool is_everywhere = std::all_of(trials.begin(), trials.end(), [&](const auto& trial) {
        return trial.second.contains(offset);
      });
      if (!is_everywhere) continue;
      size_t i = 0;
      for (const auto& [trial, rows] : trials) presentations[i++].push_back(rows.at(offset));
    }
    if (presentations[0].size() >= 2) stimuli.push_back(std::move(presentations));
  }
  return stimuli;
}

// Presentations in which a count of the unit is not valid are left out.
double ceiling_of(const SessionPredictions& in, const std::vector<Presentations>& stimuli,
                  uint64_t unit) {
  std::vector<std::vector<std::vector<float>>> counts;
  for (const Presentations& presentations : stimuli) {
    auto& repeats = counts.emplace_back();
    for (const auto& rows : presentations) {
      std::vector<float> one;
      for (const uint64_t r : rows)
        if (const uint64_t at = r * in.unit_count() + unit; in.validity[at])
          one.push_back(in.counts[at]);
      if (one.size() == rows.size()) repeats.push_back(std::move(one));
    }
  }
  return noise_ceiling(counts);
}

std::vector<UnitEvaluation> evaluate_units(const SessionPredictions& in, const TrialSums& sums,
                                           const std::vector<Presentations>& stimuli) {
  std::vector<UnitEvaluation> units;
  for (uint64_t u = 0; u < in.unit_count(); ++u)
    units.push_back(
        {.unit = in.units[u], .mean = in.mean[u], .ceiling = ceiling_of(in, stimuli, u)});
  for (size_t p = 0; p < in.predictors.size(); ++p) {
    const std::vector<UnitSums> all = total(sums, p);
    for (uint64_t u = 0; u < in.unit_count(); ++u) {
      units[u].spikes = uint64_t(all[u].spikes);
      units[u].bits_per_spike.push_back(bits_per_spike(all[u]));
      units[u].correlation.push_back(correlation(all[u]));
    }
  }
  return units;
}

std::vector<RateBin> rate_bins(const SessionPredictions& in) {
  std::vector<std::pair<float, float>> pairs;  // rate, count
  const std::vector<float>& rates = in.predictors[0].rates;
  const uint64_t stride = std::max<uint64_t>(1, rates.size() / 2'000'000);  // enough for 20 means
  for (uint64_t i = 0; i < rates.size(); i += stride)
    if (in.validity[i]) pairs.emplace_back(rates[i], in.counts[i]);
  std::sort(pairs.begin(), pairs.end());
  std::vector<RateBin> bins;
  for (uint64_t b = 0; b < kRateBins; ++b) {
    const uint64_t begin = pairs.size() * b / kRateBins, end = pairs.size() * (b + 1) / kRateBins;
    if (begin == end) continue;
    RateBin bin = {0, 0, end - begin};
    for (uint64_t i = begin; i < end; ++i) {
      bin.rate += pairs[i].first / double(bin.rows);
      bin.count += pairs[i].second / double(bin.rows);
    }
    bins.push_back(bin);
  }
  return bins;
}

// The unit that the model predicts best, among those with a tenth of the most spikes or more.
std::optional<uint64_t> unit_to_show(const std::vector<UnitEvaluation>& units) {
  uint64_t most = 0;
  for (const UnitEvaluation& unit : units) most = std::max(most, unit.spikes);
  std::optional<uint64_t> best;
  for (uint64_t u = 0; u < units.size(); ++u) {
    const double value = units[u].correlation[0];
    if (units[u].spikes * 10 < most || !std::isfinite(value)) continue;
    if (!best || value > units[*best].correlation[0]) best = u;
  }
  return best;
}

// The stimulus that was shown most often, else the trial with the most rows.
std::optional<RateTrace> trace_of(const SessionPredictions& in,
                                  const std::vector<UnitEvaluation>& units,
                                  const std::vector<Presentations>& stimuli) {
  const std::optional<uint64_t> unit = unit_to_show(units);
  if (!unit) return {};
  Presentations shown;
  for (const Presentations& one : stimuli)
    if (one.size() > shown.size()) shown = one;
  if (shown.empty()) {
    std::map<TrialKey, std::vector<uint64_t>> trials;
    for (uint64_t r = 0; r < in.rows.size(); ++r)
      trials[{in.rows[r].segment, in.rows[r].trial}].push_back(r);
    shown.resize(1);
    for (auto& [key, rows] : trials)
      if (rows.size() > shown[0].size()) shown[0] = rows;
  }
  RateTrace trace = {.unit = in.units[*unit],
                     .segment = in.segments.at(in.rows[shown[0][0]].segment),
                     .repeats = shown.size()};
  trace.rates.resize(in.predictors.size());
  const uint64_t rows = std::min<uint64_t>(kTraceRows, shown[0].size());
  for (uint64_t i = 0; i < rows; ++i) {
    double count = 0;
    std::vector<double> rates(in.predictors.size(), 0.0);
    for (const auto& presentation : shown) {
      const uint64_t at = presentation[i] * in.unit_count() + *unit;
      count += in.counts[at] / double(shown.size());
      for (size_t p = 0; p < rates.size(); ++p)
        rates[p] += in.predictors[p].rates[at] / double(shown.size());
    }
    trace.counts.push_back(count);
    for (size_t p = 0; p < rates.size(); ++p) trace.rates[p].push_back(rates[p]);
  }
  return trace;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const double value : values)
    if (std::isfinite(value)) {
      sum += value;
      ++count;
    }
  return count > 0 ? sum / count : kNotDefined;
}

}  // namespace

PartEvaluator::PartEvaluator(std::string part, int rounds, uint64_t seed)
    : rounds_(rounds), seed_(seed) {
  result_.part = std::move(part);
}

void PartEvaluator::add(const SessionPredictions& in) {
  LACUNA_ASSERT(!in.predictors.empty() && in.counts.size() == in.rows.size() * in.unit_count());
  std::vector<uint64_t> all(in.rows.size());
  std::iota(all.begin(), all.end(), 0u);
  const uint64_t seed = mix64(seed_ + result_.sessions.size());
  Scored scored = score_rows(in, in.session, all, rounds_, seed);
  SessionEvaluation session = {.all = scored.rows, .subject = in.subject, .rate = in.rate};
  for (uint32_t s = 0; s < in.segments.size(); ++s) {
    std::vector<uint64_t> rows;
    for (const uint64_t r : all)
      if (in.rows[r].segment == s) rows.push_back(r);
    if (rows.empty()) continue;
    session.segments.push_back(score_rows(in, in.segments[s], rows, rounds_, seed).rows);
  }
  const std::vector<Presentations> stimuli = repeated_stimuli(in);
  session.repeated = stimuli.size();
  session.units = evaluate_units(in, scored.sums, stimuli);
  std::vector<double> ceilings;
  for (const UnitEvaluation& unit : session.units) ceilings.push_back(unit.ceiling);
  session.ceiling = mean_of(ceilings);
  session.bins = rate_bins(in);
  session.trace = trace_of(in, session.units, stimuli);
  draws_.push_back(std::move(scored.draws));
  result_.sessions.push_back(std::move(session));
}

RecordingPartEvaluation PartEvaluator::finish() const {
  RecordingPartEvaluation result = result_;
  if (result.sessions.empty()) return result;
  const auto& first = result.sessions[0].all.scores;
  std::vector<std::string> names;
  for (const RecordingScore& score : first) names.push_back(score.predictor);
  std::vector<double> values;
  SessionDraws draws(2 * names.size());
  for (size_t i = 0; i < 2 * names.size(); ++i) {
    std::vector<double> of_sessions;
    for (const SessionEvaluation& session : result.sessions) {
      const RecordingScore& score = session.all.scores[i / 2];
      of_sessions.push_back(i % 2 == 0 ? score.bits_per_spike.value : score.correlation.value);
    }
    values.push_back(mean_of(of_sessions));
    const bool has_draws = std::all_of(draws_.begin(), draws_.end(), [&](const SessionDraws& one) {
      return one[i].size() == size_t(rounds_);
    });
    for (int round = 0; has_draws && round < rounds_; ++round) {
      std::vector<double> of_round;
      for (const SessionDraws& one : draws_) of_round.push_back(one[i][size_t(round)]);
      draws[i].push_back(mean_of(of_round));
    }
  }
  result.scores = scores_of(names, values, draws);
  return result;
}

const RecordingPartEvaluation* RecordingEvaluation::main_part() const {
  for (const char* name : {"test", "validation"})
    for (const RecordingPartEvaluation& part : parts)
      if (part.part == name) return &part;
  return parts.empty() ? nullptr : &parts.front();
}

}  // namespace lacuna
