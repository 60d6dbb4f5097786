#include "lacuna/ladder/guards.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <limits>
#include <mutex>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/system/memory.h"
#include "lacuna/core/text/text.h"

namespace lacuna {
namespace {

// The folder itself, or the nearest one above it that exists.
fs::path existing_folder(fs::path folder) {
  folder = fs::absolute(folder);
  while (!fs::exists(folder) && folder.has_parent_path() && folder != folder.parent_path())
    folder = folder.parent_path();
  return folder;
}

// What the limits of this process (ulimit -d, ulimit -v) allow and leave it.
struct OwnLimits {
  uint64_t limit = std::numeric_limits<uint64_t>::max();
  uint64_t left = std::numeric_limits<uint64_t>::max();
};
OwnLimits own_limits() {
  OwnLimits own;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    for (const auto& [word, kind] : {std::pair("VmData:", RLIMIT_DATA), {"VmSize:", RLIMIT_AS}}) {
      rlimit limit = {};
      if (!line.starts_with(word) || ::getrlimit(kind, &limit) != 0) continue;
      if (limit.rlim_cur == RLIM_INFINITY) continue;
      const uint64_t used = std::stoull(line.substr(7)) * 1024;
      own.limit = std::min<uint64_t>(own.limit, limit.rlim_cur);
      own.left = std::min<uint64_t>(own.left, limit.rlim_cur > used ? limit.rlim_cur - used : 0);
    }
  return own;
}

}  // namespace

uint64_t free_memory() { return std::min(available_memory(), own_limits().left); }

Room memory_room(uint64_t needed) {
  give_back_freed_memory();
  return {needed, free_memory()};
}

Room disk_room(uint64_t needed, const fs::path& folder) {
  return {needed, free_disk_bytes(existing_folder(folder))};
}

void check_memory_room(uint64_t needed, const std::string& what, const std::string& remedy) {
  const Room room = memory_room(needed);
  if (room.fits()) return;
  throw Error("{} needs {} of memory ({} with the margin of {}), and {} are free; {}", what,
              format_bytes(needed), format_bytes(uint64_t(double(needed) * kRoom)), kRoom,
              format_bytes(room.free), remedy);
}

void check_disk_room(uint64_t needed, const fs::path& folder, const std::string& what,
                     const std::string& remedy) {
  const Room room = disk_room(needed, folder);
  if (room.fits()) return;
  throw Error("{} needs {} on the disk of {} ({} with the margin of {}), and {} are free there; {}",
              what, format_bytes(needed), folder.string(),
              format_bytes(uint64_t(double(needed) * kRoom)), kRoom, format_bytes(room.free),
              remedy);
}

struct MemoryWatch::State {
  std::function<void(const std::string&)> warn;
  std::function<uint64_t()> available;
  uint64_t least;
  std::mutex mutex;
  std::condition_variable ended;
  bool is_ended = false;
  std::thread thread;

  void watch(std::chrono::milliseconds every) {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, every, [&] { return is_ended; })) {
      const uint64_t left = available();
      if (left >= least) continue;
      warn(fmt::format(
          "only {} of memory are left ({} were wanted in reserve): the system may end this process "
          "soon; fewer loader threads, a smaller prefetch or batch, or rung disk:u8 take less",
          format_bytes(left), format_bytes(least)));
      return;
    }
  }
};

uint64_t MemoryWatch::default_least() {
  uint64_t all = uint64_t(::sysconf(_SC_PHYS_PAGES)) * uint64_t(::sysconf(_SC_PAGE_SIZE));
  if (const auto group = cgroup_memory()) all = std::min(all, group->limit);
  all = std::min(all, own_limits().limit);
  return std::min(std::max<uint64_t>(all / 20, 256 << 20), all / 10);
}

MemoryWatch::MemoryWatch(std::function<void(const std::string&)> warn, uint64_t least,
                         std::function<uint64_t()> available, std::chrono::milliseconds every)
    : state_(std::make_unique<State>()) {
  state_->warn = std::move(warn);
  state_->available = available ? std::move(available) : free_memory;
  state_->least = least ? least : default_least();
  state_->thread = std::thread([this, every] { state_->watch(every); });
}

MemoryWatch::~MemoryWatch() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_ended = true;
  }
  state_->ended.notify_all();
  state_->thread.join();
}

}  // namespace lacuna
