#include "lacuna/ops/cast/pixels.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <set>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

void expect_all_levels() {
  std::vector<uint8_t> x(256);
  for (size_t i = 0; i < 256; ++i) x[i] = uint8_t(i);
  std::vector<float> f32(256);
  std::vector<BFloat16> bf16(256);
  normalise_pixels(x.data(), 256, f32.data());
  normalise_pixels(x.data(), 256, bf16.data());
  std::set<float> distinct;
  std::set<uint16_t> distinct_halves;
  int otherwise = 0;
  for (int i = 0; i < 256; ++i) {
    const volatile float difference = float(i) - 127.f;
    const volatile float expected = difference / 255.f;
    EXPECT_EQ(f32[size_t(i)], expected) << i;
    EXPECT_EQ(bf16[size_t(i)].bits, BFloat16(expected).bits) << i;
    distinct.insert(f32[size_t(i)]);
    distinct_halves.insert(bf16[size_t(i)].bits);
    const volatile float reciprocal = 1.f / 255.f, product = difference * reciprocal;
    otherwise += product != expected;
  }
  EXPECT_EQ(distinct.size(), 256);
  EXPECT_EQ(distinct_halves.size(), 256);
  EXPECT_GT(otherwise, 0) << "a multiplication would have passed this test";
}

TEST(Pixels, EveryGreyLevelIsDividedAndStaysDistinct) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    expect_all_levels();
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Pixels, AnyLengthAndAlignmentWritesWhatItIsToldAndNoMore) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    const uint64_t count = random.below(200), shift = random.below(9);
    std::vector<uint8_t> x(count + shift);
    for (uint8_t& value : x) value = uint8_t(random.next());
    std::vector<float> f32(count + shift + 1, -7.f);
    std::vector<BFloat16> bf16(count + shift + 1, BFloat16(-7.f));
    normalise_pixels(x.data() + shift, count, f32.data() + shift);
    normalise_pixels(x.data() + shift, count, bf16.data() + shift);
    for (uint64_t i = 0; i < f32.size(); ++i) {
      const bool inside = i >= shift && i < shift + count;
      const float expected = inside ? (float(x[i]) - 127.f) / 255.f : -7.f;
      ASSERT_EQ(f32[i], expected);
      ASSERT_EQ(bf16[i].bits, BFloat16(expected).bits);
    }
  }
}

}  // namespace
}  // namespace lacuna
