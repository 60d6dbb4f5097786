#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "lacuna/core/threads.h"

TEST(Threads, EveryIterationRunsOnce) {
  std::vector<std::atomic<int>> counts(1000);
  lacuna::parallel_for(1000, 2, [&](uint64_t i) { ++counts[i]; });
  for (auto& count : counts) EXPECT_EQ(count, 1);
}
