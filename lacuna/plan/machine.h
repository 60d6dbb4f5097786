// What this machine offers: memory, disk, cores, GPU. Every figure says where it came from.
//
// The probe takes less than two seconds: 0.5 s for the disk, a few milliseconds for the rest; the
// driver of a GPU may take a few hundred. It writes one file of at most 64 MB into the folder and
// removes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lacuna/core/system/file.h"
#include "lacuna/store/directory.h"

namespace lacuna {

// A number with its source: "read from /proc/meminfo", "measured: 32 MB written", "assumed".
struct Figure {
  double value = 0;
  std::string from;
};

struct Gpu {
  std::string name;
  Figure memory;     // bytes free
  Figure link;       // bytes a second between host and device
  Figure bandwidth;  // bytes a second of its own memory
};

struct Machine {
  Figure memory;       // bytes this process may still use: free or to be freed, within the cgroups
  Figure disk_free;    // bytes on the disk of `folder`
  Figure disk_write;   // bytes a second, with fsync
  Figure disk_read;    // bytes a second, not from the system's cache
  Figure cores;        // threads that this process may use
  Figure memory_copy;  // bytes a second, one thread, memory to memory
  std::optional<Gpu> gpu;
  std::string gpu_from;  // where it was looked for
  fs::path folder;       // whose disk it is
  double seconds = 0;    // that the probe took
};

// folder: where a store would lie; it must exist. A folder that cannot be written leaves the disk's
// speed assumed, and the figure says so. Throws Error when there is no such folder.
Machine probe_machine(const fs::path& folder);

// The model of the processor, as the system names it.
std::string cpu_name();

// The first GPU that this process may see (CUDA_VISIBLE_DEVICES), by the driver's own library
// (NVML), which is looked for under this name; nothing where it is not there or shows none. What
// was looked at is put into `from`.
std::optional<Gpu> probe_gpu(std::string& from, const char* library = "libnvidia-ml.so.1");

// "64GB", "1.5TB", "500 MB", "1000000"; powers of 1000 as everywhere, KiB, MiB, GiB, TiB are powers
// of 1024. Throws UsageError.
uint64_t bytes_from_text(const std::string& text);

Json to_json(const Figure& figure);
Json to_json(const Machine& machine);

}  // namespace lacuna
