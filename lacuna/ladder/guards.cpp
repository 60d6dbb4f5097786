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

// What the limits of this process (ulimit -d, ulimit -v) leave it.
uint64_t left_by_limits() {
  uint64_t left = std::numeric_limits<uint64_t>::max();
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    for (const auto& [word, kind] : {std::pair("VmData:", RLIMIT_DATA), {"VmSize:", RLIMIT_AS}}) {
      rlimit limit = {};
      if (!line.starts_with(word) || ::getrlimit(kind, &limit) != 0) continue;
      if (limit.rlim_cur == RLIM_INFINITY) continue;
      const uint64_t used = std::stoull(line.substr(7)) * 1024;
      left = std::min<uint64_t>(left, limit.rlim_cur > used ? limit.rlim_cur - used : 0);
    }
  return left;
}

}  // namespace

Room memory_room(uint64_t needed) {
  give_back_freed_memory();
  return {needed, std::min(available_memory(), left_by_limits())};
}

Room disk_room(uint64_t needed, const fs::path& folder) {
  return {needed, free_disk_bytes(existing_folder(folder))};
}

std::string what_fits(const Recording& recording, const std::string& field, uint64_t bytes_a_pixel,
                      uint64_t free) {
  uint64_t pixels = 0, sessions = 0, fitting = 0;
  const auto room = uint64_t(double(free) / kRoom);
  for (const Session& session : recording.sessions()) {
    for (const Segment& segment : session.segments)
      if (const Field* frames = segment.find(field)) pixels += frames->rows() * frames->columns();
    ++sessions;
    if (pixels * bytes_a_pixel <= room) fitting = sessions;
  }
  std::string words = "what fits: disk:u8 holds no frames in memory";
  if (room > 0) words += fmt::format("; tiered with {} of them in memory", format_bytes(room));
  if (bytes_a_pixel > 1 && pixels <= room)
    words += fmt::format("; ram:u8 holds the same numbers in {}", format_bytes(pixels));
  if (fitting > 0 && fitting < sessions)
    words += fmt::format("; the first {} of {} sessions", fitting, sessions);
  if (pixels * bytes_a_pixel > room && room > 0) {
    const double times = double(pixels * bytes_a_pixel) / double(room);
    words += fmt::format(
        "; 1/{} of the rate, or of the pixels of a frame (`lacuna transform` with --step or "
        "--resize)",
        uint64_t(times) + (double(uint64_t(times)) < times));
  }
  return words +
         fmt::format("; `lacuna plan {}` compares them all", shell_word(recording.path().string()));
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
  return std::min(std::max<uint64_t>(all / 20, 256 << 20), all / 2);
}

MemoryWatch::MemoryWatch(std::function<void(const std::string&)> warn, uint64_t least,
                         std::function<uint64_t()> available, std::chrono::milliseconds every)
    : state_(std::make_unique<State>()) {
  state_->warn = std::move(warn);
  state_->available = available ? std::move(available) : [] { return available_memory(); };
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
