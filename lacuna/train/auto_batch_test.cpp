#include "lacuna/train/auto_batch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

TEST(AutoBatch, FillsFourFifthsOfWhatIsFree) {
  // 100 MB besides the samples, 50 MB each: 8 GB hold (8000 - 100) / 50 of them.
  const FittingBatch found = fitting_batch(200e6, 300e6, 10e9, 1000);
  EXPECT_EQ(found.batch, 158);
  EXPECT_EQ(found.words,
            "batch 158: a step and the validation beside it need 100 MB and 50.0 MB a sample, 8.00 "
            "GB may be used");
  EXPECT_EQ(fitting_batch(200e6, 300e6, 10e9, 30).batch, 30);     // no more than there are
  EXPECT_EQ(fitting_batch(200e6, 300e6, 1e12, 1000).batch, 512);  // nor than the most
}

TEST(AutoBatch, SmallFiguresAreFiguresToo) {
  EXPECT_EQ(fitting_batch(70e3, 110e3, 10e9, 160).words,
            "batch 160: a step and the validation beside it need 30.0 kB and 20.0 kB a sample, "
            "8.00 GB may be used");
  EXPECT_EQ(fitting_batch(40960, 40960, 10e9, 160).words,
            "batch 160: a step and the validation beside it need 41.0 kB and too little a sample "
            "to be measured, 8.00 GB may "
            "be used");
  EXPECT_EQ(
      fitting_batch(8192, 1400000, 10e9, 160).words,
      "batch 160: a step and the validation beside it need 696 kB a sample, 8.00 GB may be used");
  EXPECT_EQ(fitting_batch(0, 0, 10e9, 160).words,
            "batch 160: a step and the validation beside it need too little a sample to be "
            "measured, 8.00 GB may be used");
  EXPECT_ERROR(fitting_batch(70e3, 110e3, 20e3, 160),
               "beside it need 50.0 kB, and 16.0 kB may be used (80% of what is free)");
}

TEST(AutoBatch, LeavesNoSampleAlone) {
  EXPECT_EQ(without_a_single_last(8, 120), 8);
  EXPECT_EQ(without_a_single_last(8, 121), 7);
  EXPECT_EQ(without_a_single_last(8, 57), 6);  // 57 = 7 x 8 + 1
  EXPECT_EQ(without_a_single_last(4, 13), 2);  // nothing is better; and it ends
  EXPECT_EQ(without_a_single_last(1, 13), 1);
}

// Times steps by a formula, and keeps the batches that it was asked for.
struct Steps {
  std::vector<int64_t> asked = {};
  std::function<double(int64_t)> ms;
  TimedBatch fastest(int64_t most) {
    return fastest_batch(most, [this](int64_t batch) {
      asked.push_back(batch);
      return ms(batch);
    });
  }
};

TEST(AutoBatch, TakesTheSmallestThatIsAsFastASample) {
  // 20 ms a step and 1 ms a sample: the larger the faster, within 5% of 512's from 256 on.
  Steps steps{.ms = [](int64_t batch) { return 20.0 + double(batch); }};
  EXPECT_EQ(steps.fastest(512).batch, 256);
  EXPECT_EQ(steps.asked, (std::vector<int64_t>{8, 16, 32, 64, 128, 256, 512}));
  EXPECT_EQ(steps.fastest(100).batch, 100);  // what fits need not be a power of two
  EXPECT_EQ(steps.fastest(5).batch, 5);
  EXPECT_EQ(steps.fastest(1).batch, 1);
}

TEST(AutoBatch, StopsWhereLargerBatchesTakeLonger) {
  // From 32 samples on memory is slow: twice the time a sample.
  Steps steps{.ms = [](int64_t batch) { return (batch < 32 ? 1.0 : 2.0) * double(batch); }};
  const TimedBatch taken = steps.fastest(512);
  EXPECT_EQ(taken.batch, 8);
  EXPECT_EQ(steps.asked, (std::vector<int64_t>{8, 16, 32}));
  EXPECT_EQ(taken.words, "8: 1 ms a sample, 16: 1, 32: 2; batch 8 is taken");
}

}  // namespace
}  // namespace lacuna
