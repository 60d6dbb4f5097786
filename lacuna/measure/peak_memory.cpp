#include "lacuna/measure/peak_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>

#include "lacuna/core/system/memory.h"

namespace lacuna {

PeakMemory::PeakMemory(at::Device device) : device_(device) {
  restart();
  if (device.is_cpu()) before_ = used_memory();
}

void PeakMemory::restart() {
  if (device_.is_cpu()) {
    reset_peak_memory();  // and gives back what was freed: else it is used again, and does not show
    return;
  }
  at::DeviceAllocator* allocator = at::getDeviceAllocator(device_.type());
  if (allocator->initialized())  // else nothing was allocated yet, and it knows of no device
    allocator->resetPeakStats(device_.index());
}

uint64_t PeakMemory::bytes() const {
  if (device_.is_cpu()) return peak_memory() - std::min(before_, peak_memory());
  const auto stats = at::getDeviceAllocator(device_.type())->getDeviceStats(device_.index());
  return uint64_t(stats.allocated_bytes[0].peak);
}

}  // namespace lacuna
