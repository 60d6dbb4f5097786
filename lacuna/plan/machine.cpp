#include "lacuna/plan/machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/median.h"
#include "lacuna/core/random.h"
#include "lacuna/core/system/clock.h"
#include "lacuna/core/system/memory.h"
#include "lacuna/core/system/scratch.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/core/text/text.h"

namespace lacuna {
namespace {

using Clock = std::chrono::steady_clock;

// ---- memory

Figure probe_memory() {
  const uint64_t available = available_memory();
  const auto group = cgroup_memory();
  if (group && group->left() <= available) {
    return {double(available), fmt::format("{} allows {}, {} used", group->file,
                                           format_bytes(group->limit), format_bytes(group->used))};
  }
  return {double(available), "MemAvailable of /proc/meminfo; no tighter limit by a cgroup"};
}

// In pieces, and the median of them: another program that takes the core for a moment does not
// count.
Figure probe_memory_copy() {
  constexpr size_t kBytes = 64 << 20, kPiece = 2 << 20;  // all of it beyond most caches
  const Scratch<uint8_t> from(kBytes), to(kBytes);
  std::memset(from.get(), 1, kBytes);
  std::memset(to.get(), 2, kBytes);
  std::vector<double> times;
  for (size_t at = 0; at < kBytes; at += kPiece) {
    const auto start = Clock::now();
    std::memcpy(to.get() + at, from.get() + at, kPiece);
    times.push_back(seconds_since(start));
  }
  return {double(kPiece) / median(times), "measured: 67 MB copied by one thread"};
}

// ---- disk

constexpr double kDiskSeconds = 0.25;  // each for writing and reading
constexpr size_t kBlock = 1 << 20, kAlignment = 4096, kMostBlocks = 32;
constexpr double kAssumedDisk = 100e6;  // bytes a second, where it cannot be measured

// A file that is gone when the probe is.
class ProbeFile {
 public:
  explicit ProbeFile(const fs::path& folder) : path_((folder / ".lacuna-probe-XXXXXX").string()) {
    fd_ = ::mkostemp(path_.data(), O_CLOEXEC);
    if (fd_ < 0) throw_errno(folder.string(), "cannot be written");
  }
  ~ProbeFile() {
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;

  int get() const { return fd_; }
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
  int fd_ = -1;
};

struct Blocks {
  explicit Blocks(size_t count) : data(count * kBlock) {
    Random random(1);  // a file system that compresses gains nothing
    for (size_t at = 0; at < count * kBlock; at += sizeof(uint64_t)) {
      const uint64_t word = random.next();
      std::memcpy(data.get() + at, &word, sizeof word);
    }
  }
  Scratch<std::byte> data;
};

// Pieces of 1, 2, 4, ... MB, each with its fsync; the last one counts, because small ones are
// mostly the wait for the disk's answer. Ends early where a piece fails: throws Error if that is
// the first one. Returns the blocks written.
size_t write_blocks(const ProbeFile& file, Figure& speed) {
  const Blocks blocks(kMostBlocks);
  const auto start = Clock::now();
  size_t written = 0;
  double last = 0;
  for (size_t count = 1; count <= kMostBlocks; count *= 2) {
    if (seconds_since(start) + 2 * last > kDiskSeconds) break;
    const auto piece = Clock::now();
    const size_t size = count * kBlock;
    try {
      write_at(file.get(), {blocks.data.get(), size}, written * kBlock, file.path());
      if (::fsync(file.get()) != 0) throw_errno(file.path(), "cannot flush to the disk");
    } catch (const Error&) {
      if (written == 0) throw;
      break;
    }
    last = seconds_since(piece);
    written += count;
    speed = {double(size) / last,
             fmt::format("measured: {} written, with fsync", format_bytes(size))};
  }
  return written;
}

Figure read_blocks(const ProbeFile& file, size_t count) {
  int fd = ::open(file.path(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  const bool direct = fd >= 0;
  if (!direct) fd = ::open(file.path(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {kAssumedDisk, "assumed: the file just written could not be read"};
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  std::unique_ptr<std::byte, decltype(&std::free)> buffer(
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBlock)), &std::free);
  const auto start = Clock::now();
  size_t read = 0;
  while (read < count && seconds_since(start) < kDiskSeconds) {
    if (::pread(fd, buffer.get(), kBlock, off_t(read * kBlock)) != ssize_t(kBlock)) break;
    ++read;
  }
  const double seconds = seconds_since(start);
  ::close(fd);
  if (read == 0) return {kAssumedDisk, "assumed: the file just written could not be read"};
  return {double(read * kBlock) / seconds,
          fmt::format("measured: {} read{}", format_bytes(read * kBlock),
                      direct ? ", past the system's cache"
                             : "; this file system has no direct reads, so perhaps from memory")};
}

void probe_disk(Machine& machine) {
  machine.disk_free = {double(free_disk_bytes(machine.folder)),
                       fmt::format("the file system of {}", machine.folder.string())};
  try {
    const ProbeFile file(machine.folder);
    machine.disk_read = read_blocks(file, write_blocks(file, machine.disk_write));
  } catch (const Error& error) {
    machine.disk_write =
        machine.disk_read = {kAssumedDisk, fmt::format("assumed: {}", error.what())};
  }
}

}  // namespace

Machine probe_machine(const fs::path& folder) {
  const auto start = Clock::now();
  if (!fs::is_directory(folder)) throw Error("{}: no such folder", folder.string());
  Machine machine;
  machine.folder = folder;
  machine.memory = probe_memory();
  machine.cores = {double(available_threads()), std::getenv("LACUNA_THREADS")
                                                    ? "LACUNA_THREADS"
                                                    : "CPU affinity and the cgroup's quota"};
  machine.memory_copy = probe_memory_copy();
  machine.gpu = probe_gpu(machine.gpu_from);
  probe_disk(machine);
  machine.seconds = seconds_since(start);
  return machine;
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "an unnamed processor";
}

uint64_t bytes_from_text(const std::string& text) {
  constexpr struct {
    const char* name;
    double bytes;
  } kUnits[] = {{"", 1},         {"b", 1},        {"kb", 1e3},    {"mb", 1e6},
                {"gb", 1e9},     {"tb", 1e12},    {"pb", 1e15},   {"kib", 0x1p10},
                {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit;
  for (const char* c = end; c != text.data() + text.size(); ++c)
    if (*c != ' ') unit += char(std::tolower(uint8_t(*c)));
  if (error == std::errc() && std::isfinite(number) && number >= 0)
    for (const auto& known : kUnits)
      if (unit == known.name && number * known.bytes < 0x1p63)
        return uint64_t(std::llround(number * known.bytes));
  throw UsageError("'{}' is no number of bytes; write it as 64GB, 1.5TB or 500MiB", text);
}

Json to_json(const Figure& figure) { return {{"value", figure.value}, {"from", figure.from}}; }

Json to_json(const Machine& machine) {
  Json json = {{"folder", machine.folder.string()},
               {"memory_bytes", to_json(machine.memory)},
               {"disk_free_bytes", to_json(machine.disk_free)},
               {"disk_write_bytes_per_second", to_json(machine.disk_write)},
               {"disk_read_bytes_per_second", to_json(machine.disk_read)},
               {"cores", to_json(machine.cores)},
               {"memory_copy_bytes_per_second", to_json(machine.memory_copy)},
               {"gpu", nullptr},
               {"gpu_from", machine.gpu_from},
               {"probe_seconds", machine.seconds}};
  if (machine.gpu) {
    json["gpu"] = {{"name", machine.gpu->name},
                   {"memory_bytes", to_json(machine.gpu->memory)},
                   {"link_bytes_per_second", to_json(machine.gpu->link)},
                   {"memory_bytes_per_second", to_json(machine.gpu->bandwidth)}};
  }
  return json;
}

}  // namespace lacuna
