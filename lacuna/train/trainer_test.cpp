// Whole trainings that are stopped, at every kind of place, and go on.
#include "lacuna/train/trainer.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "lacuna/core/random.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/testing.h"
#include "lacuna/run/run.h"
#include "lacuna/screen/testing.h"
#include "lacuna/train/checkpoint.h"

namespace lacuna {
namespace {

constexpr uint64_t kNever = uint64_t(1) << 60;  // looks: nobody asks

// Dropout in the model, blocks that are computed again in the backward pass, a trained baseline.
Config stoppable(const TemporaryDirectory& folder, int accumulate) {
  const fs::path screen = folder / "screen";
  if (!fs::exists(screen))
    write_screen(screen, {small_graph(1), small_samples(1, 120), {thirds_split(120)}, {}});
  return parse_config(
      fmt::format(
          "screen: {}\nsplit: thirds\nlabels: [fitness]\n"
          "model: {{name: hetero_gin, width: 8, layers: 2, dropout: 0.4, merge: pairwise}}\n"
          "train: {{epochs: 2, batch: 3, log_every: 1, accumulate: {}, threads: 1}}\n"
          "evaluate: {{bootstrap: 20}}\n",
          screen.string(), accumulate),
      {});
}

// How many looks at the stop flag there had been when each step had ended.
struct Counting : TrainListener {
  explicit Counting(const StopAfter& stop) : stop_(stop) {}
  void step(const TrainProgress&) override { looks.push_back(stop_.looks()); }
  const StopAfter& stop_;
  std::vector<uint64_t> looks = {};
};

struct Trained {
  Safetensors last;
  std::string evaluation;
  std::vector<double> losses;  // of each epoch
};

std::vector<double> epoch_losses(const fs::path& run) {
  std::vector<double> losses;
  std::istringstream lines(read_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (const Json found = Json::parse(line); found.value("kind", "") == "epoch")
      losses.push_back(found.at("train_loss"));
  return losses;
}

Trained read(const fs::path& run) {
  return {read_checkpoint(Run::open(run).checkpoint("last")), read_text(run / "evaluation.json"),
          epoch_losses(run)};
}

void expect_same(const Trained& a, const Trained& b) {
  ASSERT_EQ(a.last.arrays.size(), b.last.arrays.size());
  for (const auto& [name, array] : a.last.arrays) {
    const auto ours = array.bytes(), theirs = b.last.arrays.at(name).bytes();
    EXPECT_TRUE(std::ranges::equal(ours, theirs)) << name;
  }
  EXPECT_EQ(a.evaluation, b.evaluation);
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i], b.losses[i], 1e-12);
}

class StoppedTraining : public ::testing::TestWithParam<int> {
 protected:
  StoppedTraining() { at::set_num_threads(1); }

  RunEnd go_on(const std::string& name) {
    TrainListener nobody;
    return train(config_, {.out = folder_ / name, .resume = true}, nobody);
  }
  // Stops at the look, and goes on until the end.
  void stop_once(const std::string& name, uint64_t look) {
    SCOPED_TRACE(fmt::format("seed {}, stopped at look {}", seed_, look));
    {
      const StopAfter stop(look);
      ASSERT_EQ(go_on(name), RunEnd::stopped);
      ASSERT_TRUE(stop.has_asked());
    }
    if (fs::exists(folder_ / name / "run.json")) {
      EXPECT_EQ(Run::open(folder_ / name).info().at("status"), "stopped");
    }
    ASSERT_EQ(go_on(name), RunEnd::finished);
    expect_same(read(folder_ / name), whole_);
  }
  uint64_t step_of(const std::string& name) {
    const fs::path file = Run::open(folder_ / name).checkpoint("last");
    return read_train_state(read_checkpoint(file), file).step;
  }

  // A run that nobody stops; looks_: behind each step, and at the end of it all.
  void train_whole() {
    const StopAfter stop(kNever);
    Counting counting(stop);
    ASSERT_EQ(train(config_, {.out = folder_ / "whole"}, counting), RunEnd::finished);
    looks_ = counting.looks;
    looks_.push_back(stop.looks());
    whole_ = read(folder_ / "whole");
  }

  const uint64_t seed_ = test_seed();
  Random random_{seed_};
  TemporaryDirectory folder_;
  Config config_ = stoppable(folder_, GetParam());
  std::vector<uint64_t> looks_;
  Trained whole_;
};

TEST_P(StoppedTraining, InsideAStepItEndsInTheSameBits) {
  train_whole();
  const size_t steps = looks_.size() - 1;
  ASSERT_GT(steps, 4u);
  for (int i = 0; i < 4; ++i) {
    const size_t step = 1 + size_t(random_.below(steps / 2 - 1));  // of the first epoch, from 0
    ASSERT_GT(looks_[step], looks_[step - 1] + 20) << "a step has few places to stop at";
    // The last look is the one behind the step.
    const uint64_t look = looks_[step - 1] + 2 + random_.below(looks_[step] - looks_[step - 1] - 2);
    const std::string name = fmt::format("inside-{}", i);
    {
      const StopAfter stop(look);
      ASSERT_EQ(go_on(name), RunEnd::stopped);
    }
    EXPECT_EQ(step_of(name), step) << "seed " << seed_;  // the one that was begun is not taken
    stop_once(name, 1 + random_.below(looks_[step] - looks_[step - 1]));  // early, when it goes on
  }
}

TEST_P(StoppedTraining, AnywhereItEndsInTheSameBits) {
  train_whole();
  for (int i = 0; i < 4; ++i)
    stop_once(fmt::format("anywhere-{}", i), 1 + random_.below(looks_.back() - 1));
  stop_once("first", 1);
  stop_once("last", looks_.back());
}

INSTANTIATE_TEST_SUITE_P(Accumulate, StoppedTraining, ::testing::Values(1, 3));

}  // namespace
}  // namespace lacuna
