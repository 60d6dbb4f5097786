#include "lacuna/load/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "lacuna/core/system/stop.h"
#include "lacuna/core/testing.h"

namespace lacuna {

uint64_t allocations();  // of this program, so far: allocations_test.cpp
bool counts_allocations();

namespace {

using Numbers = std::vector<uint64_t>;

// A batch is the list of its samples; a hook runs before each is filled.
struct EchoSource {
  using Batch = Numbers;
  uint64_t count;
  std::function<void(std::span<const uint64_t>)> hook = nullptr;

  uint64_t size() const { return count; }
  void fill(std::span<const uint64_t> samples, Batch& out) const {
    if (hook) hook(samples);
    out.assign(samples.begin(), samples.end());
  }
};
using EchoLoader = Loader<EchoSource>;

Numbers expected(const Order& order, uint64_t epoch, uint64_t position) {
  Numbers samples;
  order.batch(epoch, position, samples);
  return samples;
}

void expect_epoch(EchoLoader& loader, uint64_t epoch) {
  for (uint64_t p = 0; p < loader.order().batches(); ++p) {
    const auto batch = loader.next();
    ASSERT_TRUE(batch);
    ASSERT_EQ(*batch, expected(loader.order(), epoch, p)) << "epoch " << epoch << ", batch " << p;
  }
  ASSERT_FALSE(loader.next());
}

TEST(Loader, DeliversEveryBatchInOrder) {
  for (const int threads : {0, 1, 2, 3, 8}) {
    for (const uint64_t prefetch : {1, 2, 3, 7, 64, 1000}) {
      SCOPED_TRACE("threads " + std::to_string(threads) + ", prefetch " + std::to_string(prefetch));
      EchoLoader loader({101}, {{.global_batch = 3, .seed = 9}, threads, prefetch});
      for (uint64_t epoch = 0; epoch < 4; ++epoch) expect_epoch(loader, epoch);
    }
  }
}

TEST(Loader, OneBatchAnEpochIsEnough) {
  EchoLoader loader({5}, {{.global_batch = 28, .seed = 9}});
  for (uint64_t epoch = 0; epoch < 300; ++epoch) expect_epoch(loader, epoch);
}

TEST(Loader, SlowWorkersDoNotDisturbTheOrder) {
  const auto dawdle = [](std::span<const uint64_t> samples) {
    std::this_thread::sleep_for(std::chrono::microseconds(samples[0] % 5 * 100));
  };
  EchoLoader loader({200, dawdle}, {{.global_batch = 4, .seed = 1}, 4, 8});
  for (uint64_t epoch = 0; epoch < 3; ++epoch) expect_epoch(loader, epoch);
}

TEST(Loader, PrefetchIsUsedAndBounded) {
  for (const uint64_t prefetch : {1, 2, 5, 16, 100}) {
    SCOPED_TRACE("prefetch " + std::to_string(prefetch));
    std::atomic<int64_t> started = 0, taken = 0, most = 0;
    const auto count = [&](std::span<const uint64_t>) {
      const int64_t ahead = ++started - taken;
      int64_t seen = most;
      while (seen < ahead && !most.compare_exchange_weak(seen, ahead)) {
      }
    };
    EchoLoader loader({1000, count}, {{.global_batch = 2, .seed = 1}, 3, prefetch});
    // Nobody takes a batch before most of those that may be made ahead are there, however long a
    // busy machine takes over it. (A ring of whole chunks may be a little smaller than asked for.)
    const int64_t enough = std::max<int64_t>(1, int64_t(prefetch) * 2 / 3);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (started < enough && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_GE(started, enough) << "the prefetch that was asked for is not used";
    for (int i = 0; i < 1000; ++i) {
      const auto batch = loader.next();
      ++taken;
    }
    // next() may let a worker go on before it returns and the batch is counted here.
    EXPECT_LE(most, int64_t(prefetch) + 1);
  }
}

TEST(Loader, NoAllocationInSteadyState) {
  if (!counts_allocations()) GTEST_SKIP() << "AddressSanitizer has its own operator new";
  for (const int threads : {0, 1, 2}) {
    EchoLoader loader({1000}, {{.global_batch = 28, .seed = 1}, threads, 16});
    for (int i = 0; i < 100; ++i) loader.next();
    const uint64_t before = allocations();
    for (int i = 0; i < 2000; ++i) loader.next();
    EXPECT_EQ(allocations() - before, 0u) << "threads " << threads;
  }
}

TEST(Loader, ABatchThatIsKeptNeverChanges) {
  std::vector<BatchRef<Numbers>> kept;
  std::vector<Numbers> copies;
  {
    EchoLoader loader({500}, {{.global_batch = 7, .seed = 3}, 2, 8});
    while (auto batch = loader.next()) {
      copies.push_back(*batch);
      kept.push_back(std::move(batch));
    }
    for (int i = 0; i < 1000; ++i) loader.next();
    for (size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(*kept[i], copies[i]);
    // Returned ones are used again, the others still stand.
    for (size_t i = 0; i < kept.size(); i += 2) kept[i].reset();
    for (int i = 0; i < 1000; ++i) loader.next();
    for (size_t i = 1; i < kept.size(); i += 2) ASSERT_EQ(*kept[i], copies[i]);
  }
  for (size_t i = 1; i < kept.size(); i += 2)
    ASSERT_EQ(*kept[i], copies[i]);  // also without loader
}

TEST(Loader, KeptBatchesGoBackToThePool) {
  if (!counts_allocations()) GTEST_SKIP() << "AddressSanitizer has its own operator new";
  EchoLoader loader({1000}, {{.global_batch = 5, .seed = 3}, 2, 8});
  const auto keep_fifty = [&] {
    std::vector<BatchRef<Numbers>> kept(50);
    for (auto& batch : kept) {
      do batch = loader.next();
      while (!batch);
    }
  };
  for (int i = 0; i < 20; ++i) keep_fifty();
  const uint64_t before = allocations();
  for (int i = 0; i < 20; ++i) keep_fifty();
  EXPECT_EQ(allocations() - before, 20u);  // the vectors of this test
}

TEST(Loader, ABatchMayEndInAnotherThread) {
  std::vector<std::thread> others;
  {
    EchoLoader loader({1000}, {{.global_batch = 5, .seed = 3}, 2, 8});
    for (uint64_t p = 0; p < 60; ++p) {
      auto batch = loader.next();
      others.emplace_back([batch = std::move(batch), right = expected(loader.order(), 0, p)] {
        EXPECT_EQ(*batch, right);
      });
    }
  }  // some of them end after the loader
  for (std::thread& other : others) other.join();
}

TEST(Loader, AnExceptionArrivesWhereItHappened) {
  for (const int threads : {0, 1, 3}) {
    for (const uint64_t prefetch : {1, 40}) {
      SCOPED_TRACE("threads " + std::to_string(threads) + ", prefetch " + std::to_string(prefetch));
      const auto fail = [](std::span<const uint64_t> samples) {
        if (samples[0] == 34) throw Error("sample 34 is broken");
      };
      EchoLoader loader({100, fail}, {{.global_batch = 2, .shuffled = false}, threads, prefetch});
      for (uint64_t p = 0; p < 17; ++p) ASSERT_EQ(*loader.next(), (Numbers{2 * p, 2 * p + 1}));
      for (int again = 0; again < 3; ++again) {
        try {
          loader.next();
          FAIL() << "nothing was thrown";
        } catch (const Error& error) {
          EXPECT_STREQ(error.what(), "sample 34 is broken");
        }
        EXPECT_EQ(loader.state().position, 17u);
      }
      LoaderState past = loader.state();
      ++past.position;
      loader.seek(past);
      EXPECT_EQ(*loader.next(), (Numbers{36, 37}));
    }
  }
}

// One that is never asked for is never heard of.
TEST(Loader, AnExceptionAheadDoesNotDisturb) {
  const auto fail = [](std::span<const uint64_t> samples) {
    if (samples[0] == 10) throw 42;
  };
  EchoLoader loader({100, fail}, {{.global_batch = 2, .shuffled = false}, 2, 64});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(loader.next());
  EXPECT_THROW(loader.next(), int);
}

TEST(Loader, StopsCleanlyAtAnyMoment) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 300; ++i) {
    const auto dawdle = [](std::span<const uint64_t> samples) {
      if (samples[0] % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    };
    EchoLoader loader(
        {300, dawdle},
        {{.global_batch = 3, .seed = seed}, int(random.below(5)), 1 + random.below(40)});
    std::vector<BatchRef<Numbers>> kept;
    for (uint64_t n = random.below(150); n > 0; --n) {
      auto batch = loader.next();
      if (batch && random.below(10) == 0) kept.push_back(std::move(batch));
    }
    if (random.below(2) == 0) std::this_thread::sleep_for(std::chrono::microseconds(30));
  }
}

TEST(Loader, StopWakesAWaitingCaller) {
  std::atomic<bool> hold = true;
  const auto wait = [&](std::span<const uint64_t>) { hold.wait(true); };
  EchoLoader loader({100, wait}, {{.global_batch = 2}, 2, 4});
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    loader.stop();
  });
  EXPECT_THROW(loader.next(), Error);  // while both workers are still inside fill()
  EXPECT_THROW(loader.next(), Error);
  stopper.join();
  hold = false;
  hold.notify_all();
  loader.seek(loader.state());
  expect_epoch(loader, 0);
}

// As when Ctrl-C comes while a disk does not answer.
TEST(Loader, AStopOfTheProgramIsSeenWhileItWaits) {
  std::atomic<bool> hold = true;
  const auto wait = [&](std::span<const uint64_t>) { hold.wait(true); };
  EchoLoader loader({100, wait}, {{.global_batch = 2}, 2, 4});
  {
    const StopAfter stop(1);
    EXPECT_TRUE(is_stop_asked());  // from here on it is asked
    EXPECT_THROW(loader.next(), Stopped);
  }
  hold = false;
  hold.notify_all();
  expect_epoch(loader, 0);
}

TEST(Loader, StopEndsLoadingWithoutThreadsToo) {
  EchoLoader loader({100}, {{.global_batch = 2}, 0});
  loader.next();
  loader.stop();
  EXPECT_THROW(loader.next(), Error);
}

TEST(LoaderState, ResumesAnywhereAndTwice) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 60; ++i) {
    const uint64_t samples = 1 + random.below(300);
    LoaderSettings settings = {{.global_batch = 1 + random.below(20), .seed = seed}, 2, 6};
    EchoLoader straight({samples}, settings);
    Json saved;
    for (uint64_t n = random.below(100); n > 0; --n) straight.next();
    for (int twice = 0; twice < 2; ++twice) {
      saved = Json::parse(to_json(straight.state()).dump());
      settings.order.seed = 12345;  // the state brings its own
      settings.threads = int(random.below(4));
      EchoLoader resumed({samples}, settings);
      resumed.seek(loader_state_from_json(saved));
      EXPECT_EQ(resumed.state(), straight.state());
      for (uint64_t n = random.below(100); n > 0; --n) {
        const auto a = straight.next(), b = resumed.next();
        ASSERT_EQ(bool(a), bool(b));
        if (a) {
          ASSERT_EQ(*a, *b);
        }
      }
      EXPECT_EQ(resumed.state(), straight.state());
    }
  }
}

TEST(LoaderState, ANewNumberOfRanksGoesOnInTheSameOrder) {
  EchoLoader alone({1000}, {{.global_batch = 24, .seed = 8}});
  for (int i = 0; i < 13; ++i) alone.next();
  std::vector<std::unique_ptr<EchoLoader>> ranks;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<EchoLoader>(
        EchoSource{1000},
        LoaderSettings{{.global_batch = 24, .seed = 8, .rank = rank, .world = 3}, 1, 4}));
    ranks.back()->seek(alone.state());
  }
  while (const auto batch = alone.next()) {
    Numbers joined;
    for (auto& rank : ranks) {
      const auto slice = rank->next();
      joined.insert(joined.end(), slice->begin(), slice->end());
    }
    ASSERT_EQ(joined, *batch);
  }
}

TEST(LoaderState, FromAnotherOrderIsRefused) {
  EchoLoader loader({1000}, {{.global_batch = 24, .seed = 8}});
  const LoaderState good = loader.state();
  const auto expect_refused = [&](auto change, const std::string& word) {
    LoaderState state = good;
    change(state);
    try {
      loader.seek(state);
      FAIL() << word;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  expect_refused([](LoaderState& s) { s.samples = 999; }, "999 samples");
  expect_refused([](LoaderState& s) { s.global_batch = 28; }, "global batch of 28");
  expect_refused([](LoaderState& s) { s.shuffled = false; }, "sequential");
  expect_refused([](LoaderState& s) { s.position = 43; }, "batch 43");
  expect_epoch(loader, 0);  // a refused state changes nothing

  Json json = to_json(good);
  json.erase("epoch");
  EXPECT_THROW(loader_state_from_json(json), Error);
  json = to_json(good);
  json["position"] = -1;
  EXPECT_THROW(loader_state_from_json(json), Error);
  EXPECT_THROW(loader_state_from_json(Json("text")), Error);
}

TEST(Loader, RefusesWhatCannotWork) {
  EXPECT_THROW(EchoLoader({10}, {{}, -1}), Error);
  EXPECT_THROW(EchoLoader({10}, {{}, 2, 0}), Error);
  EXPECT_THROW(EchoLoader({0}, {}), Error);
}

}  // namespace
}  // namespace lacuna
