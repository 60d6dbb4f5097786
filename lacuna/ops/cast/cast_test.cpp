#include "lacuna/ops/cast/cast.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/ops/closeness.h"
#include "lacuna/ops/testing.h"

namespace lacuna {
namespace {

using namespace lacuna::testing;

template <class Real>
void expect_cast(uint64_t seed, int64_t count, float scale, float shift) {
  Random random(seed);
  std::vector<uint8_t> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = uint8_t(i < 256 ? i : random.below(256));
  auto out = poisoned<Real>(x.size() + 1);
  cast<Real>(x.data(), count, scale, shift, out.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const Real expected = Real(std::fma(float(x[i]), scale, shift));
    ASSERT_EQ(to_double(out[i]), to_double(expected)) << int(x[i]) << " of " << count;
  }
  EXPECT_TRUE(std::isnan(to_double(out.back())));  // nothing is written past the end
}

TEST(Cast, EveryByteOnEveryProcessor) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    for (const int64_t count : {0, 1, 7, 15, 16, 17, 256, 1000, 65536 * 2 + 3}) {
      expect_cast<float>(seed, count, 1.0f / 255, -127.0f / 255);
      expect_cast<BFloat16>(seed, count, 1.0f / 255, -127.0f / 255);
      const auto scale = float(random.normal()), shift = float(random.normal());
      expect_cast<float>(seed, count, scale, shift);
      expect_cast<BFloat16>(seed, count, scale, shift);
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

TEST(Cast, BadInputIsNamed) {
  float out;
  EXPECT_THROW(cast<float>(nullptr, 1, 1, 0, &out), Error);
  const uint8_t x = 1;
  EXPECT_THROW(cast<float>(&x, 1, 1, 0, nullptr), Error);
}

}  // namespace
}  // namespace lacuna
