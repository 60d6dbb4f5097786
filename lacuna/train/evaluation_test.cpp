#include "lacuna/train/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/load/screen_batch.h"
#include "lacuna/screen/testing.h"
#include "lacuna/store/npy.h"

namespace lacuna {
namespace {

constexpr uint32_t kGenes = 40;
constexpr uint64_t kLabels[] = {1, 0};  // other than their order in the screen

std::vector<uint64_t> numbers_of(const Split& split, Part part) {
  const auto samples = samples_in(split, part);
  return {samples.begin(), samples.end()};
}

// A model that is the measurement and some noise, on both held-out parts.
EvaluationInput example(const Samples& samples, const Split& split, uint64_t seed) {
  Random random(seed, 7);
  EvaluationInput input = {.split = split.name,
                           .checkpoint = "best_pearson",
                           .labels = {"interaction", "fitness"},
                           .bootstrap = 60};
  for (Part part : {Part::validation, Part::test}) {
    PartPredictions predictions = {part, numbers_of(split, part), {}, {}, {}};
    predictions.measured = measured_labels(samples, kLabels, predictions.samples);
    for (float value : predictions.measured)
      predictions.predicted.push_back(std::isnan(value) ? 0 : value + float(random.normal()));
    input.parts.push_back(std::move(predictions));
  }
  return input;
}

struct Fixture {
  explicit Fixture(uint64_t seed, uint64_t count = 400)
      : samples(small_samples(seed, count, kGenes)),
        split(thirds_split(count)),
        input(example(samples, split, seed)) {}
  Samples samples;
  Split split;
  EvaluationInput input;
};

void expect_equal(double a, double b) { EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))); }

void expect_equal(const Interval& a, const Interval& b) {
  expect_equal(a.low, b.low);
  expect_equal(a.high, b.high);
}

void expect_equal(const Scores& a, const Scores& b) {
  EXPECT_EQ(a.predictor, b.predictor);
  EXPECT_EQ(a.note, b.note);
  EXPECT_EQ(a.metrics.count, b.metrics.count);
  expect_equal(a.metrics.pearson, b.metrics.pearson);
  expect_equal(a.metrics.spearman, b.metrics.spearman);
  expect_equal(a.metrics.mse, b.metrics.mse);
  ASSERT_EQ(a.intervals.has_value(), b.intervals.has_value());
  if (!a.intervals) return;
  expect_equal(a.intervals->pearson, b.intervals->pearson);
  expect_equal(a.intervals->spearman, b.intervals->spearman);
  expect_equal(a.intervals->mse, b.intervals->mse);
}

void expect_equal(const Evaluation& a, const Evaluation& b) {
  EXPECT_EQ(a.split, b.split);
  EXPECT_EQ(a.checkpoint, b.checkpoint);
  EXPECT_EQ(a.bootstrap, b.bootstrap);
  EXPECT_EQ(a.notes, b.notes);
  ASSERT_EQ(a.parts.size(), b.parts.size());
  for (size_t p = 0; p < a.parts.size(); ++p) {
    EXPECT_EQ(a.parts[p].part, b.parts[p].part);
    EXPECT_EQ(a.parts[p].samples, b.parts[p].samples);
    ASSERT_EQ(a.parts[p].labels.size(), b.parts[p].labels.size());
    for (size_t l = 0; l < a.parts[p].labels.size(); ++l) {
      const LabelEvaluation &x = a.parts[p].labels[l], &y = b.parts[p].labels[l];
      EXPECT_EQ(x.label, y.label);
      ASSERT_EQ(x.scores.size(), y.scores.size());
      for (size_t i = 0; i < x.scores.size(); ++i) expect_equal(x.scores[i], y.scores[i]);
    }
  }
}

TEST(Evaluation, ScoresModelAndBaselinesOnTheSameSamples) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed);
  Fixture f(seed);
  add_baselines(f.input, f.samples, kGenes, f.split, kLabels);
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

TEST(Evaluation, ComesBackFromItsRun) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed);
  for (int rounds : {0, 60}) {
    TemporaryDirectory run;
    Fixture f(seed);
    f.input.bootstrap = rounds;
    add_baselines(f.input, f.samples, kGenes, f.split, kLabels);
    const Evaluation evaluation = evaluate(f.input);
    write_evaluation(run.path(), f.input, evaluation);
    expect_equal(read_evaluation(run.path()), evaluation);
    EXPECT_TRUE(std::isnan(evaluation.parts[0].labels[0].scores[1].metrics.pearson));  // the mean
  }
}

TEST(Evaluation, ABaselineMayBeLeftOutOfOneLabel) {
  const uint64_t seed = fresh_seed();
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
  add_baselines(f.input, f.samples, kGenes, f.split, kLabels, {.pairs = pairs});
  const Evaluation evaluation = evaluate(f.input);
  const auto predictors = [&](size_t l) {
    std::vector<std::string> names;
    for (const Scores& scores : evaluation.parts[1].labels[l].scores)
      names.push_back(scores.predictor);
    return names;
  };
  EXPECT_THAT(predictors(0),
              testing::ElementsAre("model", "mean", "gene", "pair", "ridge", "ridge_pairs"));
  EXPECT_THAT(predictors(1), testing::ElementsAre("model", "mean", "gene", "ridge"));
  EXPECT_THAT(evaluation.notes,
              testing::ElementsAre(testing::StartsWith("left out for label 'fitness': pair and")));
  write_evaluation(run.path(), f.input, evaluation);
  expect_equal(read_evaluation(run.path()), evaluation);
}

TEST(Evaluation, PredictionsAreArraysOfTheRun) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed);
  TemporaryDirectory run;
  Fixture f(seed);
  f.input.parts[0].samples[0] = uint64_t(1) << 32;
  write_evaluation(run.path(), f.input, evaluate(f.input));
  for (size_t p = 0; p < 2; ++p) {
    const PartPredictions& part = f.input.parts[p];
    const std::string stem = p == 0 ? "predictions/validation." : "predictions/test.";
    const Array sample = read_npy(run / (stem + "sample.npy"));
    const Array predicted = read_npy(run / (stem + "predicted.npy"));
    const Array measured = read_npy(run / (stem + "measured.npy"));
    EXPECT_EQ(sample.dtype(), p == 0 ? DType::u64 : DType::u32);
    EXPECT_EQ(sample.shape(), (Shape{100}));
    EXPECT_EQ(predicted.shape(), (Shape{100, 2}));
    EXPECT_EQ(measured.shape(), (Shape{100, 2}));
    EXPECT_EQ(p == 0 ? sample.as<uint64_t>()[1] : sample.as<uint32_t>()[1], part.samples[1]);
    for (size_t i = 0; i < part.predicted.size(); ++i) {
      EXPECT_EQ(predicted.as<float>()[i], part.predicted[i]);
      expect_equal(measured.as<float>()[i], part.measured[i]);
    }
  }
}

TEST(Evaluation, ANewOneLeavesNothingOfTheOld) {
  TemporaryDirectory run;
  Fixture f(1);
  write_evaluation(run.path(), f.input, evaluate(f.input));
  EXPECT_TRUE(fs::exists(run / "predictions/validation.sample.npy"));
  write_file(run / "predictions/mine.npy", "the user's own");
  f.input.parts.erase(f.input.parts.begin());
  write_evaluation(run.path(), f.input, evaluate(f.input));
  for (const char* what : {"sample", "predicted", "measured"})
    EXPECT_FALSE(fs::exists(run / fmt::format("predictions/validation.{}.npy", what)));
  EXPECT_EQ(read_text(run / "predictions/mine.npy"), "the user's own");
  EXPECT_EQ(read_evaluation(run.path()).parts.size(), 1u);
  // A write that fails leaves a run without an evaluation, not with the old one.
  fs::remove_all(run / "predictions");
  fs::create_directory(run / "predictions");
  f.input.parts[0].predicted.clear();
  EXPECT_THROW(write_evaluation(run.path(), f.input, {}), std::exception);
  EXPECT_ERROR(read_evaluation(run.path()), "has not been evaluated; run `lacuna evaluate");
}

TEST(Evaluation, SaysWhatIsWrong) {
  TemporaryDirectory run;
  EXPECT_ERROR(read_evaluation(run.path()), "has not been evaluated");
  for (const char* text : {"", "{}", "[]", "{\"format\": \"lacuna.evaluation\", \"version\": 1}",
                           "{\"format\": 3, \"version\": \"x\"}"}) {
    write_file(run / "evaluation.json", text);
    EXPECT_ERROR(read_evaluation(run.path()), "evaluation.json: ");
  }
  write_file(run / "evaluation.json", "{\"format\": \"lacuna.evaluation\", \"version\": 2}");
  EXPECT_ERROR(read_evaluation(run.path()), "made by another version");
  Fixture f(1);
  f.input.parts.push_back(f.input.parts[1]);
  EXPECT_ERROR(evaluate(f.input), "part 'test' is to be evaluated twice");
}

TEST(Evaluation, RowsForPeople) {
  Evaluation evaluation = {"pair", "last", 10, {}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Scores model = {
      "model", "", {1234, 0.56789, 0.4, 0.0123456}, {{{0.5, 0.6}, {0.3, 0.45}, {0.01, 0.02}}}};
  const Scores mean = {"mean", "", {1234, nan, nan, 0.5}, {{{nan, nan}, {nan, nan}, {0.4, 0.6}}}};
  evaluation.parts = {{"test", 1300, {{"fitness", {model, mean}}}}};
  using Rows = std::vector<std::vector<std::string>>;
  const Rows expected = {
      {"part", "predictor", "measured", "Pearson", "95%", "Spearman", "95%", "MSE", "95%"},
      {"test", "model", "1234", "0.5679", "0.5 to 0.6", "0.4", "0.3 to 0.45", "0.01235",
       "0.01 to 0.02"},
      {"test", "mean", "1234", "-", "-", "-", "-", "0.5", "0.4 to 0.6"}};
  EXPECT_EQ(evaluation_rows(evaluation), expected);
  evaluation.parts[0].labels.push_back({"interaction", {model}});
  evaluation.bootstrap = 0;
  EXPECT_THAT(
      evaluation_rows(evaluation)[0],
      testing::ElementsAre("part", "label", "predictor", "measured", "Pearson", "Spearman", "MSE"));
  EXPECT_THAT(
      evaluation_rows(evaluation)[3],
      testing::ElementsAre("test", "interaction", "model", "1234", "0.5679", "0.4", "0.01235"));
}

}  // namespace
}  // namespace lacuna
