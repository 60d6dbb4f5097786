#include "lacuna/core/system/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"

namespace lacuna {
namespace {

// A kernel with more CPUs than the set has room for answers EINVAL: then a larger set is tried.
int threads_by_affinity() {
  for (size_t cpus = CPU_SETSIZE; cpus <= size_t(CPU_SETSIZE) << 10; cpus *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(cpus), [](cpu_set_t* allocated) { CPU_FREE(allocated); });
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    if (set && ::sched_getaffinity(0, bytes, set.get()) == 0)
      return std::max(1, CPU_COUNT_S(bytes, set.get()));
    if (!set || errno != EINVAL) break;
  }
  return std::max(1, int(std::thread::hardware_concurrency()));
}

// Version 2: "max 100000" or "200000 100000" (microseconds of CPU, per microseconds of wall time);
// version 1 the same in two files, -1 for none.
std::optional<double> quota_of(const CgroupFolder& folder) {
  double quota = 0, period = 0;
  if (folder.version == 2) {
    std::ifstream(folder.path / "cpu.max") >> quota >> period;  // "max" is no number
  } else {
    std::ifstream(folder.path / "cpu.cfs_quota_us") >> quota;
    std::ifstream(folder.path / "cpu.cfs_period_us") >> period;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

// One loop at a time, shared by the calling thread and the pool's.
struct Loop {
  uint64_t count;
  const std::function<void(uint64_t)>& body;
  std::atomic<uint64_t> next = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr error = nullptr;
  std::mutex error_mutex = {};

  void run() {
    for (uint64_t i = next++; i < count && !failed; i = next++) {
      try {
        throw_if_stopped();
        body(i);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        failed = true;
      }
    }
  }
};

thread_local bool inside_loop = false;

// Lives until the process ends: its threads wait, and exit() does not join them.
class Pool {
 public:
  void run(Loop& loop, int helpers) {
    const std::lock_guard one_loop_at_a_time(run_mutex_);
    start_threads(helpers);
    {
      const std::lock_guard lock(mutex_);
      loop_ = &loop;
      wanted_ = helpers;
      ++generation_;
    }
    wake_.notify_all();
    inside_loop = true;
    loop.run();
    inside_loop = false;
    std::unique_lock lock(mutex_);
    wanted_ = 0;  // a helper that has not woken yet is not needed any more
    loop_ = nullptr;
    done_.wait(lock, [&] { return running_ == 0; });
  }

 private:
  void start_threads(int helpers) {
    while (int(threads_.size()) < helpers) threads_.emplace_back([this] { work(); });
  }

  void work() {
    inside_loop = true;
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return generation_ != seen && wanted_ > 0; });
      seen = generation_;
      Loop* const loop = loop_;
      --wanted_;
      ++running_;
      lock.unlock();
      loop->run();
      lock.lock();
      if (--running_ == 0) done_.notify_all();
    }
  }

  std::mutex run_mutex_, mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  Loop* loop_ = nullptr;
  uint64_t generation_ = 0;
  int wanted_ = 0, running_ = 0;
};

// A forked child has none of its parent's threads: it gets a new pool and leaks the old one, whose
// threads cannot be joined.
Pool*& pool_pointer() {
  static Pool* pool = [] {
    ::pthread_atfork(nullptr, nullptr, [] { pool_pointer() = new Pool; });
    return new Pool;
  }();
  return pool;
}

}  // namespace

int available_threads() {
  if (const char* text = std::getenv("LACUNA_THREADS")) {
    const char* const end = text + std::strlen(text);
    int asked = 0;
    const auto [rest, error] = std::from_chars(text, end, asked);
    if (error != std::errc() || rest != end || asked < 1)
      throw Error("LACUNA_THREADS is '{}'; set it to a number from 1", text);
    return asked;
  }
  const int threads = threads_by_affinity();
  const auto cpus = cgroup_cpus();
  return cpus ? std::clamp(int(*cpus + 0.5), 1, threads) : threads;
}

std::optional<double> cgroup_cpus(const CgroupPlaces& places) {
  std::optional<double> least;
  for (const auto& folder : cgroup_folders("cpu", places)) {
    const auto quota = quota_of(folder);
    if (quota && (!least || *quota < *least)) least = quota;
  }
  return least;
}

void parallel_for(uint64_t count, int threads, const std::function<void(uint64_t)>& body) {
  if (threads <= 0) threads = available_threads();
  const int helpers = int(std::min<uint64_t>(uint64_t(threads), count)) - 1;
  if (helpers <= 0 || inside_loop) {
    for (uint64_t i = 0; i < count; ++i) {
      throw_if_stopped();
      body(i);
    }
    return;
  }
  Loop loop{.count = count, .body = body};
  pool_pointer()->run(loop, helpers);
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace lacuna
