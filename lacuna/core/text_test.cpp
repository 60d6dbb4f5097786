#include "lacuna/core/text.h"

#include <gtest/gtest.h>

namespace lacuna {
namespace {

TEST(Text, NumbersReadWell) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(332313), "332,313");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(2'550'000), "2.55 MB");
  EXPECT_EQ(format_bytes(855'000'000'000), "855 GB");
  EXPECT_EQ(format_duration(12.4), "12 s");
  EXPECT_EQ(format_duration(200), "3 min 20 s");
  EXPECT_EQ(format_duration(3720), "1 h 02 min");
  EXPECT_EQ(format_rate(12.34), "12.3");
  EXPECT_EQ(format_rate(2'411'234), "2,410,000");
  EXPECT_EQ(format_digits(1250.4), "1250");
  EXPECT_EQ(format_digits(12.34), "12.3");
  EXPECT_EQ(format_digits(0.0031), "0.00310");
  EXPECT_EQ(format_digits(0), "0");
}

}  // namespace
}  // namespace lacuna
