#include "lacuna/core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }

// The value of a bf16 in double; infinity counts as the power of two after the largest number,
// which is what "nearest" means there.
double value_of(uint16_t bits) {
  const double value = float_of(uint32_t(bits) << 16);
  return std::isinf(value) ? std::copysign(0x1p128, value) : value;
}

// The nearest bf16 by definition: of the two around the number the nearer one, on a tie the even
// one.
uint16_t nearest(float number) {
  const uint16_t towards_zero = uint16_t(std::bit_cast<uint32_t>(number) >> 16);
  const uint16_t away = uint16_t(towards_zero + 1);
  if (std::isinf(number)) return towards_zero;
  const double low = std::abs(number - value_of(towards_zero)),
               high = std::abs(number - value_of(away));
  if (low != high) return low < high ? towards_zero : away;
  return towards_zero % 2 == 0 ? towards_zero : away;
}

TEST(BFloat16, RoundsToNearestEven) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 2'000'000; ++i) {
    uint32_t bits = uint32_t(random.next());
    if (i % 4 == 0) bits = (bits & 0xffff0000u) | 0x8000u;               // a tie
    if (i % 4 == 1) bits = (bits & 0xffff0000u) | (0x7fffu + (i & 2u));  // beside a tie
    const float number = float_of(bits);
    if (std::isnan(number)) continue;
    ASSERT_EQ(BFloat16(number).bits, nearest(number)) << std::hex << bits;
  }
}

TEST(BFloat16, EdgesOfTheRange) {
  const float largest = std::numeric_limits<float>::max();
  const float infinity = std::numeric_limits<float>::infinity();
  const float denormal = std::numeric_limits<float>::denorm_min();
  for (const float number : {0.0f, -0.0f, largest, -largest, infinity, -infinity, denormal,
                             -denormal, float_of(0x7f7f7fffu), float_of(0x7f7f8000u)})
    EXPECT_EQ(BFloat16(number).bits, nearest(number)) << number;
  EXPECT_TRUE(std::isinf(float(BFloat16(largest))));
  EXPECT_TRUE(std::signbit(float(BFloat16(-0.0f))));
}

TEST(BFloat16, EveryValueSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    BFloat16 half;
    half.bits = uint16_t(bits);
    if (std::isnan(float(half)))
      ASSERT_TRUE(std::isnan(float(BFloat16(float(half)))));
    else
      ASSERT_EQ(BFloat16(float(half)).bits, bits);
  }
}

// A NaN whose set bits are all in the lower half must not round to infinity.
TEST(BFloat16, ANaNStaysOne) {
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0x7fc00000u, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(float(BFloat16(float_of(bits))))) << std::hex << bits;
    EXPECT_EQ(std::signbit(float(BFloat16(float_of(bits)))), bool(bits >> 31));
  }
}

TEST(DType, NamesAndSizesAgree) {
  const std::pair<DType, std::pair<const char*, uint64_t>> all[] = {
      {dtype_of<uint8_t>, {"u8", sizeof(uint8_t)}},
      {dtype_of<uint16_t>, {"u16", sizeof(uint16_t)}},
      {dtype_of<uint32_t>, {"u32", sizeof(uint32_t)}},
      {dtype_of<uint64_t>, {"u64", sizeof(uint64_t)}},
      {dtype_of<int32_t>, {"i32", sizeof(int32_t)}},
      {dtype_of<int64_t>, {"i64", sizeof(int64_t)}},
      {dtype_of<BFloat16>, {"bf16", sizeof(BFloat16)}},
      {dtype_of<float>, {"f32", sizeof(float)}},
      {dtype_of<double>, {"f64", sizeof(double)}}};
  for (const auto& [dtype, expected] : all) {
    EXPECT_EQ(name(dtype), expected.first);
    EXPECT_EQ(item_size(dtype), expected.second);
    EXPECT_EQ(dtype_from_name(expected.first), dtype);
  }
  EXPECT_ERROR(dtype_from_name("f16"), "unknown dtype 'f16'");
  EXPECT_ERROR(dtype_from_name(""), "unknown dtype ''");
}

TEST(DType, SmallestIndexTypeHoldsTheLastIndex) {
  EXPECT_EQ(smallest_index_type(0), DType::u8);
  EXPECT_EQ(smallest_index_type(256), DType::u8);  // indices 0 to 255
  EXPECT_EQ(smallest_index_type(257), DType::u16);
  EXPECT_EQ(smallest_index_type(65'536), DType::u16);
  EXPECT_EQ(smallest_index_type(65'537), DType::u32);
  EXPECT_EQ(smallest_index_type(uint64_t(1) << 32), DType::u32);
  EXPECT_ERROR(smallest_index_type((uint64_t(1) << 32) + 1), "do not fit 32-bit indices");
}

}  // namespace
}  // namespace lacuna
