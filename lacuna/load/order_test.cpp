#include "lacuna/load/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <string>

#include "lacuna/core/error.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using Numbers = std::vector<uint64_t>;

Numbers epoch_of(uint64_t n, uint64_t seed, uint64_t epoch) {
  const Permutation permutation(n, seed, epoch);
  Numbers order(n);
  for (uint64_t place = 0; place < n; ++place) order[place] = permutation(place);
  return order;
}

bool is_permutation_of_all(Numbers values) {
  std::sort(values.begin(), values.end());
  for (uint64_t i = 0; i < values.size(); ++i) {
    if (values[i] != i) return false;
  }
  return true;
}

Numbers batch_of(const Order& order, uint64_t epoch, uint64_t position) {
  Numbers samples;
  order.batch(epoch, position, samples);
  return samples;
}

// How many standard deviations a chi-square statistic lies above what equal shares give (Wilson and
// Hilferty).
double excess(std::span<const uint64_t> counts) {
  const double total = double(std::accumulate(counts.begin(), counts.end(), uint64_t(0)));
  const double expected = total / double(counts.size());
  double chi2 = 0;
  for (const uint64_t count : counts) chi2 += std::pow(double(count) - expected, 2) / expected;
  const double freedom = double(counts.size() - 1), spread = 2 / (9 * freedom);
  return (std::cbrt(chi2 / freedom) - (1 - spread)) / std::sqrt(spread);
}
constexpr double kTooMuch = 6.5;  // once in 10^10 runs by chance

TEST(Permutation, IsABijection) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (uint64_t n = 1; n < 300; ++n) EXPECT_TRUE(is_permutation_of_all(epoch_of(n, seed, n))) << n;
  for (const uint64_t n : {1023, 1024, 1025, 4099, 65535, 65536, 65537, 332313, 524288}) {
    EXPECT_TRUE(is_permutation_of_all(epoch_of(n, seed, 3))) << n;
  }
}

// Past 2^32 a bijection cannot be checked by listing it: no two of many places may meet.
TEST(Permutation, ReachesBeyondFourBillion) {
  const uint64_t n = (uint64_t(1) << 40) + 12345;
  const Permutation permutation(n, test_seed(), 0);
  Numbers samples;
  for (uint64_t place = 0; place < 100000; ++place) {
    samples.push_back(permutation(n - 1 - place * 7919));
    ASSERT_LT(samples.back(), n);
  }
  std::sort(samples.begin(), samples.end());
  EXPECT_EQ(std::adjacent_find(samples.begin(), samples.end()), samples.end());
  EXPECT_GT(samples.back(), n / 2);
}

// A saved position must mean the same in every version and on every machine. The numbers come from
// a version in Python, written from the words in the header.
TEST(Permutation, IsTheSameEverywhere) {
  EXPECT_EQ(epoch_of(10, 1, 0), (Numbers{2, 7, 9, 0, 6, 3, 8, 1, 5, 4}));
  EXPECT_EQ(epoch_of(10, 1, 1), (Numbers{5, 0, 8, 2, 4, 1, 7, 6, 3, 9}));
  const Permutation yeast(332313, 42, 7);
  EXPECT_EQ((Numbers{yeast(0), yeast(1), yeast(332312)}), (Numbers{117487, 229674, 32426}));
  const Permutation large(20000000, UINT64_MAX, uint64_t(1) << 40);
  EXPECT_EQ((Numbers{large(0), large(19999999)}), (Numbers{13509001, 11575055}));
}

TEST(Permutation, AllOrdersOfAFewSamplesAreEquallyFrequent) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const uint64_t n : {2, 3, 4, 5, 6}) {
    Numbers all(n);
    std::iota(all.begin(), all.end(), 0);
    std::map<Numbers, uint64_t> counts;
    do counts[all] = 0;
    while (std::next_permutation(all.begin(), all.end()));
    for (uint64_t epoch = 0; epoch < 72000; ++epoch) ++counts[epoch_of(n, seed, epoch)];
    std::vector<uint64_t> counted;
    for (const auto& [order, count] : counts) counted.push_back(count);
    EXPECT_LT(excess(counted), kTooMuch) << "n = " << n;
  }
}

TEST(Permutation, EverySampleLandsEverywhereEquallyOften) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const uint64_t n : {5, 7, 16, 33, 64, 100, 1100}) {
    std::vector<Numbers> counts(n, Numbers(n));  // [place][sample]
    for (uint64_t epoch = 0; epoch < 5000; ++epoch) {
      const Numbers order = epoch_of(n, seed, epoch);
      for (uint64_t place = 0; place < n; ++place) ++counts[place][order[place]];
    }
    for (uint64_t place = 0; place < n; ++place) {
      EXPECT_LT(excess(counts[place]), kTooMuch) << "n = " << n << ", place " << place;
    }
  }
}

// Two places together: which two samples meet in a batch must be as good as free.
TEST(Permutation, PairsOfPlacesMeetAllPairsOfSamples) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  constexpr uint64_t n = 20;
  for (const auto& [a, b] : {std::pair<uint64_t, uint64_t>{0, 1}, {0, 16}, {5, 13}, {18, 19}}) {
    Numbers counts(n * (n - 1));
    for (uint64_t epoch = 0; epoch < 20000; ++epoch) {
      const Permutation permutation(n, seed, epoch);
      const uint64_t first = permutation(a), second = permutation(b);
      ++counts[first * (n - 1) + second - (second > first)];
    }
    EXPECT_LT(excess(counts), kTooMuch) << "places " << a << " and " << b;
  }
}

TEST(Permutation, NeighboursDoNotStayNeighbours) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  constexpr uint64_t n = 10007, epochs = 200;
  double neighbours = 0, unmoved = 0, kept_from_last = 0, kept_from_other_seed = 0;
  Numbers last = epoch_of(n, seed, epochs);
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const Numbers order = epoch_of(n, seed, epoch), other = epoch_of(n, seed + 1, epoch);
    for (uint64_t i = 0; i < n; ++i) {
      if (i > 0) neighbours += order[i] - order[i - 1] + 1 <= 2;  // -1, 0 or 1 apart
      unmoved += order[i] == i;
      kept_from_last += order[i] == last[i];
      kept_from_other_seed += order[i] == other[i];
    }
    last = order;
  }
  // Chance gives Poisson counts: two pairs of neighbours an epoch, one sample in its old place.
  const auto far_from = [](double count, double expected) {
    return std::abs(count - expected) / std::sqrt(expected);
  };
  EXPECT_LT(far_from(neighbours, 2 * epochs), kTooMuch);
  EXPECT_LT(far_from(unmoved, epochs), kTooMuch);
  EXPECT_LT(far_from(kept_from_last, epochs), kTooMuch);
  EXPECT_LT(far_from(kept_from_other_seed, epochs), kTooMuch);
}

TEST(Order, IsAPureFunction) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const OrderSettings settings = {.global_batch = 28, .seed = seed};
  const Order order(1000, settings);
  std::vector<std::vector<Numbers>> forward(4);
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    for (uint64_t p = 0; p < order.batches(); ++p) {
      forward[epoch].push_back(batch_of(order, epoch, p));
    }
  }
  Random random(seed, 1);
  for (int i = 0; i < 200; ++i) {
    const uint64_t epoch = random.below(4), p = random.below(order.batches());
    EXPECT_EQ(batch_of(Order(1000, settings), epoch, p), forward[epoch][p]);
  }
  EXPECT_NE(forward[0], forward[1]);
  EXPECT_NE(forward[1], forward[2]);
}

TEST(Order, SequentialIsSequential) {
  const Order order(10, {.global_batch = 4, .seed = 5, .shuffled = false});
  EXPECT_EQ(order.batches(), 3u);
  EXPECT_EQ(batch_of(order, 7, 0), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(batch_of(order, 0, 2), (Numbers{8, 9}));
}

struct Case {
  uint64_t samples, global_batch, epoch;
  uint32_t world;
};
Case random_case(Random& random) {
  const uint64_t world = 1 + random.below(7);
  return {1 + random.below(400), world + random.below(40), random.below(1000), uint32_t(world)};
}

TEST(Order, RanksPartitionAnEpochExactly) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 300; ++i) {
    const auto [samples, global_batch, epoch, world] = random_case(random);
    Numbers seen;
    for (uint32_t rank = 0; rank < world; ++rank) {
      const Order order(samples, {.global_batch = global_batch,
                                  .seed = seed,
                                  .shuffled = i % 2 == 0,
                                  .rank = rank,
                                  .world = world});
      EXPECT_EQ(order.batches(), (samples + global_batch - 1) / global_batch);
      for (uint64_t p = 0; p < order.batches(); ++p) {
        const Numbers batch = batch_of(order, epoch, p);
        EXPECT_LE(batch.size(), order.largest_batch());
        const uint64_t global = std::min(global_batch, samples - p * global_batch);
        EXPECT_EQ(batch.size(), global / world + (rank < global % world));
        seen.insert(seen.end(), batch.begin(), batch.end());
      }
    }
    EXPECT_EQ(seen.size(), samples);
    EXPECT_TRUE(is_permutation_of_all(seen));
  }
}

TEST(Order, DroppedRemainderLeavesOnlyFullBatches) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 300; ++i) {
    auto [samples, global_batch, epoch, world] = random_case(random);
    samples += global_batch;
    Numbers seen;
    for (uint32_t rank = 0; rank < world; ++rank) {
      const Order order(samples, {.global_batch = global_batch,
                                  .seed = seed,
                                  .remainder = Remainder::drop,
                                  .rank = rank,
                                  .world = world});
      EXPECT_EQ(order.batches(), samples / global_batch);
      for (uint64_t p = 0; p < order.batches(); ++p) {
        const Numbers batch = batch_of(order, epoch, p);
        EXPECT_EQ(batch.size(), global_batch / world + (rank < global_batch % world));
        seen.insert(seen.end(), batch.begin(), batch.end());
      }
    }
    EXPECT_EQ(seen.size(), samples / global_batch * global_batch);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  }
}

TEST(Order, NumberOfRanksDoesNotChangeIt) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  constexpr uint64_t samples = 1003, global_batch = 60;
  const Order alone(samples, {.global_batch = global_batch, .seed = seed});
  for (const uint32_t world : {2, 3, 4, 7, 60}) {
    for (uint64_t p = 0; p < alone.batches(); ++p) {
      Numbers joined;
      for (uint32_t rank = 0; rank < world; ++rank) {
        const Order order(
            samples, {.global_batch = global_batch, .seed = seed, .rank = rank, .world = world});
        const Numbers batch = batch_of(order, 5, p);
        joined.insert(joined.end(), batch.begin(), batch.end());
      }
      EXPECT_EQ(joined, batch_of(alone, 5, p)) << "world " << world << ", batch " << p;
    }
  }
}

TEST(Order, RefusesWhatCannotWork) {
  EXPECT_THROW(Order(0, {}), Error);
  EXPECT_THROW(Order(10, {.global_batch = 0}), Error);
  EXPECT_THROW(Order(10, {.global_batch = 3, .world = 4}), Error);
  EXPECT_THROW(Order(10, {.rank = 2, .world = 2}), Error);
  EXPECT_THROW(Order(10, {.world = 0}), Error);
  EXPECT_THROW(Order(10, {.global_batch = 11, .remainder = Remainder::drop}), Error);
  EXPECT_NO_THROW(Order(10, {.global_batch = 11}));
}

}  // namespace
}  // namespace lacuna
