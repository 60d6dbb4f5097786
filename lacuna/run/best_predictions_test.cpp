#include "lacuna/run/best_predictions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

// Against sorting them all: many ties, some NaN.
TEST(BestPredictions, AreThoseOfASort) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (const bool lowest : {false, true})
    for (const uint64_t count : {0, 1, 10, 500, 1000, 2000}) {
      BestPredictions best(count, 1, lowest);
      std::vector<std::pair<float, uint64_t>> all;  // a key that sorts ascending, number
      for (uint64_t number = 0; number < 1000; ++number) {
        float value = float(random.below(100)) - 50;
        if (random.below(20) == 0) value = std::nanf("");
        best.add(std::vector<uint32_t>{uint32_t(number), 7}, std::vector<float>{0.f, value});
        all.emplace_back(std::isnan(value) ? INFINITY : lowest ? value : -value, number);
      }
      std::sort(all.begin(), all.end());
      const auto found = best.take();
      ASSERT_EQ(found.size(), std::min<uint64_t>(count, 1000));
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].number, all[i].second) << i;
        EXPECT_EQ(found[i].genes, (std::vector<uint32_t>{uint32_t(all[i].second), 7}));
      }
    }
}

}  // namespace
}  // namespace lacuna
