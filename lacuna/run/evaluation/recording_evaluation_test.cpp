#include "lacuna/run/evaluation/recording_evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/random.h"

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

constexpr uint64_t kUnits = 2, kTrials = 24, kRows = 50;

int draw_poisson(Random& random, double rate) {
  int count = 0;
  for (double product = random.uniform(); product > std::exp(-rate); ++count)
    product *= random.uniform();
  return count;
}

// Every fourth trial shows stimulus 7; the model knows the rates, the baseline their mean.
SessionPredictions simulated(const std::string& name, uint64_t seed) {
  Random random(seed);
  SessionPredictions session;
  session.session = name;
  session.rate = 120;
  session.units = {"a", "b"};
  session.segments = {"images", "gratings"};
  session.mean = {1.1, 1};  // 1.1 is none as float
  session.predictors = {{"model", {}}, {"mean rate", {}}};
  for (uint64_t trial = 0; trial < kTrials; ++trial)
    for (uint64_t t = 0; t < kRows; ++t) {
      const bool repeats = trial % 4 == 0;
      session.rows.push_back({.segment = trial % 2 == 0 ? 0u : 1u,
                              .t = trial * kRows + t,
                              .trial = int64_t(trial),
                              .stimulus = repeats ? 7 : -1,
                              .offset = t});
      for (uint64_t u = 0; u < kUnits; ++u) {
        const double rate =
            repeats ? 1 + std::sin(double(t * (u + 1)) / 3) : 1 + std::sin(random.uniform() * 6.28);
        session.counts.push_back(float(draw_poisson(random, rate)));
        // A presentation with one count that is not valid has no say in a unit's ceiling: unit 0
        // keeps all of its own.
        session.validity.push_back((repeats && u == 0) || random.uniform() < 0.97);
        session.predictors[0].rates.push_back(float(rate + 1e-3));
        session.predictors[1].rates.push_back(float(session.mean[u]));
      }
    }
  return session;
}

TEST(RecordingEvaluation, TheModelThatKnowsTheRatesIsAhead) {
  const uint64_t seed = test_seed();
  PartEvaluator evaluator("test", 200);
  const SessionPredictions first = simulated("s1", seed);
  evaluator.add(first);
  evaluator.add(simulated("s2", seed + 1));
  const RecordingPartEvaluation part = evaluator.finish();
  ASSERT_EQ(part.sessions.size(), 2u);
  const SessionEvaluation& session = part.sessions[0];
  EXPECT_EQ(session.all.trials, kTrials);
  EXPECT_EQ(session.segments.size(), 2u);
  const RecordingScore &model = session.all.scores[0], &mean = session.all.scores[1];
  EXPECT_GT(model.bits_per_spike.low, 0.2);
  EXPECT_LT(model.bits_per_spike.low, model.bits_per_spike.value);
  EXPECT_GT(model.bits_per_spike.high, model.bits_per_spike.value);
  // By definition: not a rounding above or below it.
  for (const Estimate& bits : {mean.bits_per_spike, part.scores[1].bits_per_spike})
    for (const double value : {bits.value, bits.low, bits.high}) {
      EXPECT_EQ(value, 0);
      EXPECT_FALSE(std::signbit(value));
    }
  EXPECT_TRUE(std::isnan(mean.correlation.value));
  EXPECT_NEAR(mean.lead.value, model.bits_per_spike.value - mean.bits_per_spike.value, 1e-12);
  EXPECT_NEAR(
      part.scores[0].bits_per_spike.value,
      (model.bits_per_spike.value + part.sessions[1].all.scores[0].bits_per_spike.value) / 2,
      1e-12);

  // By hand, of unit 1.
  double gain = 0, spikes = 0;
  for (size_t r = 0; r < first.rows.size(); ++r)
    if (const size_t at = r * kUnits + 1; first.validity[at]) {
      const double count = first.counts[at], rate = first.predictors[0].rates[at];
      gain += (count * std::log(rate) - rate + 1) / std::log(2.0);
      spikes += count;
    }
  EXPECT_NEAR(session.units[1].bits_per_spike[0], gain / spikes, 1e-5);
  EXPECT_EQ(session.units[1].spikes, uint64_t(spikes));
  EXPECT_EQ(session.repeated, 1u);
  EXPECT_GT(session.units[0].ceiling, 0.3);
  EXPECT_LT(session.units[0].ceiling, 0.9);
  ASSERT_TRUE(session.trace.has_value());
  EXPECT_EQ(session.trace->repeats, kTrials / 4);
  for (size_t b = 1; b < session.bins.size(); ++b)
    EXPECT_LE(session.bins[b - 1].rate, session.bins[b].rate);
}

TEST(RecordingEvaluation, ReadsAsItWasWritten) {
  PartEvaluator evaluator("validation", 20);
  evaluator.add(simulated("s1", 3));
  const RecordingEvaluation written = {.split = "trials",
                                       .checkpoint = "last",
                                       .bootstrap = 20,
                                       .predictors = {"model", "mean rate"},
                                       .parts = {evaluator.finish()},
                                       .notes = {"a note"},
                                       .field_sessions = {"s1"}};
  const TemporaryDirectory folder;
  write_recording_evaluation(folder.path(), written);
  const RecordingEvaluation read = read_recording_evaluation(folder.path());
  const auto text = [&](const RecordingEvaluation& one) {
    const TemporaryDirectory other;
    write_recording_evaluation(other.path(), one);
    return read_text(recording_evaluation_file(other.path()));
  };
  EXPECT_EQ(text(read), text(written));
  EXPECT_EQ(evaluation_rows(*read.main_part()), evaluation_rows(*written.main_part()));
  std::string broken = read_text(recording_evaluation_file(folder.path()));
  broken[broken.size() / 2] ^= 1;
  write_text_atomically(recording_evaluation_file(folder.path()), broken);
  EXPECT_ERROR(read_recording_evaluation(folder.path()), "recording_evaluation.json");
}

}  // namespace
}  // namespace lacuna
