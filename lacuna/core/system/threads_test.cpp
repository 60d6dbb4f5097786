#include "lacuna/core/system/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

// LACUNA_THREADS for the length of a test.
class ThreadsVariable {
 public:
  explicit ThreadsVariable(const char* value) { ::setenv("LACUNA_THREADS", value, 1); }
  ~ThreadsVariable() { ::unsetenv("LACUNA_THREADS"); }
};

TEST(ParallelFor, EveryIterationRunsOnce) {
  for (const int threads : {0, 1, 2, 3, 8})
    for (const uint64_t count : {0u, 1u, 2u, 7u, 1000u}) {
      std::vector<std::atomic<int>> calls(count);
      parallel_for(count, threads, [&](uint64_t i) { ++calls.at(i); });
      for (const auto& call : calls) ASSERT_EQ(call, 1) << threads << " threads, count " << count;
    }
}

TEST(ParallelFor, WhatBodiesWroteIsSeenAfterwards) {
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> squares(500, 0);
    parallel_for(squares.size(), 4, [&](uint64_t i) { squares[i] = i * i + uint64_t(round); });
    for (uint64_t i = 0; i < squares.size(); ++i) ASSERT_EQ(squares[i], i * i + uint64_t(round));
  }
}

// Two bodies that each wait for the other to begin.
TEST(ParallelFor, IterationsRunSideBySide) {
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0, met = 0;
  parallel_for(2, 2, [&](uint64_t) {
    std::unique_lock lock(mutex);
    ++begun;
    changed.notify_all();
    met += changed.wait_for(lock, std::chrono::seconds(60), [&] { return begun == 2; });
  });
  EXPECT_EQ(met, 2);
}

TEST(ParallelFor, AnExceptionReachesTheCaller) {
  for (const int threads : {1, 2, 4}) {
    const auto run = [&] {
      parallel_for(1000, threads, [](uint64_t i) {
        if (i == 500) throw Error("iteration {} failed", i);
      });
    };
    EXPECT_EQ(error_of(run), "iteration 500 failed");
    std::atomic<int> calls = 0;  // and the threads are there for the next loop
    parallel_for(1000, threads, [&](uint64_t) { ++calls; });
    EXPECT_EQ(calls, 1000);
  }
}

TEST(ParallelFor, NoIterationStartsAfterAnException) {
  for (const int threads : {1, 2, 4}) {
    std::atomic<int> calls = 0;
    const auto run = [&] {
      parallel_for(100'000, threads, [&](uint64_t i) {
        ++calls;
        throw Error("iteration {}", i);
      });
    };
    EXPECT_THROW(run(), Error);
    EXPECT_LE(calls, threads);  // each thread may have been inside one
  }
}

TEST(ParallelFor, ACallFromInsideRunsOnThatThread) {
  std::atomic<int> calls = 0, elsewhere = 0;
  parallel_for(8, 4, [&](uint64_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(50, 4, [&](uint64_t) {
      ++calls;
      elsewhere += std::this_thread::get_id() != outer;
    });
  });
  EXPECT_EQ(calls, 8 * 50);
  EXPECT_EQ(elsewhere, 0);
}

TEST(ParallelFor, AnExceptionPassesThroughALoopInALoop) {
  const auto run = [] {
    parallel_for(4, 2, [](uint64_t) {
      parallel_for(4, 2, [](uint64_t) { throw Error("from {}", "inside"); });
    });
  };
  EXPECT_EQ(error_of(run), "from inside");
}

TEST(ParallelFor, TwoThreadsMayCallAtOnce) {
  std::atomic<uint64_t> sum = 0;
  const auto call = [&] {
    for (int round = 0; round < 100; ++round) parallel_for(100, 3, [&](uint64_t i) { sum += i; });
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(sum, 2u * 100u * 4950u);
}

// A child has none of its parent's threads, and must not wait for them.
TEST(ParallelFor, WorksInAForkedChild) {
  std::atomic<uint64_t> sum = 0;
  parallel_for(100, 3, [&](uint64_t i) { sum += i; });  // the parent's threads are running
  ASSERT_EQ(sum, 4950u);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);  // a child that hangs is killed, and the test fails
    sum = 0;
    parallel_for(100, 3, [&](uint64_t i) { sum += i; });
    ::_exit(sum == 4950u ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  sum = 0;
  parallel_for(100, 3, [&](uint64_t i) { sum += i; });
  EXPECT_EQ(sum, 4950u);
}

TEST(AvailableThreads, IsAtLeastOne) { EXPECT_GE(available_threads(), 1); }

TEST(AvailableThreads, FollowsTheVariable) {
  const ThreadsVariable three("3");
  EXPECT_EQ(available_threads(), 3);
}

// A batch system's quota lies in the job's group, not in the topmost one.
TEST(CgroupCpus, TheLeastOfAllGroupsAbove) {
  MadeUpGroups groups;
  EXPECT_FALSE(cgroup_cpus(groups.places));  // no cgroups at all
  groups.belong("0::/slice/job_7/step_0\n");
  groups.put("", "cpu.max", "max 100000\n");
  EXPECT_FALSE(cgroup_cpus(groups.places));
  groups.put("slice", "cpu.max", "3200000 100000\n");
  groups.put("slice/job_7", "cpu.max", "400000 100000\n");
  groups.put("slice/job_7/step_0", "cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpus(groups.places), 4.0);
  groups.put("slice", "cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_cpus(groups.places), 0.5);
}

TEST(CgroupCpus, VersionOne) {
  MadeUpGroups groups;
  groups.belong("5:cpuset:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/job\n");
  groups.put("cpu", "cpu.cfs_quota_us", "-1\n");  // none
  groups.put("cpu", "cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cgroup_cpus(groups.places));
  groups.put("cpu/job", "cpu.cfs_quota_us", "250000\n");
  groups.put("cpu/job", "cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpus(groups.places), 2.5);
}

// The path is the host's, the mount the container's.
TEST(CgroupCpus, PathThatIsNotThere) {
  MadeUpGroups groups;
  groups.belong("0::/docker/0123abcd\n");
  groups.put("", "cpu.max", "200000 100000\n");
  EXPECT_EQ(cgroup_cpus(groups.places), 2.0);
}

TEST(AvailableThreads, AVariableThatIsNoNumberIsRefused) {
  for (const char* wrong : {"0", "-1", "two", "", "2x", " 2", "99999999999"}) {
    const ThreadsVariable variable(wrong);
    EXPECT_ERROR(available_threads(), "set it to a number from 1") << wrong;
  }
}

}  // namespace
}  // namespace lacuna
