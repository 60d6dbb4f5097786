#include "lacuna/core/memory.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

// A line "NAME:   123 kB" of a file under /proc.
uint64_t read_kilobytes(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1)) * 1024;
  throw Error("{} has no line '{}'; is this Linux?", file, name);
}

std::optional<uint64_t> read_number(const fs::path& file) {
  std::ifstream in(file);
  uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // no such file, or "max"
}

// "inactive_file 123" of memory.stat: cache that is given back before anything fails.
uint64_t reclaimable(const fs::path& stat_file, const std::string& name) {
  std::ifstream in(stat_file);
  std::string key;
  for (uint64_t value = 0; in >> key >> value;)
    if (key == name) return value;
  return 0;
}

struct Version {
  const char *controllers, *limit, *used, *cache;
};
constexpr Version kVersion2 = {"", "memory.max", "memory.current", "inactive_file"};
constexpr Version kVersion1 = {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr uint64_t kNoLimit = uint64_t(1) << 60;  // version 1 says "none" by a huge number

std::optional<CgroupMemory> read_group(const fs::path& folder, const Version& version) {
  const auto limit = read_number(folder / version.limit);
  if (!limit || *limit >= kNoLimit) return std::nullopt;
  const uint64_t used = read_number(folder / version.used).value_or(0);
  const uint64_t cache = reclaimable(folder / "memory.stat", version.cache);
  return CgroupMemory{*limit, used - std::min(used, cache), (folder / version.limit).string()};
}

bool has_controller(const std::string& list, const std::string& wanted) {
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');)
    if (name == wanted) return true;
  return list == wanted;
}

}  // namespace

uint64_t used_memory() { return read_kilobytes("/proc/self/status", "VmRSS"); }

uint64_t own_memory() {
  return read_kilobytes("/proc/self/status", "RssAnon") +
         read_kilobytes("/proc/self/status", "RssShmem");
}

uint64_t peak_memory() { return read_kilobytes("/proc/self/status", "VmHWM"); }

void give_back_freed_memory() { malloc_trim(0); }

void reset_peak_memory() {
  give_back_freed_memory();
  std::ofstream out("/proc/self/clear_refs");
  if (!(out << "5" << std::flush)) throw_errno("/proc/self/clear_refs", "cannot write");
}

// A line of /proc/self/cgroup is "number:controllers:/path"; version 2 is the one without
// controllers. In a container the path may be that of the host and not be there: then the mount's
// own files count.
std::optional<CgroupMemory> cgroup_memory(const std::filesystem::path& mount,
                                          const std::filesystem::path& groups) {
  std::optional<CgroupMemory> tightest;
  const auto consider = [&](const fs::path& folder, const Version& version) {
    const auto group = read_group(folder, version);
    if (group && (!tightest || group->left() < tightest->left())) tightest = group;
  };
  std::ifstream in(groups);
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    for (const Version& version : {kVersion2, kVersion1}) {
      if (!has_controller(controllers, version.controllers)) continue;
      const fs::path root = mount / version.controllers;
      fs::path path = fs::path(line.substr(second + 1)).relative_path();
      for (; !path.empty(); path = path.parent_path()) consider(root / path, version);
      consider(root, version);
    }
  }
  return tightest;
}

uint64_t available_memory() {
  const uint64_t machine = read_kilobytes("/proc/meminfo", "MemAvailable");
  const auto group = cgroup_memory();
  return group ? std::min(machine, group->left()) : machine;
}

}  // namespace lacuna
