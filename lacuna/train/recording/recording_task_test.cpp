#include "lacuna/train/recording/recording_task.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "lacuna/core/testing.h"
#include "lacuna/train/recording/testing.h"

namespace lacuna {
namespace {

constexpr uint64_t kLags = 3;

// A rank that nobody answers: what it would add up stays its own.
class LonelyRank : public Group {
 public:
  LonelyRank(uint32_t rank, uint32_t world) : rank_(rank), world_(world) {}
  uint32_t rank() const override { return rank_; }
  uint32_t world() const override { return world_; }
  void sum(at::TensorList) override {}
  void broadcast(at::TensorList) override {}
  void barrier() override {}

 private:
  uint32_t rank_, world_;
};

class RecordingTaskTest : public ::testing::Test {
 protected:
  RecordingTaskTest() {
    write_toy_recording(folder_ / "rec", seed_, {.sessions = 3, .frames = 600});
    split_toy(folder_ / "rec");
  }
  std::unique_ptr<RecordingTask> open(const std::vector<std::string>& settings = {},
                                      Group& group = Group::alone()) {
    return open_toy_task(folder_ / "rec", settings, group);
  }

  const uint64_t seed_ = test_seed();
  TemporaryDirectory folder_;
};

TEST_F(RecordingTaskTest, ABatchHoldsWhatItsWindowsSay) {
  SCOPED_TRACE(seed_);
  for (const char* rung : {"rung=disk:u8@device", "rung=disk:u8@worker", "rung=ram:f32"}) {
    const auto task = open({rung});
    const Windows& training = task->session().part(Part::train);
    const auto feed = task->training();
    const DeviceWindows& batch = windows_of(feed->next());
    ASSERT_EQ(batch.size(), 12);
    at::Tensor stimulus = batch.input.stimulus;
    if (stimulus.scalar_type() == at::kByte) stimulus = (stimulus.to(at::kFloat) - 127) / 255;
    for (size_t s = 0; s < batch.input.sessions.size(); ++s)
      for (int64_t b = batch.input.ptr[s]; b < batch.input.ptr[s + 1]; ++b) {
        const Window window = training.at(batch.windows[size_t(b)]);
        ASSERT_EQ(task->session().model_session(window.session), batch.input.sessions[s]);
        for (uint64_t l = 0; l < kLags; ++l)
          for (uint64_t y = 0; y < kToyHeight; ++y)
            for (uint64_t x = 0; x < kToyWidth; ++x) {
              const uint8_t pixel = toy_pixel(window.session, window.segment, window.t - l, y, x);
              ASSERT_EQ(stimulus[b][int64_t(l)][int64_t(y)][int64_t(x)].item<float>(),
                        (float(pixel) - 127) / 255);
            }
        const Segment& segment =
            task->session().recording.sessions()[window.session].segments[window.segment];
        const Array robs = segment.field("robs").map();
        const auto counts = robs.as<uint8_t>();
        const int64_t units = batch.counts[s].size(1), row = b - batch.input.ptr[s];
        for (int64_t u = 0; u < units; ++u)
          ASSERT_EQ(batch.counts[s][row][u].item<float>(),
                    float(counts[window.t * uint64_t(units) + uint64_t(u)]));
      }
  }
}

TEST_F(RecordingTaskTest, RanksShareTheWindowsOfOne) {
  SCOPED_TRACE(seed_);
  for (const char* order : {"order.by=proportional", "order.by=balanced", "order.mixed=false"}) {
    LonelyRank first(0, 2), second(1, 2);
    const auto one = open({order}), a = open({order}, first), b = open({order}, second);
    const auto whole = one->training(), left = a->training(), right = b->training();
    for (uint64_t position = 0; position < 20; ++position) {
      std::multiset<uint64_t> expected, found;
      for (const uint64_t window : windows_of(whole->next()).windows) expected.insert(window);
      for (const auto* feed : {left.get(), right.get()})
        for (const uint64_t window : windows_of(const_cast<Feed*>(feed)->next()).windows)
          found.insert(window);
      ASSERT_EQ(found, expected) << order << " " << position;
      const auto all = left->samples(0, position);
      ASSERT_EQ(std::multiset<uint64_t>(all.begin(), all.end()), expected);
    }
  }
}

TEST_F(RecordingTaskTest, AFeedGoesBackToAnyPlace) {
  SCOPED_TRACE(seed_);
  const auto task = open();
  const auto feed = task->training();
  for (int i = 0; i < 7; ++i) feed->next();
  const LoaderState place = feed->state();
  const std::vector<uint64_t> next = windows_of(feed->next()).windows;
  for (int i = 0; i < 30; ++i) feed->next();
  feed->seek(place);
  EXPECT_EQ(windows_of(feed->next()).windows, next);
  const auto other = open({"order.by=balanced"})->training();
  EXPECT_ERROR(other->seek(place), "");
}

TEST_F(RecordingTaskTest, TheLossIsPoissonOverValidCounts) {
  SCOPED_TRACE(seed_);
  const auto task = open();
  const auto feed = task->training();
  const DeviceWindows& batch = windows_of(feed->next());
  const auto rates = task->session().model->forward(batch.input);
  double sum = 0, valid = 0;
  for (size_t s = 0; s < rates.size(); ++s)
    for (int64_t b = 0; b < rates[s].size(0); ++b)
      for (int64_t u = 0; u < rates[s].size(1); ++u) {
        if (batch.validity[s][b][u].item<float>() == 0) continue;
        const double rate = rates[s][b][u].item<double>();
        sum += rate - batch.counts[s][b][u].item<double>() * std::log(rate);
        ++valid;
      }
  EXPECT_LT(valid, double(rates[0].numel()) * double(rates.size()) * 10);
  EXPECT_NEAR(task->loss(batch, 0).item<double>(), sum / valid, 1e-5);
}

// The number of the one-row window that starts at (session, segment, t).
uint64_t window_at(const Windows& windows, uint32_t session, uint32_t segment, uint64_t t) {
  for (uint64_t w = 0; w < windows.size(); ++w)
    if (const Window at = windows.at(w);
        std::tuple(at.session, at.segment, at.t) == std::tuple(session, segment, t))
      return w;
  ADD_FAILURE() << "no window at " << session << " " << segment << " " << t;
  return 0;
}

TEST_F(RecordingTaskTest, ARunOfRowsIsItsWindowsOneByOne) {
  SCOPED_TRACE(seed_);
  constexpr int64_t kRows = 4;
  for (const char* rung : {"rung=disk:u8@device", "rung=ram:f32"}) {
    const auto task = open({rung, "window.rows=4", "window.inputs=[behavior:2,robs:3@1]"});
    const RecordingSession& session = task->session();
    EXPECT_LT(session.training.size(), session.part(Part::train).size());
    const auto feed = task->training();
    const DeviceWindows& batch = windows_of(feed->next());
    ASSERT_EQ(batch.input.stimulus.size(1), int64_t(kLags) + kRows - 1);
    const auto rates = session.model->forward(batch.input);
    for (size_t s = 0; s < rates.size(); ++s) {
      ASSERT_EQ(rates[s].size(0), (batch.input.ptr[s + 1] - batch.input.ptr[s]) * kRows);
      for (int64_t b = batch.input.ptr[s]; b < batch.input.ptr[s + 1]; ++b)
        for (int64_t r = 0; r < kRows; ++r) {
          const Window at = session.training.at(batch.windows[size_t(b)]);
          const Windows& single = session.part(Part::train);
          const uint64_t own = window_at(single, at.session, at.segment, at.t + uint64_t(r));
          const int64_t row = (b - batch.input.ptr[s]) * kRows + r;
          predict_windows(
              session, single, {own},
              [&](const DeviceWindows& one, const std::vector<at::Tensor>& rate) {
                EXPECT_TRUE(at::allclose(rates[s][row], rate.at(0)[0], 1e-4, 1e-5));
                EXPECT_TRUE(at::equal(batch.counts[s][row], one.counts.at(0)[0]));
                EXPECT_TRUE(at::equal(batch.validity[s][row], one.validity.at(0)[0]));
                EXPECT_TRUE(at::equal(batch.input.inputs[s][row], one.input.inputs.at(0)[0]));
              });
        }
    }
  }
}

// Only what the config reads lies in memory, and sessions that were not shown it are not asked.
TEST_F(RecordingTaskTest, OnlyChosenSegmentsAreHeld) {
  SCOPED_TRACE(seed_);
  const auto task = open({"segments=[images]", "rung=ram:u8"});
  const RecordingSession& session = task->session();
  ASSERT_EQ(session.sessions, std::vector<uint32_t>{1});
  const Segment& images = session.recording.sessions()[1].segments[1];
  ASSERT_EQ(images.name, "images");
  EXPECT_EQ(session.frames.held_bytes(), images.field("stim").bytes());
  EXPECT_EQ(windows_of(task->training()->next()).size(), 12);
  EXPECT_ERROR(open({"segments=[images]", "sessions=[s0, s1]"}), "'s0' has none of the segments");
}

TEST_F(RecordingTaskTest, ASessionWithoutTrainingWindowsIsLeftOut) {
  SCOPED_TRACE(seed_);
  write_toy_recording(folder_ / "held", seed_, {.sessions = 3, .frames = 600});
  split_toy(folder_ / "held", "s2");
  const auto task = open_toy_task(folder_ / "held", {});
  EXPECT_EQ(task->session().sessions, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(task->validate().parts.size(), 2u);
}

// By the share drawn a byte, never beyond the budget.
TEST_F(RecordingTaskTest, TieredHoldsWhatIsDrawnMost) {
  SCOPED_TRACE(seed_);
  const Recording recording = Recording::open(folder_ / "rec");
  const auto bytes = [&](uint32_t s) {
    uint64_t sum = 0;
    for (const Segment& segment : recording.sessions()[s].segments)
      sum += segment.field("stim").bytes();
    return sum;
  };
  const auto hot = fmt::format("tiered.hot={}", std::max(bytes(0), bytes(2)));  // one of them fits
  const auto held = [&](const char* weights) {
    return open({"rung=tiered", hot, "order.by=weights", weights})->session().frames.held_bytes();
  };
  EXPECT_EQ(held("order.weights=[s0=1, s1=1, s2=20]"), bytes(2));
  EXPECT_EQ(held("order.weights=[s0=20, s1=1, s2=1]"), bytes(0));
}

TEST_F(RecordingTaskTest, ValidationIsTheSameEveryTimeAndOfEverySession) {
  SCOPED_TRACE(seed_);
  const auto task = open({"train.validation_windows=40"});
  const ValidationScores once = task->validate(), again = task->validate();
  EXPECT_EQ(once.values, again.values);
  EXPECT_EQ(once.parts.size(), 3u);
  for (const auto& [session, scores] : once.parts.items())
    EXPECT_GT(scores.at("count").get<uint64_t>(), 0u) << session;
}

TEST_F(RecordingTaskTest, ANewModelStartsAtTheMeanRates) {
  SCOPED_TRACE(seed_);
  const auto task = open();
  const SessionScale& scale = task->session().scales[1];
  const at::Tensor bias = task->session().model->readout(1).bias;
  ASSERT_EQ(bias.size(0), int64_t(scale.mean_counts.size()));
  for (int64_t u = 0; u < bias.size(0); ++u)
    EXPECT_NEAR(at::softplus(bias)[u].item<double>(), scale.mean_counts[size_t(u)], 1e-4);
  EXPECT_NEAR(task->validate().values[0], 0, 0.2);  // no better and no worse than the mean
}

}  // namespace
}  // namespace lacuna
