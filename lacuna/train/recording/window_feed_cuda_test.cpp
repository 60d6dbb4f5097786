#include "lacuna/train/recording/window_feed.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "lacuna/train/loop.h"
#include "lacuna/train/recording/testing.h"

namespace lacuna {
namespace {

at::Tensor numbers_of(const at::Tensor& stimulus) {
  return pixels_to_numbers(stimulus, at::kFloat).cpu();  // on its device
}

// Every way to the GPU gives the batches that the CPU has, to the bit.
TEST(WindowFeedCuda, EveryRungGivesTheBatchesOfTheCpu) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "needs a GPU and a torch with CUDA";
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const TemporaryDirectory folder;
  write_toy_recording(folder / "rec", seed, {.sessions = 3, .frames = 600});
  split_toy(folder / "rec");
  const auto reference = open_toy_task(folder / "rec", {"rung=disk:u8@worker"});
  for (const char* rung :
       {"rung=disk:u8@device", "rung=disk:u8@worker", "rung=ram:f32", "rung=device:resident"}) {
    const auto task = open_toy_task(folder / "rec", {rung, "train.device=cuda", "train.threads=2"});
    const auto feed = task->training(), expected = reference->training();
    for (int i = 0; i < 150; ++i) {  // beyond the end of an epoch
      const Batch *there = feed->next(), *here = expected->next();
      ASSERT_EQ(there == nullptr, here == nullptr);
      if (!here) continue;
      const DeviceWindows &a = windows_of(there), &b = windows_of(here);
      ASSERT_EQ(a.windows, b.windows);
      ASSERT_TRUE(at::equal(numbers_of(a.input.stimulus), numbers_of(b.input.stimulus))) << rung;
      for (size_t s = 0; s < a.counts.size(); ++s) {
        ASSERT_TRUE(at::equal(a.counts[s].cpu(), b.counts[s]));
        ASSERT_TRUE(at::equal(a.validity[s].cpu(), b.validity[s]));
        ASSERT_TRUE(at::equal(a.input.inputs[s].cpu(), b.input.inputs[s]));
      }
    }
  }
}

TEST(WindowFeedCuda, StepsAndValidationRunThere) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "needs a GPU and a torch with CUDA";
  const TemporaryDirectory folder;
  write_toy_recording(folder / "rec", 5, {.sessions = 2, .frames = 600});
  split_toy(folder / "rec");
  for (const char* precision : {"train.precision=f32", "train.precision=bf16"}) {
    const auto task =
        open_toy_task(folder / "rec", {"rung=device:resident", "train.device=cuda", precision});
    Loop loop(*task);
    loop.run(20);
    EXPECT_EQ(loop.stepper().first_bad_step(), -1);
    EXPECT_EQ(task->validate().parts.size(), 2u);
  }
}

}  // namespace
}  // namespace lacuna
