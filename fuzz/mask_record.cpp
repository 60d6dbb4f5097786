// A record of a store of masks; the first byte says in what form.
#include "fuzz/fuzz.h"
#include "lacuna/ops/masks/masks.h"

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const MaskLayout layout(std::vector<int64_t>{40, 7, 130, 0, 300}, MaskForm::u8);
  std::vector<uint8_t> record(layout.stride());
  return fuzz::try_reading([&] {
    expand_masks(layout, MaskForm(data[0] % 4), std::as_bytes(std::span(data + 1, size - 1)),
                 record.data());
  });
}
