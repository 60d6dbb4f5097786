// The trainer with a task that knows nothing of screens.
#include "lacuna/train/task.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lacuna/core/random.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/testing.h"
#include "lacuna/train/loop.h"
#include "lacuna/train/testing.h"
#include "lacuna/train/trainer.h"

namespace lacuna {
namespace {

Config number_config() {
  return parse_config(
      "screen: none\ntrain: {epochs: 20, batch: 7, accumulate: 2, lr: 0.2, warmup_steps: 0, "
      "weight_decay: 0, log_every: 1}\n",
      {});
}

class NumberTraining : public ::testing::Test {
 protected:
  RunEnd run(const std::string& name, TrainListener& listener, uint64_t numbers = 1) {
    const TaskOpener open = [&](const OpenTask& request) {
      return std::make_unique<NumberTask>(NumberTable(numbers), request.config, request.group);
    };
    return train(number_config(), {.out = folder_ / name, .resume = true}, listener, Group::alone(),
                 open);
  }
  RunEnd run(const std::string& name, uint64_t numbers = 1) {
    TrainListener nobody;
    return run(name, nobody, numbers);
  }
  Safetensors checkpoint(const std::string& name, const char* which) const {
    return read_checkpoint(Run::open(folder_ / name).checkpoint(which));
  }

  TemporaryDirectory folder_;
};

void expect_same(const Safetensors& a, const Safetensors& b) {
  ASSERT_EQ(a.arrays.size(), b.arrays.size());
  for (const auto& [name, array] : a.arrays)
    EXPECT_TRUE(std::ranges::equal(array.bytes(), b.arrays.at(name).bytes())) << name;
}

TEST_F(NumberTraining, LearnsTheLineAndWritesARun) {
  struct Epochs : TrainListener {
    void epoch(const TrainProgress& progress, double loss, const ValidationScores& found) override {
      losses.push_back(loss);
      EXPECT_EQ(progress.scores.at(0).name, "error");
      EXPECT_EQ(found.parts.at("y").at("count"), 10);
    }
    std::vector<double> losses = {};
  } heard;
  ASSERT_EQ(run("whole", heard), RunEnd::finished);
  ASSERT_EQ(heard.losses.size(), 20u);
  EXPECT_LT(heard.losses.back(), heard.losses.front() / 4);
  const Json info = Run::open(folder_ / "whole").info();
  EXPECT_EQ(info.at("status"), "finished");
  EXPECT_TRUE(info.contains("numbers"));
  EXPECT_TRUE(fs::exists(folder_ / "whole/evaluation.json"));
  const at::Tensor w = to_tensor(checkpoint("whole", "best_error").arrays.at("w"));
  EXPECT_NEAR(w[0].item<double>(), 2, 0.5);
  EXPECT_NEAR(w[1].item<double>(), -1, 0.5);
}

TEST_F(NumberTraining, StoppedAnywhereItEndsInTheSameBits) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  uint64_t looks = 0;
  {
    const StopAfter never(uint64_t(1) << 60);
    ASSERT_EQ(run("whole"), RunEnd::finished);
    looks = never.looks();
  }
  for (int i = 0; i < 5; ++i) {
    const std::string name = fmt::format("stopped-{}", i);
    {
      const StopAfter stop(1 + random.below(looks - 1));
      ASSERT_EQ(run(name), RunEnd::stopped);
    }
    ASSERT_EQ(run(name), RunEnd::finished);
    for (const char* which : {"last", "best_error"})
      expect_same(checkpoint(name, which), checkpoint("whole", which));
  }
}

TEST_F(NumberTraining, ACheckpointOfOtherNumbersIsRefused) {
  {
    const StopAfter stop(30);
    ASSERT_EQ(run("run"), RunEnd::stopped);
  }
  ASSERT_TRUE(Run::open(folder_ / "run").has_checkpoint("last"));
  EXPECT_ERROR(run("run", /*numbers=*/2),
               "was trained on another table: numbers differ from those of this table");
  EXPECT_EQ(run("run", /*numbers=*/1), RunEnd::finished);
}

TEST_F(NumberTraining, ALossThatIsNotFiniteNamesItsRows) {
  const TaskOpener open = [&](const OpenTask& request) {
    NumberTable table(1);
    table.values[2] = std::numeric_limits<double>::infinity();  // row 0
    return std::make_unique<NumberTask>(table, request.config, request.group);
  };
  TrainListener nobody;
  EXPECT_ERROR(train(number_config(), {.out = folder_ / "bad"}, nobody, Group::alone(), open),
               "the loss is not finite at step");
  const Json bad = read_json(folder_ / "bad/bad_batch.json");
  const auto samples = bad.at("samples").get<std::vector<uint64_t>>();
  EXPECT_NE(std::ranges::find(samples, 0u), samples.end());
  EXPECT_EQ(bad.at("y").size(), samples.size());
}

// Batches that are parts of a step give the gradient of one batch with all their samples.
TEST(Loop, SeveralBatchesAreOneLargeBatch) {
  const auto weights_after = [](int64_t batch, int64_t accumulate) {
    struct Exact : NumberTask {
      using NumberTask::NumberTask;
      at::Tensor loss(const Batch& given, uint64_t) override {
        const at::Tensor& rows = static_cast<const NumberBatch&>(given).rows;
        const at::Tensor w = model().parameters()[0];
        return (rows.narrow(1, 0, 2).mv(w) - rows.select(1, 2)).square().mean();
      }
    };
    Config config = number_config();
    config.train.batch = batch;
    config.train.accumulate = accumulate;
    Exact task(NumberTable(3), config, Group::alone());
    Loop loop(task);
    for (int epoch = 0; epoch < 3; ++epoch)
      while (loop.step()) continue;
    return std::pair(loop.steps(), task.model().parameters()[0].detach().clone());
  };
  const auto [steps, one] = weights_after(12, 1);
  const auto [same_steps, three] = weights_after(4, 3);
  EXPECT_EQ(steps, 9u);  // 30 rows: the last step of an epoch has 6
  EXPECT_EQ(same_steps, steps);
  EXPECT_TRUE(at::allclose(three, one, 1e-12, 1e-12));
}

}  // namespace
}  // namespace lacuna
