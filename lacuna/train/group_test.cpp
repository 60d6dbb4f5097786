// Several processes that train one model: the same steps as one, and only the first one writes.
#include "lacuna/train/group.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "lacuna/core/testing.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/screen/testing.h"
#include "lacuna/train/checkpoint.h"
#include "lacuna/train/loop.h"
#include "lacuna/train/ranks/testing.h"
#include "lacuna/train/recording/testing.h"
#include "lacuna/train/testing.h"
#include "lacuna/train/trainer.h"

namespace lacuna {
namespace {

// Two labels, one of them often missing, weights, and 31 training samples in batches of 6: the last
// one has a single sample, and none for the ranks behind the first.
Config config_of(const fs::path& folder, const std::vector<std::string>& settings = {}) {
  return parse_config(
      fmt::format(
          "screen: {}\nsplit: thirds\n"
          "model: {{name: hetero_gin, width: 8}}\n"
          "train: {{epochs: 2, batch: 6, log_every: 1, weight_column: weight, threads: 1}}\n"
          "evaluate: {{bootstrap: 0}}\n",
          (folder / "screen").string()),
      settings);
}

// With metabolism, and weights of which every fifth is 0.
void write_weighted_screen(const fs::path& folder) {
  const HeteroGraph graph = generate_graph(GraphSize::tiny, 1);
  Samples samples = small_samples(1, 122, graph.genes().size());
  std::vector<float> weights;
  for (uint64_t s = 0; s < samples.size(); ++s) weights.push_back(float(s % 5));
  samples.columns.push_back({"weight", Array::from(std::move(weights)), {}});
  write_screen(folder / "screen", {graph, samples, {thirds_split(122)}, {}});
}

// ---- what all ranks do
struct Outcome {
  at::Tensor weights;          // all of the model's
  std::vector<double> losses;  // of every step
  ValidationScores validation;
};

// words: the folder, and settings. A folder with a recording has no screen.
Outcome train_in_f64(const std::vector<std::string>& words, Group& group) {
  at::set_num_threads(1);
  const fs::path folder = words[0];
  const std::vector<std::string> settings(words.begin() + 1, words.end());
  std::unique_ptr<Task> task;
  if (fs::exists(folder / "rec"))
    task = open_toy_task(folder / "rec", settings, group);
  else
    task = open_task(
        {.config = config_of(folder, settings), .note = [](const std::string&) {}, .group = group});
  task->model().to(at::kDouble);
  Loop loop(*task);
  Outcome found;
  for (int epoch = 0; epoch < 2; ++epoch)
    while (loop.step()) found.losses.push_back(loop.stepper().last_loss());
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : task->model().parameters())
    all.push_back(parameter.detach().flatten());
  found.weights = at::cat(all);
  found.validation = task->validate();
  return found;
}

RunEnd train_run(const fs::path& folder, Group& group, TrainListener& listener) {
  at::set_num_threads(1);
  return train(config_of(folder), {.out = folder / "two", .resume = true, .tensorboard = true},
               listener, group);
}

TEST(Ranks, DISABLED_Train) {
  const RankWork work = rank_work();
  if (work.words.empty()) GTEST_SKIP() << "started by the tests below";
  SocketGroup group(work.rank, work.world, {kRankLine});
  const at::Tensor weights = train_in_f64(work.words, group).weights;
  group.sum(weights);
}

TEST(Ranks, DISABLED_Run) {
  const RankWork work = rank_work();
  if (work.words.empty()) GTEST_SKIP() << "started by the tests below";
  SocketGroup group(work.rank, work.world, {kRankLine});
  const rlimit nothing = {0, 0};  // a byte written to a file ends this process
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &nothing), 0);
  struct Deaf : TrainListener {
    void note(const std::string& words) override { FAIL() << words; }
    void begin(const std::string& words) override { FAIL() << words; }
    void step(const TrainProgress&) override { FAIL(); }
  } listener;
  EXPECT_EQ(train_run(work.words[0], group, listener), RunEnd::finished);
}

// ---- the steps of one
// world ranks against one process, with the data of this folder.
void expect_the_steps_of_one(const fs::path& folder, uint32_t world, const std::string& settings) {
  SCOPED_TRACE(fmt::format("{} ranks, {}", world, settings));
  OtherRanks others(world, "Ranks.DISABLED_Train", folder.string() + " " + settings);
  RankWork own;
  std::istringstream words(folder.string() + " " + settings);
  for (std::string word; words >> word;) own.words.push_back(word);
  const Outcome several = train_in_f64(own.words, *others.group);
  const at::Tensor all = several.weights.clone();
  others.group->sum(all);
  EXPECT_TRUE(others.end());
  EXPECT_TRUE(at::equal(all, double(world) * several.weights)) << "ranks have other weights";
  const Outcome one = train_in_f64(own.words, Group::alone());
  // A bias that a softmax does not feel has a gradient of rounding alone; Adam makes steps of it.
  EXPECT_LT((several.weights - one.weights).abs().max().item<double>(), 1e-11);
  ASSERT_EQ(several.losses.size(), one.losses.size());
  for (size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(several.losses[i], one.losses[i], 1e-12 * std::abs(one.losses[i])) << "step " << i;
  // Predictions are kept in f32.
  ASSERT_EQ(several.validation.values.size(), one.validation.values.size());
  for (size_t i = 0; i < one.validation.values.size(); ++i)
    EXPECT_NEAR(several.validation.values[i], one.validation.values[i], 1e-5);
}

class RanksInF64 : public ::testing::TestWithParam<const char*> {};

TEST_P(RanksInF64, TakeTheStepsOfOne) {
  const TemporaryDirectory folder;
  write_weighted_screen(folder.path());
  expect_the_steps_of_one(folder.path(), 2, GetParam());
  expect_the_steps_of_one(folder.path(), 4, GetParam());
}

// Dropout is 0.1 where nothing else is said.
INSTANTIATE_TEST_SUITE_P(
    Models, RanksInF64,
    ::testing::Values("model.layers=1 model.dropout=0", "model.layers=2 train.accumulate=2",
                      "model.layers=2 train.loss=huber", "model.layers=2 rung=worker",
                      "model.layers=2 model.dropout=0.3 model.output=global",
                      "model.layers=2 model.merge=pairwise model.output=local",
                      "model.layers=2 model.merge=attention model.output=gate",
                      "model.layers=2 model.metabolism=true train.loss=logcosh",
                      "model.layers=2 model.merge=pairwise model.metabolism=true train.batch=4",
                      "model.name=dango model.ramp_epochs=1",
                      "model.name=mlp model.dropout=0.3 train.batch=29"));

class RecordingRanksInF64 : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordingRanksInF64, TakeTheStepsOfOne) {
  const TemporaryDirectory folder;
  write_toy_recording(folder / "rec", 1, {.sessions = 3, .frames = 300});
  split_toy(folder / "rec");
  expect_the_steps_of_one(folder.path(), 2, GetParam());
  expect_the_steps_of_one(folder.path(), 4, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Orders, RecordingRanksInF64,
                         ::testing::Values("train.batch=50 order.by=proportional",
                                           "train.batch=50 order.by=balanced window.rows=4",
                                           "train.batch=5 order.mixed=false",
                                           "train.batch=64 rung=ram:f32"));

TEST(Ranks, OnlyTheFirstWritesARun) {
  const TemporaryDirectory folder;
  write_weighted_screen(folder.path());
  TrainListener nobody;
  at::set_num_threads(1);
  ASSERT_EQ(train(config_of(folder.path()), {.out = folder / "one"}, nobody), RunEnd::finished);
  OtherRanks other(2, "Ranks.DISABLED_Run", folder.path().string());
  struct Steps : TrainListener {
    void step(const TrainProgress&) override { ++count; }
    int count = 0;
  } heard;
  ASSERT_EQ(train_run(folder.path(), *other.group, heard), RunEnd::finished);
  EXPECT_TRUE(other.end()) << "rank 1 wrote to a file, spoke, or failed";
  EXPECT_EQ(heard.count, 12);
  const auto one = Run::open(folder / "one"), two = Run::open(folder / "two");
  EXPECT_EQ(two.info().at("status"), "finished");
  EXPECT_EQ(std::ranges::count(read_text(two.path() / "metrics.jsonl"), '\n'), 14);
  const Safetensors ours = read_checkpoint(two.checkpoint("last"));
  for (const auto& [name, array] : read_checkpoint(one.checkpoint("last")).arrays)
    EXPECT_TRUE(at::allclose(to_tensor(array), to_tensor(ours.arrays.at(name)), 1e-2, 1e-3))
        << name;
  const Evaluation a = read_evaluation(one.path()), b = read_evaluation(two.path());
  ASSERT_EQ(a.parts.size(), b.parts.size());
  EXPECT_NEAR(a.parts[0].labels[0].scores[0].metrics.mse,
              b.parts[0].labels[0].scores[0].metrics.mse, 1e-3);
}

}  // namespace
}  // namespace lacuna
