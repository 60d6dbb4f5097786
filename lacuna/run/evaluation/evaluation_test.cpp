#include "lacuna/run/evaluation/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lacuna/core/testing.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/run/evaluation/evaluation_testing.h"

namespace lacuna {
namespace {

// Ten units of as many samples each, one after another.
HeldOutUnits ten_units(uint64_t samples) {
  HeldOutUnits units = {.unit = "pairs", .count = 10};
  for (uint64_t s = 0; s < samples; ++s) {
    units.units.push_back(uint32_t(s * 10 / samples));
    units.ptr.push_back(s + 1);
  }
  return units;
}

// On both held-out parts, with baselines.
struct WithBaselines : Fixture {
  explicit WithBaselines(uint64_t seed) : Fixture(seed) {
    add_baselines(input, {samples, kGenes, split, kLabels}, samples);
  }
};

TEST(Evaluation, ScoresModelAndBaselinesOnTheSameSamples) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  WithBaselines f(seed);
  f.input.parts[1].baselines.push_back({"mlp", f.input.parts[1].measured, {}});
  const Evaluation evaluation = evaluate(f.input);
  ASSERT_EQ(evaluation.parts.size(), 2u);
  EXPECT_EQ(evaluation.parts[1].part, "test");
  EXPECT_EQ(evaluation.parts[1].samples, 100u);
  for (size_t l = 0; l < 2; ++l) {
    const LabelEvaluation& label = evaluation.parts[1].labels[l];
    EXPECT_EQ(label.label, f.input.labels[l]);
    // Against the screen itself, sample by sample.
    std::vector<float> measured, predicted;
    for (uint64_t s = 0; s < 400; ++s)
      if (f.split.parts.as<uint8_t>()[s] == uint8_t(Part::test))
        measured.push_back(f.samples.labels.as<float>()[2 * s + kLabels[l]]);
    for (size_t s = 0; s < measured.size(); ++s)
      predicted.push_back(f.input.parts[1].predicted[2 * s + l]);
    const Metrics model = compute_metrics(predicted, measured);
    EXPECT_EQ(label.scores[0].predictor, "model");
    EXPECT_EQ(label.scores[0].metrics.pearson, model.pearson);
    EXPECT_EQ(label.scores[0].metrics.mse, model.mse);
    const auto fits = fit_baselines(f.samples, kGenes, f.split, kLabels[l]);
    for (size_t b = 0; b < fits.size(); ++b) {
      const Scores& scores = label.scores[b + 1];
      const auto test = numbers_of(f.split, Part::test);
      EXPECT_EQ(scores.predictor, fits[b].name);
      EXPECT_EQ(scores.note, fits[b].note);
      EXPECT_EQ(scores.metrics.mse,
                compute_metrics(fits[b].predict(f.samples, test), measured).mse);
      EXPECT_EQ(scores.metrics.count, model.count);
      EXPECT_LT(scores.intervals->mse.low, scores.metrics.mse);
      EXPECT_GT(scores.intervals->mse.high, scores.metrics.mse);
    }
    EXPECT_EQ(label.scores.back().predictor, "mlp");
    EXPECT_NEAR(label.scores.back().metrics.pearson, 1, 1e-12);
    EXPECT_EQ(label.scores.back().metrics.mse, 0);
  }
}

TEST(Evaluation, ABaselineMayBeLeftOutOfOneLabel) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  TemporaryDirectory run;
  Fixture f(seed);
  // Fitness is always measured, interactions now and then: of them there are fewer pairs.
  uint64_t pairs = 0;
  const RemovedReader reader(f.samples);
  std::vector<uint32_t> removed;
  for (const uint64_t s : numbers_of(f.split, Part::train)) {
    if (std::isnan(f.samples.labels.as<float>()[2 * s + kLabels[0]])) continue;
    reader.read(s, removed);
    const std::set<uint32_t> genes(removed.begin(), removed.end());
    pairs += genes.size() * (genes.size() - 1) / 2;
  }
  add_baselines(f.input, {f.samples, kGenes, f.split, kLabels}, f.samples, {.pairs = pairs});
  const Evaluation evaluation = evaluate(f.input);
  const auto predictors = [&](size_t l) {
    std::vector<std::string> names;
    for (const Scores& scores : evaluation.parts[1].labels[l].scores)
      names.push_back(scores.predictor);
    return names;
  };
  EXPECT_THAT(predictors(0),
              ::testing::ElementsAre("model", "mean", "gene", "pair", "ridge", "ridge_pairs"));
  EXPECT_THAT(predictors(1), ::testing::ElementsAre("model", "mean", "gene", "ridge"));
  EXPECT_THAT(
      evaluation.notes,
      ::testing::ElementsAre(::testing::StartsWith("left out for label 'fitness': pair and")));
  write_evaluation(run.path(), f.input, evaluation);
  expect_equal(read_evaluation(run.path()), evaluation);
}

// Else nobody would see the baseline that the ensemble is to be ahead of.
TEST(Evaluation, AMemberOfAnEnsembleIsNotTheBestBaseline) {
  WithBaselines f(1);
  for (PartPredictions& part : f.input.parts) {
    part.baselines.push_back({.name = "member 1", .predicted = part.measured, .is_member = true});
    part.groupings = {{.by = "unseen genes",
                       .names = {"one"},
                       .group = std::vector<uint8_t>(part.samples.size(), 0)}};
  }
  const LabelEvaluation label = evaluate(f.input).parts[1].labels[1];
  EXPECT_TRUE(label.scores.back().is_member);
  EXPECT_GT(label.scores.back().metrics.pearson, 0.999);
  ASSERT_TRUE(label.best_baseline() && best_of(label.groups.at(0).baselines()));
  EXPECT_FALSE(label.best_baseline()->is_member);
  EXPECT_FALSE(best_of(label.groups[0].baselines())->is_member);
  for (const TailScores& tail : label.tails) {
    ASSERT_TRUE(tail.best_baseline());
    EXPECT_FALSE(tail.best_baseline()->is_member);
    EXPECT_NEAR(tail.find("member 1")->average_precision.value, 1, 1e-9);
  }
}

TEST(Evaluation, TellsHowFarItIs) {
  struct Counted : Progress {
    void begin(std::string_view, uint64_t of, std::string_view) override { total = of; }
    void advance(uint64_t now) override {
      EXPECT_EQ(now, done + 1);
      done = now;
    }
    void end() override { is_ended = true; }
    uint64_t total = 0, done = 0;
    bool is_ended = false;
  } progress;
  WithBaselines f(1);
  for (PartPredictions& part : f.input.parts)
    part.groupings = {{.by = "unseen genes",
                       .names = {"one", "all"},
                       .group = std::vector<uint8_t>(part.samples.size(), 1)}};
  evaluate(f.input, progress);
  EXPECT_EQ(progress.total, 2u * 2 * 4);  // parts, labels: all samples, two groups, the tails
  EXPECT_EQ(progress.done, progress.total);
  EXPECT_TRUE(progress.is_ended);
}

TEST(Evaluation, APartIsNotEvaluatedTwice) {
  Fixture f(1);
  f.input.parts.push_back(f.input.parts[1]);
  EXPECT_ERROR(evaluate(f.input), "part 'test' is to be evaluated twice");
}

TEST(Evaluation, DifferencesAreOfTheSameDrawsOfWhatWasHeldOut) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  WithBaselines f(seed);
  PartPredictions& test = f.input.parts[1];
  const HeldOutUnits units = ten_units(test.samples.size());
  test.units = units;
  const PartEvaluation part = evaluate(f.input).parts[1];
  EXPECT_EQ(part.unit, "pairs");
  EXPECT_EQ(part.units, 10u);
  const auto column = [](const auto& values) { return label_column(values, 2, 1); };  // fitness
  std::vector<std::vector<float>> predictors = {column(test.predicted)};
  for (const auto& baseline : test.baselines) predictors.push_back(column(baseline.predicted));
  const auto draws = bootstrap(predictors, column(test.measured), units, 0, f.input.bootstrap);
  const LabelEvaluation& label = part.labels[1];
  ASSERT_EQ(label.scores.size(), predictors.size());
  EXPECT_FALSE(label.scores[0].difference);
  for (size_t p = 0; p < predictors.size(); ++p) {
    expect_equal(label.scores[p].intervals->mse, interval_of(draws[p]).mse);
    EXPECT_EQ(part.draws.predictors[p], label.scores[p].predictor);
    for (size_t r = 0; r < draws[p].size(); ++r)  // [P, rounds, 2 labels, 3]
      EXPECT_EQ(part.draws.values[((p * draws[p].size() + r) * 2 + 1) * 3 + 2],
                float(draws[p][r].mse));
    if (p == 0) continue;
    const Difference expected =
        difference_of(label.scores[0].metrics, label.scores[p].metrics, draws[0], draws[p]);
    expect_equal(label.scores[p].difference->interval.pearson, expected.interval.pearson);
    expect_equal(label.scores[p].difference->value.mse, expected.value.mse);
  }
}

TEST(Evaluation, ALabelThatWasMeasuredInAFewUnitsTellsNothingApart) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  TemporaryDirectory run;
  WithBaselines f(seed);
  PartPredictions& test = f.input.parts[1];
  test.units = ten_units(test.samples.size());
  for (uint64_t s = 0; s < test.samples.size(); ++s) {
    test.measured[2 * s] = test.units->units[s] < 3 ? float(s) : NAN;
    test.predicted[2 * s] = float(s);  // as good as can be
  }
  const Evaluation evaluation = evaluate(f.input);
  write_evaluation(run.path(), f.input, evaluation);
  for (const Evaluation& of : {evaluation, read_evaluation(run.path())}) {
    const PartEvaluation& part = of.parts[1];
    EXPECT_EQ(part.units, 10u);
    EXPECT_EQ(part.labels[0].units, 3u);
    EXPECT_EQ(part.labels[1].units, 10u);
    ASSERT_GT(part.labels[0].scores.size(), 1u);
    for (size_t i = 1; i < part.labels[0].scores.size(); ++i)
      EXPECT_NE(standing(*part.labels[0].scores[i].difference), Standing::ahead);
  }
}

TEST(Evaluation, BaselinesFittedElsewhereAreLabelledAndPredictTheseSamples) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Fixture f(seed);
  const Samples other = small_samples(seed + 1, 200, kGenes);  // labels in the other order
  const Split split = thirds_split(200);
  constexpr uint64_t kOther[] = {0, 1};
  add_baselines(f.input, {f.samples, kGenes, f.split, kLabels}, f.samples);
  add_baselines(f.input,
                {.samples = other,
                 .gene_count = kGenes,
                 .split = split,
                 .labels = kOther,
                 .fitted_on = "other"},
                f.samples);
  const auto& baselines = f.input.parts[1].baselines;
  ASSERT_EQ(baselines.size(), 10u);
  EXPECT_EQ(baselines[3].label(), "ridge");
  EXPECT_EQ(baselines[8].label(), "ridge (fitted on other)");
  const auto fits = fit_baselines(other, kGenes, split, 0);
  const auto expected = fits[3].predict(f.samples, f.input.parts[1].samples);
  for (size_t s = 0; s < expected.size(); ++s)
    EXPECT_EQ(baselines[8].predicted[2 * s], expected[s]);
  const Evaluation evaluation = evaluate(f.input);
  EXPECT_EQ(evaluation.parts[1].labels[0].scores[9].predictor, "ridge (fitted on other)");
}

}  // namespace
}  // namespace lacuna
