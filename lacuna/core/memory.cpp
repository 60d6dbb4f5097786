#include "lacuna/core/memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// A line "NAME:   123 kB" of a file under /proc.
uint64_t read_kilobytes(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1)) * 1024;
  throw Error("{} has no line '{}'; is this Linux?", file, name);
}

std::optional<uint64_t> read_number(const char* file) {
  std::ifstream in(file);
  uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // no such file, or "max"
}

}  // namespace

uint64_t used_memory() { return read_kilobytes("/proc/self/status", "VmRSS"); }

uint64_t peak_memory() { return read_kilobytes("/proc/self/status", "VmHWM"); }

void reset_peak_memory() {
  std::ofstream out("/proc/self/clear_refs");
  if (!(out << "5" << std::flush)) throw_errno("/proc/self/clear_refs", "cannot write");
}

uint64_t available_memory() {
  const uint64_t machine = read_kilobytes("/proc/meminfo", "MemAvailable");
  const auto limit = read_number("/sys/fs/cgroup/memory.max");
  if (!limit) return machine;
  const uint64_t used = read_number("/sys/fs/cgroup/memory.current").value_or(0);
  return std::min(machine, *limit > used ? *limit - used : 0);
}

}  // namespace lacuna
