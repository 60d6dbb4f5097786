#include "lacuna/run/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "lacuna/core/random.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/compare/summary_file.h"
#include "lacuna/run/evaluation/evaluation.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/run/kept_split.h"
#include "lacuna/run/run.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void write_status(const fs::path& run, const std::string& status) {
  write_file(run / "run.json",
             Json({{"format", "lacuna.run"}, {"version", 1}, {"status", status}}).dump());
}

// Scores that follow from the settings alone, for two parts; no bootstrap.
Evaluation fake_evaluation(const Config& config) {
  const double lr = config.train.lr, seed = double(config.train.seed);
  Evaluation evaluation = {config.split, "best_pearson", 0, {}};
  for (const char* part : {"validation", "test"}) {
    const double shift = std::string(part) == "test" ? 0 : 0.5;
    const Scores model = {"model", "", {10, lr + seed / 10 + shift, seed / 100, seed * seed}, {}};
    const Scores mean = {"mean", "", {10, kNan, kNan, 0.1}, {}};
    evaluation.parts.push_back({part, 10, {{"label", {model, mean}}}});
  }
  return evaluation;
}

// Predictions of 60 samples in twelve units: the model knows more than `ridge`, whatever the seed,
// and as much as `twin`. Folds have samples and units, and so draws, of their own.
EvaluationInput real_input(const Config& config, int rounds) {
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
  part.ceilings = {config.split == "pair" ? kNan : config.split == "gene-2" ? 0.8 : 0.9};
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

TEST_F(CompareTest, RunsTheGridOnceAndSummarisesOverSeeds) {
  options_.seeds = 3;
  const Comparison first = compare();
  EXPECT_EQ(trained_.size(), 12u);
  EXPECT_EQ(first.finished, 12u);
  EXPECT_EQ(first.total, 12u);
  EXPECT_FALSE(first.stopped);
  ASSERT_EQ(first.rows.size(), 2u * 2 * 2 * 2);  // splits, rates, parts, predictors
  for (const auto& row : first.rows) {
    const double lr = row.values[0] == "0.25" ? 0.25 : 0.5;
    EXPECT_EQ(row.mse.runs, 3u);
    if (row.predictor == "mean") {
      EXPECT_EQ(row.pearson.runs, 0u);
      EXPECT_EQ(row.mse.sd, 0);
      continue;
    }
    const double shift = row.part == "test" ? 0 : 0.5;
    EXPECT_NEAR(row.pearson.mean, lr + 0.2 + shift, 1e-12);
    EXPECT_NEAR(row.pearson.sd, 0.1, 1e-12);
    EXPECT_NEAR(row.pearson.min, lr + 0.1 + shift, 1e-12);
    EXPECT_NEAR(row.pearson.max, lr + 0.3 + shift, 1e-12);
    EXPECT_NEAR(row.mse.mean, 14.0 / 3, 1e-12);
  }
  const std::string summary = read_text(out() / "summary.json");
  compare();
  EXPECT_TRUE(trained_.empty());
  EXPECT_EQ(read_text(out() / "summary.json"), summary);
}

TEST_F(CompareTest, GoesOnWhereItWasStopped) {
  stops_ = {"pair_train.lr=0.5_seed=1"};
  const Comparison stopped = compare();
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.finished, 3u);
  EXPECT_EQ(trained_.back(), "pair_train.lr=0.5_seed=1");
  EXPECT_EQ(Json::parse(read_text(out() / "summary.json"))["runs"]["finished"], 3);
  stops_.clear();
  const Comparison rest = compare();
  EXPECT_EQ(trained_.size(), 5u);
  EXPECT_EQ(trained_[0], "pair_train.lr=0.5_seed=1 again");
  EXPECT_EQ(trained_[1], "random_train.lr=0.25_seed=2");
  EXPECT_EQ(rest.finished, 8u);
  EXPECT_FALSE(rest.stopped);
}

TEST_F(CompareTest, ARunThatWasKilledIsResumedAtAnyPlace) {
  compare();
  const fs::path run = out() / "pair_train.lr=0.5_seed=2";
  fs::remove(run / "evaluation.json");  // killed before the evaluation
  compare();
  EXPECT_THAT(trained_, ElementsAre("pair_train.lr=0.5_seed=2 again"));
  fs::remove_all(run);
  fs::create_directories(run / "checkpoints");  // killed before run.json was written
  write_file(run / "config.yaml", "");
  write_file(run / "lock", "");  // or perhaps another process is about to train it: its files stay
  compare();
  EXPECT_THAT(trained_, ElementsAre("pair_train.lr=0.5_seed=2"));
  EXPECT_TRUE(fs::exists(run / "lock"));
  fs::remove(run / "run.json");
  fs::create_directories(run / "checkpoints");
  write_file(run / "checkpoints" / "last.safetensors", "of days");
  EXPECT_THAT(compare().failures.at(0).message, HasSubstr("holds something else"));
  EXPECT_TRUE(fs::exists(run / "checkpoints" / "last.safetensors"));
  write_file(run / "run.json", "{\"status");
  EXPECT_ERROR(compare(), "run.json: damaged; delete");
}

TEST_F(CompareTest, AFailedRunIsSaidAndTheOthersGoOn) {
  fails_ = {"random_train.lr=0.5_seed=2"};
  const Comparison comparison = compare();
  EXPECT_EQ(trained_.size(), 8u);
  EXPECT_EQ(comparison.finished, 7u);
  ASSERT_EQ(comparison.failures.size(), 1u);
  EXPECT_EQ(comparison.failures[0].run, "random_train.lr=0.5_seed=2");
  EXPECT_THAT(comparison.failures[0].message, HasSubstr("NaN"));
  const Json summary = Json::parse(read_text(out() / "summary.json"));
  EXPECT_EQ(summary["failures"][0]["run"], "random_train.lr=0.5_seed=2");
  for (const auto& row : comparison.rows)
    EXPECT_EQ(row.mse.runs, row.split == "random" && row.values[0] == "0.5" ? 1u : 2u);
}

TEST_F(CompareTest, ALargerGridRunsOnlyWhatIsNew) {
  compare();
  options_.seeds = 3;
  compare();
  EXPECT_EQ(trained_.size(), 4u);
  options_.seeds = 2;
  EXPECT_ERROR(compare(), "it has 3 seeds");
  EXPECT_TRUE(trained_.empty());
}

// Another one under the same name.
void redraw_split(const fs::path& screen, const std::string& name) {
  Split split = remove_split(screen, name);
  const auto old = split.parts.as<uint8_t>();
  std::vector<uint8_t> parts(old.begin(), old.end());
  std::rotate(parts.begin(), parts.begin() + 1, parts.end());
  split.parts = Array::from(std::move(parts));
  add_split(screen, split);
}

TEST_F(CompareTest, ASplitThatWasDrawnAnewIsRefused) {
  Split named = remove_split(folder_ / "screen", "pair");
  named.how["command"] = "lacuna split screen --name pair --seed 7";
  add_split(folder_ / "screen", named);
  stops_ = {"pair_train.lr=0.5_seed=2"};
  compare();
  const std::string before = read_text(out() / "compare.json");
  redraw_split(folder_ / "screen", "pair");
  EXPECT_ERROR(compare(), "split 'pair' of " + (folder_ / "screen").string() +
                              " is not the one that its runs were trained on; make it as it was "
                              "(`lacuna split screen --name pair --seed 7`)");
  EXPECT_TRUE(trained_.empty());
  options_.seeds = 3;  // nor in a larger grid
  EXPECT_ERROR(compare(), "split 'pair'");
  EXPECT_EQ(read_text(out() / "compare.json"), before);
  remove_split(folder_ / "screen", "pair");
  add_split(folder_ / "screen", named);  // the remedy
  options_.seeds = 2;
  stops_.clear();
  compare();
  EXPECT_THAT(trained_, ElementsAre("pair_train.lr=0.5_seed=2 again"));
}

// The grid of an older version: its runs know what they were trained on, or it is said.
TEST_F(CompareTest, RunsOfAnotherSplitAreNotMixedIn) {
  compare();
  Json older = Json::parse(read_text(out() / "compare.json"));
  for (const char* member : {"drawn", "checksum"}) older.erase(member);
  const auto forget = [&] { write_file(out() / "compare.json", older.dump()); };
  forget();
  EXPECT_THAT(compare().notes, ::testing::SizeIs(8));
  EXPECT_THAT(compare().notes, ::testing::IsEmpty());  // from now on it is known

  const fs::path path = out() / "random_train.lr=0.25_seed=1";
  const Screen screen = Screen::open(folder_ / "screen");
  fs::remove_all(path);
  Run::create(path, "").update({{"status", "finished"}});
  keep_split(Run::open(path), screen, screen.split("random"));
  write_evaluation(path, {}, fake_evaluation(make_grid(options_).runs[0].config));
  forget();
  EXPECT_THAT(compare().notes, ::testing::SizeIs(7));
  EXPECT_THAT(trained_, ::testing::IsEmpty());
  redraw_split(folder_ / "screen", "random");
  forget();
  EXPECT_ERROR(compare(), "is not the one that " + path.string() + " was begun with");
}

TEST_F(CompareTest, ADamagedCompareJsonIsRefused) {
  compare();
  std::string text = read_text(out() / "compare.json");
  text[text.find("\"seeds\": 2") + 9] = '1';
  write_file(out() / "compare.json", text);
  EXPECT_ERROR(compare(), "compare.json is damaged: its bytes have changed");
  EXPECT_EQ(seal_of_json(read_text(out() / "summary.json")), Seal::intact);
}

TEST_F(CompareTest, NothingIsWrittenWhenASplitIsMissing) {
  options_.splits.push_back("gene");
  EXPECT_ERROR(compare(), "has no split 'gene'");
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(CompareTest, EveryRunIsHeardOf) {
  std::vector<std::string> heard;
  stops_ = {"pair_train.lr=0.25_seed=1"};
  compare();
  stops_.clear();
  lacuna::compare(
      make_grid(options_), out(), "",
      [this](const Config& config, const fs::path& run, bool resume) {
        return train(config, run, resume);
      },
      [&](const GridRun& run, size_t number, size_t total, RunState state) {
        EXPECT_EQ(number, heard.size());
        EXPECT_EQ(total, 8u);
        heard.push_back(run.name + fmt::format(" {}", int(state)));
      });
  ASSERT_EQ(heard.size(), 8u);
  EXPECT_EQ(heard[0], fmt::format("random_train.lr=0.25_seed=1 {}", int(RunState::finished)));
  EXPECT_EQ(heard[2], fmt::format("pair_train.lr=0.25_seed=1 {}", int(RunState::begun)));
  EXPECT_EQ(heard[3], fmt::format("pair_train.lr=0.5_seed=1 {}", int(RunState::missing)));
}

TEST_F(CompareTest, CsvAndTableHoldTheSameNumbers) {
  options_.seeds = 3;
  options_.splits = {"random"};
  options_.variations = {parse_variation("labels=[fitness],[fitness,interaction]")};
  const Comparison comparison = compare();
  const std::string csv = read_text(out() / "summary.csv");
  EXPECT_THAT(csv, HasSubstr("split,labels,part,label,predictor,metric,runs,mean,sd,min,max,"
                             "difference,difference_sd,difference_low,difference_high,model_is,"
                             "mean_low,mean_high\n"));
  EXPECT_THAT(csv, HasSubstr("random,[fitness],test,label,model,spearman,3,0.02,"));
  EXPECT_THAT(csv,
              HasSubstr("random,\"[fitness,interaction]\",test,label,mean,pearson,0,,,,,,,,,,,\n"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 2 * 2 * 2 * 3);
  const auto rows = comparison_rows(comparison);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_THAT(rows[0], ElementsAre("split", "labels", "part", "predictor", "runs", "Pearson", "sd",
                                   "min", "max", "95% of the mean", "Spearman", "sd", "min", "max",
                                   "95% of the mean", "MSE", "sd", "min", "max", "95% of the mean",
                                   "model minus it", "model is"));
  EXPECT_THAT(rows[1],
              ElementsAre("random", "[fitness]", "test", "model", "3", "0.201", "0.1", "0.101",
                          "0.301", "-0.0474 to 0.449", "0.02", "0.01", "0.01", "0.03",
                          "-0.00484 to 0.0448", "4.67", "4.04", "1", "9", "-5.37 to 14.7", "", ""));
  EXPECT_THAT(rows[4], ElementsAre("random", "[fitness,interaction]", "test", "mean", "3", "-", "-",
                                   "-", "-", "-", "-", "-", "-", "-", "-", "0.1", "0", "0.1", "0.1",
                                   "-", "without draws (evaluate.bootstrap is 0)", ""));
}

TEST_F(CompareTest, TheDifferenceIsThatOfTheMeanOverSeedsInEveryDraw) {
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

TEST_F(CompareTest, FoldsAreSummedUpOverFoldsAndSeeds) {
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
TEST_F(CompareTest, SamplesToldApartAreAveragedOverRuns) {
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
  for (const char* name : {"gene-1_seed=1", "gene-1_seed=2", "gene-2_seed=1", "gene-2_seed=2"})
    for (const GroupScores& group : read_evaluation(out() / name).parts[0].labels[0].groups)
      if (group.name == "all") values.push_back(group.model().metrics.pearson);
  EXPECT_EQ(values.size(), 4u);
  EXPECT_NEAR(model.apart[1].spread.mean, spread_of(values).mean, 1e-12);
}

TEST_F(CompareTest, RunsThatMetOtherDrawsAreNotAveraged) {
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
