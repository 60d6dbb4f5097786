// A graph laid out for a GPU, as the cache of a screen keeps it: behind the checksum. An even first
// byte: the others are changes of a right one; else they are the plan.
#include "lacuna/ops/slab/slab_plan.h"

#include <cstring>

#include "fuzz/fuzz.h"
#include "lacuna/screen/plan_cache.h"
#include "lacuna/screen/testing.h"

using namespace lacuna;

namespace {

std::string whole_plan() {
  const auto plan = SlabPlan::make(plan_gene_edges(small_graph(1, 12)), {.capacity = 8}, 1);
  return {reinterpret_cast<const char*>(plan.bytes().data()), plan.bytes().size()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const std::string whole = whole_plan();
  const std::string text = data[0] % 2 == 0 ? fuzz::patched(whole, data + 1, size - 1)
                                            : std::string(fuzz::text_of(data + 1, size - 1));
  const std::shared_ptr<std::byte> bytes(
      static_cast<std::byte*>(std::aligned_alloc(64, (text.size() / 64 + 1) * 64)), std::free);
  std::memcpy(bytes.get(), text.data(), text.size());
  return fuzz::try_reading([&] { SlabPlan::from_bytes({bytes.get(), text.size()}, bytes); });
}
