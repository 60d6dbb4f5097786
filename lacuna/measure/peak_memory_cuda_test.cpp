// What only shows on a GPU.
#include "lacuna/measure/peak_memory.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace lacuna {
namespace {

// ctest runs every test in a process of its own: nothing has touched the GPU before.
TEST(PeakMemory, MayBeMadeBeforeAnythingIsOnTheGpu) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "needs a GPU and a torch with CUDA";
  const at::Device device(at::kCUDA, 0);
  PeakMemory memory(device);
  constexpr int64_t kBytes = 64 << 20;
  at::empty({kBytes}, at::TensorOptions(device).dtype(at::kByte));
  EXPECT_GE(memory.bytes(), uint64_t(kBytes));
  memory.restart();
  EXPECT_LT(memory.bytes(), uint64_t(kBytes));
}

}  // namespace
}  // namespace lacuna
