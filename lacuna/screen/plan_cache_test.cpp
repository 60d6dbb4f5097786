#include "lacuna/screen/plan_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "lacuna/core/testing.h"
#include "lacuna/graph/shuffle_graph.h"
#include "lacuna/ops/testing.h"
#include "lacuna/screen/subset.h"
#include "lacuna/screen/testing.h"

namespace lacuna {
namespace {

constexpr uint32_t kCapacity = 24;  // 40 genes: two tiles

bool same_bytes(const SlabPlan& a, const SlabPlan& b) {
  return std::ranges::equal(a.bytes(), b.bytes());
}

class PlanCache : public ::testing::Test {
 protected:
  Screen write(const std::string& name = "screen") {
    const HeteroGraph graph = small_graph(seed_);
    const Samples samples = small_samples(seed_, 50);
    return write_screen(directory_ / name, {graph, samples, {}, {{"command", "test"}}});
  }
  // What SlabPlan itself says of these edges.
  SlabPlan fresh(const HeteroGraph& graph, uint32_t capacity = kCapacity) {
    return SlabPlan::make(testing::gene_graph(graph).plan(), {capacity});
  }
  std::vector<fs::path> files(const fs::path& folder) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
    return found;
  }

  uint64_t seed_ = test_seed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  TemporaryDirectory directory_;
};

TEST_F(PlanCache, IsMadeOnceThenRead) {
  const Screen screen = write();
  const CachedPlan first = cached_plan(screen, kCapacity);
  EXPECT_EQ(first.how, CachedPlan::made);
  EXPECT_EQ(first.note, "");
  const CachedPlan second = cached_plan(screen, kCapacity);
  EXPECT_EQ(second.how, CachedPlan::read);
  EXPECT_EQ(second.note, "");
  EXPECT_TRUE(same_bytes(first.slabs, fresh(screen.graph())));
  EXPECT_TRUE(same_bytes(second.slabs, fresh(screen.graph())));
  EXPECT_TRUE(
      std::ranges::equal(second.graph.bytes(), testing::gene_graph(screen.graph()).plan().bytes()));
  ASSERT_EQ(files(cache_folder(screen)).size(), 1u);
  const std::string name = files(cache_folder(screen))[0].filename();
  EXPECT_EQ(name.rfind("slices-", 0), 0u) << name;
  EXPECT_EQ(name.size(), std::string("slices-0123456789abcdef.bin").size()) << name;
}

TEST_F(PlanCache, TheFileMayGoWhileItIsUsed) {
  const Screen screen = write();
  cached_plan(screen, kCapacity);
  const CachedPlan plan = cached_plan(screen, kCapacity);
  ASSERT_EQ(plan.how, CachedPlan::read);
  fs::remove_all(cache_folder(screen));
  EXPECT_TRUE(same_bytes(plan.slabs, fresh(screen.graph())));
  EXPECT_EQ(cached_plan(screen, kCapacity).how, CachedPlan::made);
}

TEST_F(PlanCache, AnotherGraphOrCapacityIsAnotherFile) {
  const Screen screen = write();
  const fs::path folder = cache_folder(screen);
  cached_plan(screen, kCapacity);
  EXPECT_EQ(cached_plan(screen, 40).how, CachedPlan::made);
  // The same counts, two edges with their targets exchanged: a control that only differs in wiring.
  testing::RandomGraph shuffled = testing::gene_graph(screen.graph());
  auto& targets = shuffled.types[1].second;
  const auto other = std::ranges::find_if(targets, [&](auto node) { return node != targets[0]; });
  ASSERT_NE(other, targets.end());
  std::swap(targets[0], *other);
  EXPECT_EQ(cached_plan(folder, shuffled.plan(), kCapacity).how, CachedPlan::made);
  const CachedPlan again = cached_plan(folder, shuffled.plan(), kCapacity);
  EXPECT_EQ(again.how, CachedPlan::read);
  EXPECT_TRUE(same_bytes(again.slabs, SlabPlan::make(shuffled.plan(), {kCapacity})));
  // The types in another order are another graph too.
  std::swap(shuffled.types[0], shuffled.types[1]);
  EXPECT_EQ(cached_plan(folder, shuffled.plan(), kCapacity).how, CachedPlan::made);
  EXPECT_EQ(files(folder).size(), 4u);
  EXPECT_EQ(cached_plan(screen, kCapacity).how, CachedPlan::read);
}

// Otherwise every seed of a control would leave a file.
TEST_F(PlanCache, ShuffledGraphsLeaveNothing) {
  const Screen screen = write();
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const HeteroGraph shuffled = shuffle_graph(screen.graph(), seed);
    const CachedPlan plan = cached_plan(screen, shuffled, kCapacity);
    EXPECT_EQ(plan.how, CachedPlan::made_not_saved);
    EXPECT_EQ(plan.note, "");
    EXPECT_TRUE(same_bytes(plan.slabs, fresh(shuffled)));
    EXPECT_FALSE(same_bytes(plan.slabs, fresh(screen.graph())));
    EXPECT_FALSE(fs::exists(cache_folder(screen)));
  }
  EXPECT_EQ(cached_plan(screen, HeteroGraph(screen.graph()), kCapacity).how, CachedPlan::made);
  EXPECT_EQ(cached_plan(screen, screen.graph(), kCapacity).how, CachedPlan::read);
  EXPECT_EQ(cached_plan(screen, kCapacity).how, CachedPlan::read);
  EXPECT_EQ(files(cache_folder(screen)).size(), 1u);
}

TEST_F(PlanCache, ADamagedFileIsMadeAnewAndSaysSo) {
  const Screen screen = write();
  cached_plan(screen, kCapacity);
  const fs::path file = files(cache_folder(screen)).at(0);
  const std::string whole = read_text(file);
  Random random(seed_);
  std::vector<std::string> damaged = {
      "",         "x", whole.substr(0, 63), whole.substr(0, 64), whole.substr(0, whole.size() - 1),
      whole + "x"};
  // One bit: in the magic, the version, the key, the length, the checksum, and anywhere in the
  // plan.
  std::vector<size_t> places = {0, 8, 16, 24, 32, 64};
  for (int i = 0; i < 100; ++i) places.push_back(64 + random.below(whole.size() - 64));
  for (const size_t place : places) {
    damaged.push_back(whole);
    damaged.back()[place] ^= char(1 << random.below(8));
  }
  for (const std::string& bytes : damaged) {
    fs::remove(file);  // a new file: the old one may still be mapped
    write_file(file, bytes);
    const CachedPlan plan = cached_plan(screen, kCapacity);
    ASSERT_EQ(plan.how, CachedPlan::made);
    EXPECT_NE(plan.note.find("made anew"), std::string::npos) << plan.note;
    EXPECT_NE(plan.note.find(file.string()), std::string::npos) << plan.note;
    ASSERT_EQ(read_text(file), whole);
  }
  EXPECT_EQ(cached_plan(screen, kCapacity).how, CachedPlan::read);
}

// A read-only screen, imitated by a file in the folder's place, since root may write everywhere.
TEST_F(PlanCache, WhereNothingCanBeWrittenThePlanIsMadeAndSaysSo) {
  const Screen screen = write();
  write_file(cache_folder(screen), "in the way");
  for (int i = 0; i < 2; ++i) {
    const CachedPlan plan = cached_plan(screen, kCapacity);
    EXPECT_EQ(plan.how, CachedPlan::made_not_saved);
    EXPECT_NE(plan.note.find("not kept"), std::string::npos) << plan.note;
    EXPECT_NE(plan.note.find(cache_folder(screen).string()), std::string::npos) << plan.note;
    EXPECT_TRUE(same_bytes(plan.slabs, fresh(screen.graph())));
  }
}

TEST_F(PlanCache, AFullDiskLeavesNothingBehind) {
  const Screen screen = write();
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit limit = {1000, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const CachedPlan plan = cached_plan(screen, kCapacity);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(plan.how, CachedPlan::made_not_saved);
  EXPECT_TRUE(same_bytes(plan.slabs, fresh(screen.graph())));
  EXPECT_TRUE(files(cache_folder(screen)).empty());
}

TEST_F(PlanCache, ManyAtOnceDoNotHurtEachOther) {
  const Screen screen = write();
  const SlabPlan expected = fresh(screen.graph());
  std::vector<std::thread> threads;
  std::vector<int> good(6, 0);
  for (size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        std::error_code ignored;
        if (t == 0) fs::remove_all(cache_folder(screen), ignored);  // and somebody deletes them
        const CachedPlan plan = cached_plan(screen, kCapacity, 1);
        good[t] += same_bytes(plan.slabs, expected);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(6, 5));
  cached_plan(screen, kCapacity);
  EXPECT_EQ(cached_plan(screen, kCapacity).how, CachedPlan::read);
  EXPECT_EQ(files(cache_folder(screen)).size(), 1u);
}

TEST_F(PlanCache, IsNoPartOfTheScreen) {
  const Screen screen = write(), other = write("other");
  cached_plan(screen, kCapacity);
  Screen::open(screen.path()).check(Progress::none());
  EXPECT_EQ(Screen::open(screen.path()).fingerprint().value(), other.fingerprint().value());
  EXPECT_EQ(Screen::open(screen.path()).directory().bytes(), other.directory().bytes());
  write_subset(screen, directory_ / "subset", {.where = {"removed<=4"}}, {{"command", "test"}});
  EXPECT_FALSE(fs::exists(directory_ / "subset" / "cache"));
}

TEST_F(PlanCache, AScreenWithoutGeneEdgesHasAPlanToo) {
  HeteroGraph graph;
  graph.add_nodes("gene", numbered_names("G", 10));
  const Samples samples = small_samples(seed_, 20, 10);
  const Screen screen =
      write_screen(directory_ / "bare", {graph, samples, {}, {{"command", "test"}}});
  EXPECT_EQ(cached_plan(screen, kCapacity).how, CachedPlan::made);
  EXPECT_EQ(cached_plan(screen, kCapacity).how, CachedPlan::read);
  EXPECT_ERROR(cached_plan(screen, 4), "too small");
}

}  // namespace
}  // namespace lacuna
