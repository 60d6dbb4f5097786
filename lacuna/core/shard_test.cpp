#include "lacuna/core/shard.h"

#include <gtest/gtest.h>

#include <vector>

namespace lacuna {
namespace {

TEST(Shard, PartsLieEndToEnd) {
  for (const uint64_t n : {0, 1, 5, 12, 100})
    for (const uint64_t count : {1, 2, 3, 7, 20}) {
      std::vector<int> met(n, 0);
      uint64_t before = 0;
      for (uint64_t index = 0; index < count; ++index) {
        const Shard shard = {index, count};
        EXPECT_EQ(shard.begin(n), before);
        before = shard.end(n);
        for (uint64_t place = 0; place < n; ++place) met[place] += shard.has(place, n);
      }
      EXPECT_EQ(before, n);
      EXPECT_EQ(met, std::vector<int>(n, 1));
    }
}

TEST(Shard, IsWrittenAsWhichOfHowMany) {
  EXPECT_EQ(parse_shard("2/4").index, 1);
  EXPECT_EQ(parse_shard("4/4").count, 4);
  EXPECT_TRUE(parse_shard("1/1").is_all());
  for (const char* wrong : {"", "0/4", "5/4", "1", "1/", "/2", "1/2x", "a/2", "-1/2", "1/0"})
    EXPECT_THROW(parse_shard(wrong), UsageError) << wrong;
}

}  // namespace
}  // namespace lacuna
