#include "lacuna/run/evaluation/evaluation_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/evaluation/evaluation_testing.h"
#include "lacuna/run/evaluation/evaluation_words.h"
#include "lacuna/store/kill_testing.h"
#include "lacuna/store/npy.h"

namespace lacuna {
namespace {

TEST(EvaluationFile, ComesBackFromItsRun) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (int rounds : {0, 60}) {
    TemporaryDirectory run;
    Fixture f(seed);
    f.input.bootstrap = rounds;
    add_baselines(f.input, {f.samples, kGenes, f.split, kLabels}, f.samples);
    std::vector<bool> is_seen(kGenes, true);
    for (uint32_t gene = 0; gene < 20; ++gene) is_seen[gene] = false;
    for (PartPredictions& part : f.input.parts)
      part.groupings = group_samples(f.samples, small_graph(seed, kGenes), is_seen, part.samples);
    for (PartPredictions& part : f.input.parts)
      part.baselines.push_back(
          {.name = "member 1", .predicted = part.predicted, .is_member = true});
    const Evaluation evaluation = evaluate(f.input);
    EXPECT_EQ(evaluation.parts[1].labels[0].tails.size(), 2u);
    EXPECT_GT(evaluation.parts[1].labels[0].groups.size(), 4u);
    write_evaluation(run.path(), f.input, evaluation);
    const Evaluation read = read_evaluation(run.path());
    expect_equal(read, evaluation);
    EXPECT_TRUE(read.is_checked);
    EXPECT_EQ(read_draws(read, read.parts[1]).values.size(),
              evaluation.parts[1].draws.values.size());
    EXPECT_TRUE(std::isnan(evaluation.parts[0].labels[0].scores[1].metrics.pearson));  // the mean
  }
}

// The first ensembles did not mark their members.
TEST(EvaluationFile, MembersOfOlderEnsemblesAreKnownByTheirNames) {
  TemporaryDirectory run;
  Fixture f(1);
  for (PartPredictions& part : f.input.parts)
    part.baselines = {{.name = "ridge", .predicted = part.predicted},
                      {.name = "member 1", .predicted = part.predicted, .is_member = true}};
  write_evaluation(run.path(), f.input, evaluate(f.input));
  std::string text = read_text(run / "evaluation.json");
  Json json = Json::parse(text);
  json.erase("checksum");
  for (auto& [part, of] : json.at("parts").items())
    for (auto& [label, scores] : of.at("labels").items()) {
      EXPECT_TRUE(scores.at("baselines").at("member 1").at("is_member").get<bool>());
      scores.at("baselines").at("member 1").erase("is_member");
    }
  write_file(run / "evaluation.json", json.dump());
  const auto scores = read_evaluation(run.path()).parts[0].labels[0].scores;
  EXPECT_FALSE(scores[1].is_member);
  EXPECT_TRUE(scores[2].is_member);
}

TEST(EvaluationFile, PredictionsAreArraysOfTheRun) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  TemporaryDirectory run;
  Fixture f(seed);
  f.input.parts[0].samples[0] = uint64_t(1) << 32;
  f.input.parts[1].baselines.push_back(
      {.name = "ridge", .predicted = f.input.parts[1].measured, .is_fitted = {true, false}});
  f.input.parts[1].baselines.push_back(
      {.name = "ridge", .predicted = f.input.parts[1].predicted, .fitted_on = "other"});
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
  const PartPredictions& test = f.input.parts[1];
  const Array ridge = read_npy(run / "predictions/test.baseline.ridge.npy");
  const Array other = read_npy(run / "predictions/test.baseline.ridge.other.npy");
  EXPECT_EQ(ridge.shape(), (Shape{100, 2}));
  for (size_t s = 0; s < 100; ++s) {
    expect_equal(ridge.as<float>()[2 * s], test.measured[2 * s]);
    EXPECT_TRUE(std::isnan(ridge.as<float>()[2 * s + 1]));  // left out of that label
    EXPECT_EQ(other.as<float>()[2 * s + 1], test.predicted[2 * s + 1]);
  }
  EXPECT_EQ(read_npy(run / "predictions/test.draws.npy").shape(), (Shape{3, 60, 2, 3}));
}

TEST(EvaluationFile, ANewOneLeavesNothingOfTheOld) {
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
  // A write that fails leaves the old one.
  f.input.parts[0].predicted.clear();
  EXPECT_THROW(write_evaluation(run.path(), f.input, {}), std::exception);
  EXPECT_EQ(read_evaluation(run.path()).parts.size(), 1u);
}

TEST(EvaluationFile, SaysWhatIsWrong) {
  TemporaryDirectory run;
  EXPECT_ERROR(read_evaluation(run.path()), "has not been evaluated");
  for (const char* text : {"", "{}", "[]", "{\"format\": \"lacuna.evaluation\", \"version\": 1}",
                           "{\"format\": 3, \"version\": \"x\"}"}) {
    write_file(run / "evaluation.json", text);
    EXPECT_ERROR(read_evaluation(run.path()), "evaluation.json is damaged: ");
  }
  write_file(run / "evaluation.json", "{\"format\": \"lacuna.evaluation\", \"version\": 2}");
  EXPECT_ERROR(read_evaluation(run.path()), "newer Lacuna");
}

// The model's MSE on the test part by evaluation.json, which must be that of the predictions.
double mse_of(const fs::path& run) {
  const Evaluation evaluation = read_evaluation(run);
  const auto column = [&](const std::string& what) {
    const Array array = read_npy(evaluation.files.find("predictions/test." + what + ".npy"));
    std::vector<float> values;
    for (size_t i = 0; i < array.size(); i += 2) values.push_back(array.as<float>()[i]);
    return values;
  };
  const double mse = evaluation.parts.back().labels[0].scores[0].metrics.mse;
  EXPECT_DOUBLE_EQ(compute_metrics(column("predicted"), column("measured")).mse, mse);
  return mse;
}

TEST(EvaluationFile, AKillAtAnyStepLeavesTheOldOrTheNew) {
  Fixture first(1), second(2);
  first.input.bootstrap = second.input.bootstrap = 2;
  const Evaluation before = evaluate(first.input), after = evaluate(second.input);
  const double old_mse = before.parts[1].labels[0].scores[0].metrics.mse;
  const double new_mse = after.parts[1].labels[0].scores[0].metrics.mse;
  bool was_killed = true;
  int old = 0, fresh = 0;
  for (int k = 0; was_killed; ++k) {
    TemporaryDirectory run;
    write_evaluation(run.path(), first.input, before);
    was_killed = killed_at(k, [&] { write_evaluation(run.path(), second.input, after); });
    const double mse = mse_of(run.path());
    EXPECT_TRUE(mse == old_mse || mse == new_mse) << "killed at step " << k;
    old += was_killed && mse == old_mse;
    fresh += was_killed && mse == new_mse;
  }
  EXPECT_GT(old, 10);
  EXPECT_GT(fresh, 5);
}

TEST(EvaluationFile, ADamagedFileIsNamed) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  TemporaryDirectory run;
  Fixture f(seed);
  f.input.parts[1].baselines.push_back({.name = "ridge", .predicted = f.input.parts[1].measured});
  write_evaluation(run.path(), f.input, evaluate(f.input));
  Random random(seed);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(run.path())) {
    if (!entry.is_regular_file()) continue;
    ++files;
    const std::string whole = read_text(entry.path());
    std::string bad = whole;
    bad[random.below(bad.size())] ^= char(1 << random.below(8));
    write_file(entry.path(), bad);
    EXPECT_ERROR(read_evaluation(run.path()), entry.path().filename().string());
    write_file(entry.path(), whole);
    read_evaluation(run.path());
  }
  EXPECT_EQ(files, 1 + 4 + 5);
  fs::remove(run / "predictions/test.baseline.ridge.npy");
  EXPECT_ERROR(read_evaluation(run.path()),
               "test.baseline.ridge.npy is missing; run `lacuna evaluate");
}

TEST(EvaluationFile, OneOfAnOlderVersionOpensNotCheckedAndWithoutDifferences) {
  TemporaryDirectory run;
  write_file(run / "evaluation.json", R"({"format": "lacuna.evaluation", "version": 1,
    "split": "random", "checkpoint": "last", "bootstrap": {"rounds": 1000, "level": 0.95},
    "parts": {"test": {"samples": 9, "labels": {"fitness": {
      "model": {"count": 9, "pearson": 0.5, "spearman": 0.5, "mse": 1,
        "interval": {"pearson": [0.4, 0.6], "spearman": [0.4, 0.6], "mse": [0.9, 1.1]}},
      "baselines": {"mean": {"count": 9, "pearson": null, "spearman": null, "mse": 2,
        "interval": {"pearson": [null, null], "spearman": [null, null], "mse": [1.9, 2.1]}}}}}}}})");
  const Evaluation evaluation = read_evaluation(run.path());
  EXPECT_FALSE(evaluation.is_checked);
  EXPECT_FALSE(evaluation.parts[0].labels[0].scores[1].difference);
  EXPECT_EQ(evaluation.parts[0].unit, "");
  EXPECT_TRUE(read_draws(evaluation, evaluation.parts[0]).values.empty());
  EXPECT_THAT(evaluation_rows(evaluation)[2], ::testing::Contains("not computed").Times(2));
  EXPECT_THAT(evaluation_lines(evaluation),
              ::testing::ElementsAre(::testing::HasSubstr("1,000 draws of its 9 samples")));
}

}  // namespace
}  // namespace lacuna
