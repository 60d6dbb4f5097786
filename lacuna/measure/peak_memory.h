// The most memory in use while something runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lacuna {

class PeakMemory {
 public:
  // Made before what is to be counted: on the CPU all that comes on top of what is resident now.
  // Throws Error where the system does not allow it.
  explicit PeakMemory(at::Device device);
  // Forgets the peak so far, and counts what is held now again.
  void restart();
  // The most since then: on a GPU all that is allocated on it, on the CPU what came on top.
  uint64_t bytes() const;

 private:
  at::Device device_;
  uint64_t before_ = 0;
};

}  // namespace lacuna
