// For tests only: a grid whose runs are evaluated without a training.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/compare/compare.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/run/run.h"
#include "lacuna/screen/testing.h"

namespace lacuna {

inline void write_status(const fs::path& run, const std::string& status) {
  write_file(run / "run.json",
             Json({{"format", "lacuna.run"}, {"version", 1}, {"status", status}}).dump());
}

// Scores that follow from the settings alone, for two parts; no bootstrap.
inline Evaluation fake_evaluation(const Config& config) {
  const double lr = config.train.lr, seed = double(config.train.seed);
  Evaluation evaluation = {config.split, "best_pearson", 0, {}};
  for (const char* part : {"validation", "test"}) {
    const double shift = std::string(part) == "test" ? 0 : 0.5;
    const Scores model = {"model", "", {10, lr + seed / 10 + shift, seed / 100, seed * seed}, {}};
    const Scores mean = {"mean", "", {10, kNotDefined, kNotDefined, 0.1}, {}};
    evaluation.parts.push_back({part, 10, {{"label", {model, mean}}}});
  }
  return evaluation;
}

// Predictions of 60 samples in twelve units: the model knows more than `ridge`, whatever the seed,
// and as much as `twin`. Folds have samples and units, and so draws, of their own.
inline EvaluationInput real_input(const Config& config, int rounds) {
  EvaluationInput input = {
      .split = config.split, .checkpoint = "last", .labels = {"label"}, .bootstrap = rounds};
  PartPredictions part = {Part::test, {}, {}, {}, {}, HeldOutUnits{.unit = "pairs", .count = 12}};
  const bool is_fold = config.split.starts_with("gene-");
  const uint64_t fold = is_fold ? uint64_t(config.split.back() - '0') : 0;
  Random truth(7 + fold), noise(config.train.seed);
  SampleGrouping grouping = {.by = "unseen genes", .names = {"one", "all"}, .group = {}};
  BaselinePredictions ridge = {"ridge", {}}, twin = {"twin", {}};
  for (uint64_t s = 0; s < 60; ++s) {
    part.samples.push_back(s);
    part.units->units.push_back(uint32_t((s + s / 12 * fold) % 12));
    grouping.group.push_back(fold == 1 ? 1 : s % 2);  // the first fold has no sample of the first
    part.units->ptr.push_back(s + 1);
    const double value = truth.normal();
    part.measured.push_back(float(value));
    ridge.predicted.push_back(float(value + 3 * truth.normal()));
    part.predicted.push_back(float(value + 0.5 * noise.normal()));
    twin.predicted.push_back(float(value + 0.5 * noise.normal()));
  }
  part.baselines = {ridge, twin};
  if (is_fold) part.groupings = {grouping};
  part.ceilings = {config.split == "pair" ? kNotDefined : config.split == "gene-2" ? 0.8 : 0.9};
  input.parts = {part};
  return input;
}

class CompareTest : public ::testing::Test {
 protected:
  CompareTest() {
    write_screen(folder_ / "screen", {small_graph(1),
                                      small_samples(1, 20),
                                      {thirds_split(20, "random"), thirds_split(20, "pair")},
                                      {}});
    write_file(folder_ / "config.yaml", "screen: " + (folder_ / "screen").string() + "\n");
    options_.config = folder_ / "config.yaml";
    options_.splits = {"random", "pair"};
    options_.seeds = 2;
    options_.variations = {parse_variation("train.lr=0.25,0.5")};
  }

  // A trainer that is stopped, or fails, where a test says so.
  bool train(const Config& config, const fs::path& run, bool resume) {
    trained_.push_back(run.filename().string() + (resume ? " again" : ""));
    EXPECT_EQ(resume, fs::exists(run / "run.json"));
    if (!resume) Run::check_free(run);
    fs::create_directories(run);
    write_status(run, "running");
    if (fails_.contains(run.filename().string())) throw Error("the loss of batch 7 is NaN");
    if (stops_.contains(run.filename().string())) return false;
    if (bootstrap_ > 0) {
      const EvaluationInput input = real_input(config, bootstrap_);
      write_evaluation(run, input, evaluate(input));
    } else {
      write_evaluation(run, {}, fake_evaluation(config));
    }
    write_status(run, "finished");
    return true;
  }
  Comparison compare() {
    trained_.clear();
    return lacuna::compare(make_grid(options_), out(), "the command",
                           [this](const Config& config, const fs::path& run, bool resume) {
                             return train(config, run, resume);
                           });
  }
  fs::path out() const { return folder_ / "out"; }

  TemporaryDirectory folder_;
  GridOptions options_;
  std::vector<std::string> trained_;
  std::set<std::string> fails_, stops_;
  int bootstrap_ = 0;  // above 0: real predictions and draws
};

}  // namespace lacuna
