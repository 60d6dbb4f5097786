#include "lacuna/core/system/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lacuna {
namespace {

constexpr size_t kMiB = size_t(1) << 20;

// Whatever the system does with the request, the bytes stay, inside the range and around it.
TEST(Scratch, AskingForHugePagesChangesNoByte) {
  std::vector<uint8_t> memory(9 * kMiB + 77);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = uint8_t(i * 2654435761u >> 24);
  const std::vector<uint8_t> before = memory;
  for (const size_t first : {size_t(0), size_t(1), size_t(4097), 2 * kMiB, memory.size() - 1})
    for (const size_t bytes : {size_t(0), size_t(1), 2 * kMiB, 5 * kMiB, memory.size()})
      ask_for_huge_pages(memory.data() + first, std::min(bytes, memory.size() - first));
  ask_for_huge_pages(nullptr, 0);
  EXPECT_TRUE(memory == before);
}

TEST(Scratch, IsAlignedToLinesAndHoldsWhatIsWritten) {
  for (const size_t count : {size_t(0), size_t(1), size_t(1000), kMiB, 3 * kMiB + 5}) {
    const Scratch<uint32_t> scratch(count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch.get()) % 64, 0u);
    for (size_t i = 0; i < count; ++i) scratch[i] = uint32_t(i);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(scratch[i], uint32_t(i));
  }
}

}  // namespace
}  // namespace lacuna
