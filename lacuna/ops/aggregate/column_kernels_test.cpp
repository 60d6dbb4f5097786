#include "lacuna/ops/aggregate/column_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace lacuna {
namespace {

TEST(FillBytes, WritesItsRangeAndNothingElse) {
  alignas(kCacheLine) uint8_t memory[512];
  for (uint64_t first : {64, 65, 100, 127, 128})
    for (uint64_t count = 0; count <= 320; ++count) {
      std::fill(std::begin(memory), std::end(memory), uint8_t(7));
      fill_bytes(1, count, memory + first);
      for (uint64_t i = 0; i < sizeof(memory); ++i)
        ASSERT_EQ(memory[i], i >= first && i < first + count ? 1 : 7)
            << "byte " << i << " of " << count << " from " << first;
    }
}

}  // namespace
}  // namespace lacuna
