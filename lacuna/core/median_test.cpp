#include "lacuna/core/median.h"

#include <gtest/gtest.h>

namespace lacuna {
namespace {

TEST(Median, OfOddAndEvenNumbers) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({9, 1, 4, 100}), 6.5);
}

}  // namespace
}  // namespace lacuna
