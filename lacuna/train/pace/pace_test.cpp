#include "lacuna/train/pace/pace.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "lacuna/core/testing.h"
#include "lacuna/train/testing.h"
#include "lacuna/train/trainer.h"

namespace lacuna {
namespace {

Config number_config(const std::string& more = "") {
  return parse_config(
      "screen: none\ntrain: {epochs: 3, batch: 7, accumulate: 2, lr: 0.2, warmup_steps: 0" + more +
          "}\n",
      {});
}

const Note kNobody = [](const std::string&) {};

// Torch's number of threads is the process's: each test leaves it as it was.
class PaceTest : public ::testing::Test {
 protected:
  ~PaceTest() override { at::set_num_threads(before_); }
  int before_ = at::get_num_threads();
  TemporaryDirectory folder_;
};

TEST_F(PaceTest, MoreThreadsMustBeATenthFaster) {
  const auto fastest = [](std::map<int, double> seconds) {
    std::vector<int> candidates;
    for (const auto& [threads, time] : seconds) candidates.push_back(threads);
    return fastest_threads(candidates, [&](int threads) { return seconds.at(threads); });
  };
  EXPECT_EQ(fastest({{1, 1.0}}), 1);
  EXPECT_EQ(fastest({{1, 1.0}, {2, 0.95}}), 1);
  EXPECT_EQ(fastest({{1, 1.0}, {2, 0.6}}), 2);
  EXPECT_EQ(fastest({{1, 1.0}, {8, 0.4}, {16, 2.0}}), 8);
  EXPECT_EQ(fastest({{1, 1.0}, {8, 11.0}, {16, 0.5}}), 16);
}

TEST_F(PaceTest, AMeasuredStepLeavesNoTrace) {
  NumberTask task(NumberTable(1), number_config(), Group::alone());
  for (const at::Tensor& weight : task.model().parameters()) {
    const at::NoGradGuard none;
    weight.fill_(0.25);
  }
  const Pace pace = measure_pace(task);
  for (const at::Tensor& weight : task.model().parameters()) {
    EXPECT_TRUE(weight.eq(0.25).all().item<bool>());
    EXPECT_FALSE(weight.grad().defined());
  }
  EXPECT_GT(pace.step_seconds, 0);
  EXPECT_EQ(pace.steps_an_epoch, 3u);  // 30 samples, batches of 7, two a step
  EXPECT_EQ(pace.epochs, 3u);
}

// What a model makes in its first step is not the time of a step.
TEST_F(PaceTest, ALongFirstStepIsNotTheOnlyOneThatIsTimed) {
  struct SlowAtFirst : NumberTask {
    using NumberTask::NumberTask;
    at::Tensor loss(const Batch& batch, uint64_t epoch) override {
      if (losses++ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      return NumberTask::loss(batch, epoch);
    }
    int losses = 0;
  };
  SlowAtFirst task(NumberTable(1), number_config(), Group::alone());
  measure_pace(task);
  EXPECT_GE(task.losses, 2 * 2);  // two batches a step
}

TEST_F(PaceTest, AnEstimateDoesNotChangeTheRun) {
  const TaskOpener open = [](const OpenTask& request) {
    return std::make_unique<NumberTask>(NumberTable(1), request.config, request.group);
  };
  const auto weights = [&](const std::string& name, bool measure) {
    TrainListener nobody;
    train(number_config(), {.out = folder_ / name, .measure = measure}, nobody, Group::alone(),
          open);
    const Array w =
        read_checkpoint(lacuna::Run::open(folder_ / name).checkpoint("last")).arrays.at("w");
    return std::vector<std::byte>(w.bytes().begin(), w.bytes().end());
  };
  EXPECT_EQ(weights("with", true), weights("without", false));
}

TEST_F(PaceTest, TheNumberOfThreadsIsKeptInTheRun) {
  const TaskOpener open = [](const OpenTask& request) {
    return std::make_unique<NumberTask>(NumberTable(1), request.config, request.group);
  };
  at::set_num_threads(1);
  TrainListener nobody;
  train(number_config(), {.out = folder_ / "run"}, nobody, Group::alone(), open);
  const lacuna::Run run = lacuna::Run::open(folder_ / "run");
  EXPECT_EQ(read_config(run.config(), {}).train.compute_threads, 1);
  EXPECT_EQ(run.info().at("threads"), 1);

  // A run from before there was such a setting has its number in run.json.
  at::set_num_threads(3);
  NumberTask task(NumberTable(1), number_config(), Group::alone());
  settle_threads(task, &run, true, kNobody);
  EXPECT_EQ(at::get_num_threads(), 1);
  EXPECT_EQ(task.config().train.compute_threads, 1);

  NumberTask told(NumberTable(1), number_config(", compute_threads: 2"), Group::alone());
  settle_threads(told, nullptr, true, kNobody);
  EXPECT_EQ(at::get_num_threads(), 2);
}

TEST_F(PaceTest, Words) {
  Pace pace = {.step_seconds = 0.031, .steps_an_epoch = 9494, .epochs = 25, .threads = 2};
  EXPECT_EQ(words(pace),
            "about 2 h 02 min here: 31.0 ms a step, 9,494 steps an epoch, 25 epochs, 2 threads");
  EXPECT_NE(advice(pace).find("this takes hours on a CPU"), std::string::npos);
  pace.step_seconds = 0.001;
  EXPECT_EQ(advice(pace), "");
  EXPECT_EQ(words({.step_seconds = 2, .steps_an_epoch = 1, .epochs = 1, .is_cpu = false}),
            "about 2 s here: 2.00 s a step, 1 steps an epoch, 1 epochs");
}

}  // namespace
}  // namespace lacuna
