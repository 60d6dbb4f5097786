#include "lacuna/ladder/window_memory.h"

#include <gtest/gtest.h>

namespace lacuna {
namespace {

TEST(WindowMemory, EverythingBesideTheFramesIsCounted) {
  const WindowMemory alone = {.batch = 100, .window_bytes = 900, .row_bytes = 100, .threads = 2};
  // Four batches ahead and two in use; validation makes three ahead and uses one.
  EXPECT_EQ(alone.training_bytes(), 6 * 100 * 1000);
  EXPECT_EQ(alone.bytes(), (6 + 4) * 100 * 1000);
  WindowMemory more = alone;
  more.has_gpu = true;  // two that a GPU fetches from, one while it validates
  EXPECT_EQ(more.bytes(), (8 + 5) * 100 * 1000);
  more = alone;
  more.field_bytes = 7;
  more.weighed_windows = 50;
  more.evaluated_bytes = 11;
  EXPECT_EQ(more.bytes(), alone.bytes() + 7 + 4 * 50 + 11);
  more = alone;
  more.ranks = 3;  // 34 windows each; whole batches are validated on every rank
  EXPECT_EQ(more.bytes(), 3 * (6 * 34 + 4 * 100) * 1000);
  more = alone;
  more.most_ahead = 150'000;  // room for one batch ahead
  EXPECT_EQ(more.training_bytes(), 3 * 100 * 1000);
}

}  // namespace
}  // namespace lacuna
