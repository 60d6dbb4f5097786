#include "lacuna/run/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/seal.h"
#include "lacuna/run/compare/compare_testing.h"
#include "lacuna/run/kept_split.h"

namespace lacuna {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace lacuna
