#include "lacuna/load/session_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using WindowNumbers = std::vector<uint64_t>;

std::vector<uint64_t> firsts(const std::vector<uint64_t>& sizes) {
  std::vector<uint64_t> first = {0};
  for (const uint64_t size : sizes) first.push_back(first.back() + size);
  return first;
}

uint32_t session_of(const std::vector<uint64_t>& first, uint64_t window) {
  return uint32_t(std::upper_bound(first.begin(), first.end(), window) - first.begin() - 1);
}

WindowNumbers drawn(const SessionOrder& order, uint64_t epochs) {
  WindowNumbers all, batch;
  for (uint64_t epoch = 0; epoch < epochs; ++epoch)
    for (uint64_t p = 0; p < order.batches(); ++p) {
      order.batch(epoch, p, batch);
      all.insert(all.end(), batch.begin(), batch.end());
    }
  return all;
}

// Of every prefix, the count of each session against its share.
void expect_fair(const WindowNumbers& windows, const std::vector<uint64_t>& first,
                 const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> counts(weights.size());
  for (uint64_t n = 1; n <= windows.size(); ++n) {
    ++counts[session_of(first, windows[n - 1])];
    for (size_t s = 0; s < weights.size(); ++s)
      ASSERT_LE(std::abs(double(counts[s]) - double(n) * weights[s] / sum), 1.0 + 1e-9)
          << "session " << s << " after " << n;
  }
}

TEST(SessionOrder, EveryPrefixHoldsEveryShareToWithinOne) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 12; ++round) {
    std::vector<uint64_t> sizes;
    std::vector<double> weights, lengths, ones;
    const uint64_t sessions = 1 + random.below(40);
    for (uint64_t s = 0; s < sessions; ++s) {
      sizes.push_back(1 + random.below(s % 3 == 0 ? 3000 : 90));
      weights.push_back(double(1 + random.below(20)) / 4);
      lengths.push_back(double(sizes.back()));
      ones.push_back(1);
    }
    const auto first = firsts(sizes);
    const SessionOrderSettings plain = {.global_batch = 1 + random.below(300), .seed = seed};
    SessionOrderSettings balanced = plain, weighted = plain;
    balanced.mix = SessionMix::balanced;
    weighted.mix = SessionMix::weighted;
    weighted.weights = weights;
    weighted.steps = 17;
    expect_fair(drawn(SessionOrder(first, plain), 2), first, lengths);
    expect_fair(drawn(SessionOrder(first, balanced), 2), first, ones);
    expect_fair(drawn(SessionOrder(first, weighted), 3), first, weights);
  }
}

TEST(SessionOrder, AnEpochInProportionVisitsEachWindowOnce) {
  const auto first = firsts({700, 0, 33, 1, 2500});
  const SessionOrder order(first, {.global_batch = 64, .seed = test_seed()});
  WindowNumbers last;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    WindowNumbers all, batch;
    for (uint64_t p = 0; p < order.batches(); ++p) {
      order.batch(epoch, p, batch);
      all.insert(all.end(), batch.begin(), batch.end());
    }
    EXPECT_NE(all, last) << "an epoch is as the one before";
    last = all;
    std::ranges::sort(all);
    WindowNumbers expected(first.back());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

TEST(SessionOrder, ASessionIsUsedUpBeforeItComesAgain) {
  const auto first = firsts({50, 7, 400});
  const SessionOrder order(
      first, {.global_batch = 10, .seed = 4, .mix = SessionMix::balanced, .steps = 11});
  std::vector<WindowNumbers> of(3);
  for (const uint64_t window : drawn(order, 40)) of[session_of(first, window)].push_back(window);
  for (size_t s = 0; s < 3; ++s) {
    const uint64_t count = first[s + 1] - first[s];
    WindowNumbers before;
    for (uint64_t round = 0; (round + 1) * count <= of[s].size(); ++round) {
      const WindowNumbers one(of[s].begin() + long(round * count),
                              of[s].begin() + long((round + 1) * count));
      EXPECT_EQ(std::set(one.begin(), one.end()).size(), count);
      if (count > 7) {
        EXPECT_NE(one, before);
      }
      before = one;
    }
  }
}

TEST(SessionOrder, RanksShareTheSameGlobalBatches) {
  const auto first = firsts({900, 100, 350});
  for (const bool one_session : {false, true})
    for (const auto mix : {SessionMix::proportional, SessionMix::balanced}) {
      SessionOrderSettings settings = {
          .global_batch = 30, .seed = 8, .mix = mix, .one_session = one_session};
      const SessionOrder alone(first, settings);
      for (const uint32_t world : {2u, 4u}) {
        settings.world = world;
        for (uint64_t epoch = 0; epoch < 2; ++epoch)
          for (uint64_t p = 0; p < alone.batches(); ++p) {
            WindowNumbers together, whole, part;
            alone.batch(epoch, p, whole);
            for (settings.rank = 0; settings.rank < world; ++settings.rank) {
              const SessionOrder order(first, settings);
              order.batch(epoch, p, part);
              ASSERT_LE(part.size(), order.largest_batch());
              together.insert(together.end(), part.begin(), part.end());
            }
            ASSERT_EQ(together, whole);
          }
        settings.rank = 0;
      }
    }
}

TEST(SessionOrder, OneSessionABatch) {
  const auto first = firsts({900, 100, 350});
  const SessionOrder order(first, {.global_batch = 32, .seed = 2, .one_session = true});
  WindowNumbers batch, sessions;
  for (uint64_t p = 0; p < order.batches(); ++p) {
    order.batch(0, p, batch);
    EXPECT_EQ(batch.size(), 32);
    for (const uint64_t window : batch)
      EXPECT_EQ(session_of(first, window), session_of(first, batch[0]));
    sessions.push_back(first[session_of(first, batch[0])]);  // a window of it
  }
  expect_fair(sessions, first, {900, 100, 350});
}

// A place is reached at once, in any order, by any object.
TEST(SessionOrder, IsAPureFunction) {
  const auto first = firsts({12345, 678, 30000, 99});
  const SessionOrderSettings settings = {.global_batch = 100, .seed = 5};
  const SessionOrder forward(first, settings);
  std::vector<WindowNumbers> batches(forward.batches());
  for (uint64_t p = 0; p < batches.size(); ++p) forward.batch(1, p, batches[p]);
  const SessionOrder backward = with_seed(SessionOrder(first, {.global_batch = 100}), 5);
  WindowNumbers batch;
  for (uint64_t p = batches.size(); p-- > 0;) {
    backward.batch(1, p, batch);
    ASSERT_EQ(batch, batches[p]) << p;
  }
}

TEST(SessionOrder, AColumnDrawsInProportion) {
  const auto first = firsts({1000, 500});
  const auto column = std::make_shared<std::vector<float>>(1500);
  for (size_t i = 0; i < 1500; ++i) (*column)[i] = float(i % 4);  // a quarter has none
  const SessionOrder order(
      first, {.global_batch = 100, .seed = test_seed(), .steps = 600, .column = column});
  const WindowNumbers windows = drawn(order, 1);
  std::vector<double> by_weight(4);
  for (const uint64_t window : windows) by_weight[window % 4] += 1;
  EXPECT_EQ(by_weight[0], 0);
  for (int weight = 1; weight < 4; ++weight)
    EXPECT_NEAR(by_weight[size_t(weight)] / double(windows.size()), weight / 6.0, 0.01);
  expect_fair(windows, first, {1000, 500});
}

// torch.multinomial ends at 2^24 categories.
TEST(SessionOrder, AColumnHasNoLimitOf16Million) {
  const uint64_t count = (uint64_t(1) << 24) + 1000;
  const auto column = std::make_shared<std::vector<float>>(count, 0.f);
  column->back() = 1;
  (*column)[count - 900] = 3;
  const SessionOrder order({0, count}, {.global_batch = 400, .steps = 1, .column = column});
  uint64_t at_the_end = 0;
  for (const uint64_t window : drawn(order, 1)) {
    ASSERT_TRUE(window == count - 1 || window == count - 900);
    at_the_end += window == count - 1;
  }
  EXPECT_NEAR(double(at_the_end), 100, 45);
}

TEST(SessionOrder, AStateFromAnotherMixIsRefused) {
  const auto first = firsts({90, 10});
  const SessionOrderSettings settings = {
      .global_batch = 10, .mix = SessionMix::weighted, .weights = {1, 2}};
  const SessionOrder order(first, settings);
  const LoaderState state = state_at(order, 3, 4);
  EXPECT_EQ(loader_state_from_json(to_json(state)), state);
  EXPECT_NO_THROW(check_state(state, SessionOrder(first, settings)));
  SessionOrderSettings other = settings;
  other.weights = {1, 3};
  EXPECT_ERROR(check_state(state, SessionOrder(first, other)), "other sessions, weights");
  other = {.global_batch = 10, .mix = SessionMix::balanced};
  EXPECT_ERROR(check_state(state, SessionOrder(first, other)), "balanced");
  EXPECT_ERROR(check_state(state, SessionOrder(firsts({91, 10}), settings)), "101 windows");
  other = settings;
  other.steps = 3;
  EXPECT_ERROR(check_state(state, SessionOrder(first, other)), "30");
  other = settings;
  other.global_batch = 20;
  EXPECT_ERROR(check_state(state, SessionOrder(first, other)), "global batch");
  EXPECT_ERROR(check_state(state, Order(100, {.global_batch = 10})), "over sessions");
}

TEST(SessionOrder, WhatCannotBeDrawnIsRefused) {
  EXPECT_ERROR(SessionOrder({0}, {}), "no windows");
  EXPECT_ERROR(SessionOrder({0, 5}, {.mix = SessionMix::weighted, .weights = {1, 2}}),
               "2 weights for 1 sessions");
  EXPECT_ERROR(SessionOrder({0, 5, 5}, {.mix = SessionMix::weighted, .weights = {1, 2}}),
               "no window to draw");
  EXPECT_ERROR(SessionOrder({0, 5}, {.mix = SessionMix::weighted, .weights = {-1}}), "-1");
  EXPECT_ERROR(session_mix_from_name("fair"), "proportional, balanced, weighted");
}

TEST(SessionOrder, SubjectsWeighTheirSessions) {
  const std::vector<std::string> subjects = {"a", "b", "a"};
  const auto first = firsts({100, 50, 300});
  EXPECT_EQ(weights_of_subjects({{"a", 2.0}, {"b", 1.0}}, subjects, first),
            (std::vector<double>{0.5, 1.0, 1.5}));
  EXPECT_ERROR(weights_of_subjects({{"c", 2.0}}, subjects, first), "'c'; there are: a, b");
  const std::vector<std::string> sessions = {"s0", "s1", "s2"};
  const std::vector<std::pair<std::string, double>> weights = {{"s2", 5.0}, {"a", 2.0}};
  EXPECT_EQ(weights_of_names(weights, sessions, subjects, first),
            (std::vector<double>{0.5, 0, 5.0 + 1.5}));
  EXPECT_ERROR(weights_of_names(std::vector<std::pair<std::string, double>>{{"s9", 1.0}}, sessions,
                                subjects, first),
               "'s9'; there are: a, b");
}

TEST(SessionOrder, FixedWindowsTouchEverySession) {
  const auto first = firsts({100000, 3, 0, 50000});
  const WindowNumbers some = fixed_windows(first, 200);
  EXPECT_EQ(some, fixed_windows(first, 200));
  std::set<uint32_t> sessions;
  for (const uint64_t window : some) sessions.insert(session_of(first, window));
  EXPECT_EQ(sessions, (std::set<uint32_t>{0, 1, 3}));
  EXPECT_NEAR(double(some.size()), 200, 3);
  EXPECT_EQ(fixed_windows(first, 1 << 30).size(), first.back());
}

// The loader delivers it, seeks in it, twice in a row.
struct EchoWindows {
  using Batch = WindowNumbers;
  uint64_t size() const { return 1000; }
  void fill(std::span<const uint64_t> windows, Batch& out) const {
    out.assign(windows.begin(), windows.end());
  }
};

TEST(SessionOrder, ALoaderResumesAnywhere) {
  const SessionOrder order(firsts({600, 400}),
                           {.global_batch = 16, .seed = 3, .mix = SessionMix::balanced});
  Loader<EchoWindows, SessionOrder> loader(EchoWindows(), order, {.threads = 2, .prefetch = 3});
  std::vector<WindowNumbers> whole;
  std::vector<LoaderState> states;
  for (int epoch = 0; epoch < 2; ++epoch) {
    states.push_back(loader.state());
    while (const auto batch = loader.next()) {
      whole.push_back(*batch);
      states.push_back(loader.state());
    }
  }
  const uint64_t per_epoch = order.batches();
  for (const uint64_t at : {uint64_t(5), per_epoch + 10, uint64_t(0), per_epoch - 1}) {
    Loader<EchoWindows, SessionOrder> other(EchoWindows(), with_seed(order, 77),
                                            {.threads = 1, .prefetch = 1});
    other.seek(state_at(order, at / per_epoch, at % per_epoch));
    EXPECT_EQ(*other.next(), whole[at]);
    other.seek(state_at(order, at / per_epoch, at % per_epoch));
    EXPECT_EQ(*other.next(), whole[at]);
  }
}

// What one process loads in two epochs, two or four ranks load together, though all of them are
// killed twice on the way and go on from a state that was saved as text.
TEST(SessionOrder, RanksThatAreKilledTwiceLoadTheSameWindows) {
  const auto first = firsts({330, 41, 629});
  for (const bool one_session : {false, true}) {
    SessionOrderSettings settings = {.global_batch = 24,
                                     .seed = test_seed(),
                                     .mix = SessionMix::weighted,
                                     .weights = {1, 2, 5},
                                     .one_session = one_session,
                                     .steps = 13};
    SCOPED_TRACE(settings.seed);
    const WindowNumbers alone = drawn(SessionOrder(first, settings), 2);
    for (const uint32_t world : {1u, 2u, 4u}) {
      std::vector<std::vector<WindowNumbers>> of_rank(world);
      settings.world = world;
      for (uint32_t rank = 0; rank < world; ++rank) {
        settings.rank = rank;
        std::string saved;
        for (const uint64_t lives : {5u, 16u, 1000u}) {  // batches until it is killed
          Loader<EchoWindows, SessionOrder> loader(EchoWindows(), SessionOrder(first, settings),
                                                   {.threads = 2, .prefetch = 4});
          if (!saved.empty()) loader.seek(loader_state_from_json(parse_json(saved, "state")));
          for (uint64_t i = 0; i < lives && of_rank[rank].size() < 26;) {
            const auto batch = loader.next();
            if (!batch) continue;
            of_rank[rank].push_back(*batch);
            saved = to_json(loader.state()).dump();
            ++i;
          }
        }
      }
      WindowNumbers together;
      for (uint64_t b = 0; b < 26; ++b)
        for (uint32_t rank = 0; rank < world; ++rank)
          together.insert(together.end(), of_rank[rank][b].begin(), of_rank[rank][b].end());
      EXPECT_EQ(together, alone) << world << " ranks";
    }
  }
}

}  // namespace
}  // namespace lacuna
