// What only shows on a GPU.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include "lacuna/masks/testing.h"
#include "lacuna/train/batch_feed.h"

namespace lacuna {
namespace {

// The copy of the batch ahead waits for the model's stream. Where that is busy when the feed ends,
// the feed must wait with it: its buffers go back to torch, and the copy would write into whatever
// gets them next.
TEST(BatchFeed, WaitsForItsCopyWhenItEnds) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "needs a GPU and a torch with CUDA";
  const testing::StoreScreens screens(40);
  const Screen screen = screens.write("screen", 40);
  const at::Device device(at::kCUDA, 0);
  const std::vector<uint32_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
  const LabelScale labels = scale_labels(screen.samples(), {}, all);
  const RungMasks masks;
  const RungSource source(screen, masks, 8, {});
  Loader loader(source, {.order = {.global_batch = 8}, .threads = 0});
  const auto busy = at::randn({4096, 4096}, at::TensorOptions(device));
  const auto stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  c10::Event worked(device.type());
  {
    BatchFeed feed(loader, labels,
                   {.device = device, .batch = 8, .widest = widest_removal(screen.samples())});
    feed.next();
    at::mm(busy, busy).sum().item<float>();  // libraries take their time once
    for (int i = 0; i < 200; ++i) at::mm(busy, busy);
    worked.record(stream);
    EXPECT_FALSE(worked.query()) << "the stream is not busy: nothing is tried here";
    feed.next();
  }
  EXPECT_TRUE(worked.query());
}

}  // namespace
}  // namespace lacuna
