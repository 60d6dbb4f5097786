// NVML is asked through dlopen: a machine without a GPU has no such library, and this one must not
// need it.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "lacuna/core/text/text.h"
#include "lacuna/plan/machine.h"

namespace lacuna {
namespace {

// The few names of nvml.h that are used; they are stable since version 2 of the library.
using Device = struct NvmlDevice*;
struct NvmlMemory {
  unsigned long long total, free, used;
};
constexpr int kMemoryClock = 2;

struct Nvml {
  explicit Nvml(const char* library) : handle(::dlopen(library, RTLD_LAZY | RTLD_LOCAL)) {
    if (!handle) return;
    find("nvmlInit_v2", init);
    find("nvmlShutdown", shutdown);
    find("nvmlDeviceGetCount_v2", count);
    find("nvmlDeviceGetHandleByIndex_v2", device);
    find("nvmlDeviceGetHandleByUUID", by_uuid);
    find("nvmlDeviceGetName", name);
    find("nvmlDeviceGetMemoryInfo", memory);
    find("nvmlDeviceGetMaxPcieLinkGeneration", generation);
    find("nvmlDeviceGetMaxPcieLinkWidth", width);
    find("nvmlDeviceGetMemoryBusWidth", bus_width);
    find("nvmlDeviceGetMaxClockInfo", max_clock);
    usable = init && shutdown && count && device && name && memory && init() == 0;
  }
  ~Nvml() {
    if (usable) shutdown();
    if (handle) ::dlclose(handle);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  template <class F>
  void find(const char* symbol, F*& function) {
    function = reinterpret_cast<F*>(::dlsym(handle, symbol));
  }

  void* handle;
  bool usable = false;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*by_uuid)(const char*, Device*) = nullptr;  // not in all libraries
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, NvmlMemory*) = nullptr;
  int (*generation)(Device, unsigned*) = nullptr;
  int (*width)(Device, unsigned*) = nullptr;
  int (*bus_width)(Device, unsigned*) = nullptr;
  int (*max_clock)(Device, int, unsigned*) = nullptr;
};

// A number that older drivers may not know.
template <class F, class... Arguments>
unsigned ask(F* function, Arguments... arguments) {
  unsigned value = 0;
  return function && function(arguments..., &value) == 0 ? value : 0;
}

// Generation 3 moves 0.985 GB/s a lane and each later one twice as much; copies from pinned memory
// reach about 80% of that.
Figure link_of(const Nvml& nvml, Device device) {
  const unsigned generation = ask(nvml.generation, device), width = ask(nvml.width, device);
  if (generation < 3 || generation > 8 || width == 0 || width > 32)
    return {12e9, "assumed: PCIe 3.0 x16, as the driver does not say"};
  const double lane = 0.985e9 * double(1u << (generation - 3));
  return {0.8 * lane * width, fmt::format("assumed: 80% of PCIe {}.0 x{}", generation, width)};
}

// Two transfers a clock.
Figure bandwidth_of(const Nvml& nvml, Device device) {
  const unsigned bits = ask(nvml.bus_width, device);
  const unsigned megahertz = ask(nvml.max_clock, device, kMemoryClock);
  if (bits == 0 || megahertz == 0) return {500e9, "assumed, as the driver does not say"};
  return {0.7 * 2 * megahertz * 1e6 * bits / 8,
          fmt::format("assumed: 70% of {} bits at 2 x {} MHz", bits, megahertz)};
}

}  // namespace

std::optional<Gpu> probe_gpu(std::string& from, const char* library) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible && (*visible == '\0' || *visible == '-')) {
    from = fmt::format("none: CUDA_VISIBLE_DEVICES is '{}'", visible);
    return {};
  }
  const Nvml nvml(library);
  unsigned count = 0;
  if (!nvml.usable || nvml.count(&count) != 0 || count == 0) {
    from = nvml.handle ? fmt::format("none: {} shows none", library)
                       : fmt::format("none: no {} on this machine", library);
    return {};
  }
  // The first that is visible: an index, or a UUID, by which a driver finds it.
  Device device = nullptr;
  const std::string first = visible ? std::string(visible, std::strcspn(visible, ",")) : "0";
  const bool is_index = first.find_first_not_of("0123456789") == first.npos;
  const unsigned long index = is_index ? std::strtoul(first.c_str(), nullptr, 10) : 0;
  const bool is_there = is_index ? index < count && nvml.device(unsigned(index), &device) == 0
                                 : nvml.by_uuid && nvml.by_uuid(first.c_str(), &device) == 0;
  if (!is_there) {
    from = fmt::format("none: {} has no GPU {} (CUDA_VISIBLE_DEVICES)", library, first);
    return {};
  }
  char name[96] = "";
  NvmlMemory memory = {};
  if (nvml.name(device, name, sizeof name) != 0 || nvml.memory(device, &memory) != 0) {
    from = fmt::format("none: {} does not describe GPU {}", library, first);
    return {};
  }
  from = fmt::format("{}, GPU {} of {}", library, first, count);
  return Gpu{name,
             {double(memory.free),
              fmt::format("{} of {} free", format_bytes(memory.free), format_bytes(memory.total))},
             link_of(nvml, device),
             bandwidth_of(nvml, device)};
}

}  // namespace lacuna
