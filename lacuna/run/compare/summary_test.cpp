#include "lacuna/run/compare/summary.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "lacuna/run/compare/compare_testing.h"
#include "lacuna/run/compare/summary_file.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using SummaryTest = CompareTest;

TEST_F(SummaryTest, TheDifferenceIsThatOfTheMeanOverSeedsInEveryDraw) {
  options_.seeds = 3;
  options_.splits = {"random"};
  options_.variations = {};
  bootstrap_ = 80;
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.rows.size(), 3u);
  EXPECT_FALSE(comparison.rows[0].difference);
  // From the predictions, draw by draw.
  for (size_t b = 0; b < 2; ++b) {
    const SummaryRow& row = comparison.rows[b + 1];
    std::vector<double> means(80, 0.0), values;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Config config = parse_config("screen: any", {});
      config.train.seed = seed;
      const PartPredictions part = real_input(config, 80).parts[0];
      const std::vector<float>& baseline = part.baselines[b].predicted;
      const auto draws = bootstrap({part.predicted, baseline}, part.measured, *part.units, 0, 80);
      for (size_t r = 0; r < 80; ++r) means[r] += (draws[0][r].pearson - draws[1][r].pearson) / 3;
      values.push_back(compute_metrics(part.predicted, part.measured).pearson -
                       compute_metrics(baseline, part.measured).pearson);
    }
    const Interval expected = middle(means);
    ASSERT_TRUE(row.difference);
    EXPECT_NEAR(row.difference->mean.interval.pearson.low, expected.low, 1e-6);  // kept as f32
    EXPECT_NEAR(row.difference->mean.interval.pearson.high, expected.high, 1e-6);
    EXPECT_NEAR(row.difference->pearson.mean, spread_of(values).mean, 1e-12);
    EXPECT_NEAR(row.difference->pearson.sd, spread_of(values).sd, 1e-12);
  }
  const auto rows = comparison_rows(comparison);
  EXPECT_EQ(rows[0][rows[0].size() - 3], "noise ceiling");
  EXPECT_EQ(rows[1][rows[1].size() - 3], "0.9");
  EXPECT_EQ(rows[2][rows[2].size() - 3], "");  // said once, on the model's row
  EXPECT_EQ(rows[2].back(), "ahead");
  EXPECT_EQ(rows[3].back(), "not told apart");
  EXPECT_THAT(rows[2][rows[2].size() - 2], ::testing::StartsWith("Pearson +0."));
  const Json ridge = Json::parse(read_text(out() / "summary.json")).at("rows").at(1);
  EXPECT_EQ(ridge.at("difference").at("model_is"), "ahead");
  EXPECT_EQ(ridge.at("noise_ceiling"), 0.9);
  EXPECT_EQ(read_summary(out()).rows[1].row.ceiling, 0.9);
  EXPECT_EQ(ridge.at("difference").at("pearson").at("runs"), 3);
  EXPECT_THAT(read_text(out() / "summary.csv"), HasSubstr(",not told apart,"));
}

TEST_F(SummaryTest, FoldsAreSummedUpOverFoldsAndSeeds) {
  const auto fold = [&](int number) {
    Split split = thirds_split(20, "gene-" + std::to_string(number));
    split.how = {{"by", "gene"},
                 {"folds", {{"name", "gene"}, {"fold", number}, {"of", 3}}},
                 {"test_genes", 10 * number}};
    return split;
  };
  const auto refused = [&] { return error_of([&] { fold_splits(folder_ / "screen", "gene"); }); };
  EXPECT_THAT(refused(), HasSubstr("no folds 'gene'; make them: `lacuna split"));
  add_split(folder_ / "screen", fold(2));
  EXPECT_THAT(refused(), HasSubstr("only 1 of 3 folds"));
  add_split(folder_ / "screen", fold(1));
  add_split(folder_ / "screen", fold(3));
  options_.splits = fold_splits(folder_ / "screen", "gene");
  EXPECT_THAT(options_.splits, ElementsAre("gene-1", "gene-2", "gene-3"));
  options_.seeds = 3;
  options_.variations = {};
  bootstrap_ = 80;
  const Comparison comparison = compare();
  ASSERT_EQ(comparison.rows.size(), 12u);  // three predictors of each fold, and of all
  EXPECT_THAT(comparison.held_out,
              ElementsAre("gene (3 folds): 60 genes were held out for test, each in one fold"));
  std::map<std::string, const SummaryRow*> ridge;
  for (const SummaryRow& row : comparison.rows)
    if (row.predictor == "ridge") ridge[row.split] = &row;
  const SummaryRow& all = *ridge.at("gene (3 folds)");
  EXPECT_EQ(all.pearson.runs, 9u);
  EXPECT_NEAR(all.ceiling, (0.9 + 0.8 + 0.9) / 3, 1e-12);
  std::vector<double> fold_means, leads(80, 0.0);
  for (const std::string& split : options_.splits) {
    fold_means.push_back(ridge.at(split)->pearson.mean);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Config config = parse_config("screen: any", {});
      config.split = split;
      config.train.seed = seed;
      const PartPredictions part = real_input(config, 80).parts[0];
      const auto draws = bootstrap({part.predicted, part.baselines[0].predicted}, part.measured,
                                   *part.units, 0, 80);
      for (size_t r = 0; r < 80; ++r) leads[r] += (draws[0][r].pearson - draws[1][r].pearson) / 9;
    }
  }
  // Folds are the observations of the interval of the mean, not their seeds.
  const Spread expected = spread_of(fold_means);
  EXPECT_NEAR(all.pearson.mean, expected.mean, 1e-12);
  EXPECT_NEAR(all.pearson.interval.low, expected.interval.low, 1e-12);
  EXPECT_NEAR(all.pearson.interval.high, expected.interval.high, 1e-12);
  ASSERT_TRUE(all.difference);
  EXPECT_EQ(all.difference->mean.units, 36u);
  // Every fold takes part with its own draws.
  EXPECT_NEAR(all.difference->mean.interval.pearson.low, middle(leads).low, 1e-6);  // kept as f32
  EXPECT_NEAR(all.difference->mean.interval.pearson.high, middle(leads).high, 1e-6);
  for (const std::string& split : options_.splits)
    EXPECT_GT(std::abs(all.difference->mean.interval.pearson.low -
                       ridge.at(split)->difference->mean.interval.pearson.low),
              1e-3);
  const GridSummary read = read_summary(out());
  EXPECT_NEAR(read.rows[10].row.pearson.interval.low, all.pearson.interval.low, 1e-9);
  EXPECT_TRUE(std::isnan(read.rows[10].row.difference->pearson.interval.low));
}

// Groups and tails, over the folds that have them.
TEST_F(SummaryTest, SamplesToldApartAreAveragedOverRuns) {
  for (int number = 1; number <= 2; ++number) {
    Split split = thirds_split(20, "gene-" + std::to_string(number));
    split.how = {{"by", "gene"},
                 {"folds", {{"name", "gene"}, {"fold", number}, {"of", 2}}},
                 {"test_genes", 10}};
    add_split(folder_ / "screen", split);
  }
  options_.splits = fold_splits(folder_ / "screen", "gene");
  options_.seeds = 2;
  options_.variations = {};
  bootstrap_ = 20;
  compare();
  const GridSummary read = read_summary(out());
  const SummaryRow& model = read.rows.at(6).row;
  EXPECT_EQ(model.split, "gene (2 folds)");
  EXPECT_EQ(model.predictor, "model");
  std::vector<std::string> told;
  for (const ApartSpread& apart : model.apart) told.push_back(apart.samples + ": " + apart.score);
  EXPECT_THAT(told,
              ElementsAre("one gene unseen: pearson", "all genes unseen: pearson",
                          "the lowest 5%: average_precision", "the lowest 5%: precision_at_k",
                          "the highest 5%: average_precision", "the highest 5%: precision_at_k"));
  EXPECT_EQ(model.apart[0].spread.runs, 2u);  // of the second fold
  EXPECT_EQ(model.apart[1].spread.runs, 4u);
  std::vector<double> values;
  for (const char* name : {"gene-1_seed=1", "gene-1_seed=2", "gene-2_seed=1", "gene-2_seed=2"}) {
    const Evaluation evaluation = read_evaluation(out() / name);
    for (const GroupScores& group : evaluation.parts[0].labels[0].groups)
      if (group.name == "all") values.push_back(group.model().metrics.pearson);
  }
  EXPECT_EQ(values.size(), 4u);
  EXPECT_NEAR(model.apart[1].spread.mean, spread_of(values).mean, 1e-12);
}

TEST_F(SummaryTest, RunsThatMetOtherDrawsAreNotAveraged) {
  options_.seeds = 2;
  options_.splits = {"random"};
  options_.variations = {};
  stops_ = {"random_seed=2"};
  bootstrap_ = 40;
  compare();
  stops_.clear();
  bootstrap_ = 50;
  const Comparison mixed = compare();
  EXPECT_FALSE(mixed.rows[1].difference);
  EXPECT_THAT(mixed.rows[1].problem, HasSubstr("different draws"));
  // As an older version wrote it: scores alone.
  const fs::path file = out() / "random_seed=1" / "evaluation.json";
  Json json = Json::parse(read_text(file));
  json.erase("files");
  json.erase("checksum");
  for (auto& [name, part] : json.at("parts").items()) {
    part.erase("resampled");
    part.erase("predictors");
  }
  write_file(file, json.dump());
  EXPECT_THAT(compare().rows[1].problem, HasSubstr("not computed; run `lacuna evaluate"));
}

}  // namespace
}  // namespace lacuna
