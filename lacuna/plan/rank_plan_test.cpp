#include "lacuna/plan/rank_plan.h"

#include <gmock/gmock.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Made up, so that the figures below can be counted by hand.
Machine machine_of(double cores, double memory = 64e9) {
  Machine machine;
  machine.cores = {cores, "test"};
  machine.memory = {memory, "test"};
  return machine;
}

const Link kLink = {{1e9, "test"}, {1e-4, "test"}};  // a megabyte a ms, 0.1 ms a message

MeasuredStep step_of(uint64_t batch, double ms) {
  return {.from = "profile.json",
          .batch = batch,
          .ms = ms,
          .backward_ms = ms / 2,
          .gradient_bytes = 12'000'000,
          .buckets = 3,
          .peak_bytes = 1'000'000'000,
          .threads = 1};
}

TEST(RankPlan, AStepIsArithmeticAndWhatOfTheSumsIsNotHidden) {
  const MeasuredStep measured[] = {step_of(28, 100), step_of(7, 30)};
  const RankPlan plan = plan_ranks(4, 28, measured, machine_of(16), kLink);
  EXPECT_EQ(plan.share, 7u);
  EXPECT_EQ(plan.crowding, 1);
  EXPECT_DOUBLE_EQ(plan.arithmetic_ms, 30);
  EXPECT_DOUBLE_EQ(plan.sent_bytes, 18e6);  // 2 * 3 / 4 of 12 MB
  EXPECT_DOUBLE_EQ(plan.floor_ms, 18);
  // Three buckets and three other sums wait for 2 * 3 messages each.
  EXPECT_DOUBLE_EQ(plan.communication_ms, 18 + 6 * 6 * 0.1);
  EXPECT_DOUBLE_EQ(plan.hidden_ms, 2.0 / 3 * 15);  // the pass is shorter than the sums
  EXPECT_DOUBLE_EQ(plan.step_ms, 30 + 21.6 - 10);
  EXPECT_EQ(plan.alone_ms, 100);
  EXPECT_EQ(plan.lacks, "");
  const auto words = words_of(plan);
  EXPECT_EQ(words[0],
            "4 ranks, 7 of 28 samples each: a step of about 41.6 ms; one process with "
            "all of them takes 100 ms, 2.40 times as long");
  EXPECT_THAT(words[2], StartsWith("communication: 12.0 MB of gradients, of which a rank sends "
                                   "18.0 MB: at least 18.0 ms at 1.00 GB/s (test), 21.6 ms with 6 "
                                   "sums that wait for 6 messages each"));
  EXPECT_THAT(words[3], StartsWith("hidden: 10.0 ms of it, behind a backward pass of 15.0 ms"));
  EXPECT_THAT(words[4], HasSubstr("1.00 GB a rank, 4.00 GB in all"));
}

TEST(RankPlan, OneBucketHidesNothing) {
  MeasuredStep step = step_of(4, 10);
  step.buckets = 1;
  const RankPlan plan = plan_ranks(2, 7, std::span(&step, 1), machine_of(8), kLink);
  EXPECT_EQ(plan.share, 4u);  // of 7 the first rank takes one more
  EXPECT_EQ(plan.hidden_ms, 0);
  EXPECT_DOUBLE_EQ(plan.step_ms, 10 + 12 + 4 * 2 * 0.1);
  EXPECT_EQ(plan.alone_ms, std::nullopt);
  EXPECT_THAT(words_of(plan)[3], HasSubstr("one bucket"));
}

TEST(RankPlan, BusyCoresHideNothingAndCrowdedOnesTakeLonger) {
  MeasuredStep step = step_of(14, 10);
  EXPECT_EQ(plan_ranks(2, 28, std::span(&step, 1), machine_of(2), kLink).hidden_ms, 0);
  EXPECT_EQ(plan_ranks(2, 28, std::span(&step, 1), machine_of(2), kLink).crowding, 1);
  step.threads = 3;
  const RankPlan plan = plan_ranks(2, 28, std::span(&step, 1), machine_of(4), kLink);
  EXPECT_DOUBLE_EQ(plan.arithmetic_ms, 15);  // six threads on four cores
  EXPECT_THAT(words_of(plan)[1], HasSubstr("times 1.50, since 2 ranks of 3 threads"));
  step.is_on_gpu = true;  // each has its own
  EXPECT_EQ(plan_ranks(2, 28, std::span(&step, 1), machine_of(4), kLink).crowding, 1);
  EXPECT_GT(plan_ranks(2, 28, std::span(&step, 1), machine_of(4), kLink).hidden_ms, 0);
}

TEST(RankPlan, MemoryIsOfAllRanksOfTheHost) {
  const MeasuredStep step = step_of(1, 10);
  EXPECT_EQ(plan_ranks(4, 4, std::span(&step, 1), machine_of(8, 4.8e9), kLink).lacks, "");
  EXPECT_EQ(plan_ranks(4, 4, std::span(&step, 1), machine_of(8, 4e9), kLink).lacks,
            "needs 4.80 GB in memory with 20% margin, 4.00 GB free");
}

TEST(RankPlan, SaysWhatToMeasure) {
  const MeasuredStep step = step_of(28, 10);
  EXPECT_ERROR(plan_ranks(4, 28, std::span(&step, 1), machine_of(8), kLink),
               "each of 4 ranks takes 7 of the 28 samples of a batch, and no profile has that many "
               "(profile.json has batch 28); `lacuna profile CONFIG --set train.batch=7");
  EXPECT_ERROR(plan_ranks(4, 3, std::span(&step, 1), machine_of(8), kLink), "each has at least");
}

TEST(Link, IsMeasuredOnThisHost) {
  const Link link = measure_link();
  EXPECT_GT(link.rate.value, 1e6);
  EXPECT_GT(link.hop.value, 0);
  EXPECT_THAT(link.rate.from, StartsWith("measured: 32 MB"));
}

}  // namespace
}  // namespace lacuna
