#include "lacuna/core/system/memory.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <optional>
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

// "inactive_file 123" and "active_file 45" of memory.stat: cache that is given back before anything
// fails. Both: files that are read twice, as movies are in every epoch, count as active.
uint64_t reclaimable(const fs::path& stat_file, const std::string& prefix) {
  std::ifstream in(stat_file);
  std::string key;
  uint64_t sum = 0;
  for (uint64_t value = 0; in >> key >> value;)
    if (key == prefix + "inactive_file" || key == prefix + "active_file") sum += value;
  return sum;
}

struct Version {
  const char *limit, *used, *prefix;  // prefix: of what memory.stat says of groups below, too
};
constexpr Version kVersion2 = {"memory.max", "memory.current", ""};
constexpr Version kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"};
constexpr uint64_t kNoLimit = uint64_t(1) << 60;  // version 1 writes a huge number for "none"

std::optional<CgroupMemory> read_group(const CgroupFolder& folder) {
  const Version& version = folder.version == 2 ? kVersion2 : kVersion1;
  const auto limit = read_number(folder.path / version.limit);
  if (!limit || *limit >= kNoLimit) return std::nullopt;
  const uint64_t used = read_number(folder.path / version.used).value_or(0);
  const uint64_t cache = reclaimable(folder.path / "memory.stat", version.prefix);
  return CgroupMemory{*limit, used - std::min(used, cache), (folder.path / version.limit).string()};
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

std::optional<CgroupMemory> cgroup_memory(const CgroupPlaces& places) {
  std::optional<CgroupMemory> tightest;
  for (const auto& folder : cgroup_folders("memory", places)) {
    const auto group = read_group(folder);
    if (group && (!tightest || group->left() < tightest->left())) tightest = group;
  }
  return tightest;
}

uint64_t available_memory() {
  const uint64_t machine = read_kilobytes("/proc/meminfo", "MemAvailable");
  const auto group = cgroup_memory();
  return group ? std::min(machine, group->left()) : machine;
}

}  // namespace lacuna
