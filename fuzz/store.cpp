// A store of masks with one damaged file (damaged.h): its manifest, the checksums of its pages, and
// the check that stands before LMDB. LMDB itself meets damaged pages only in a child.
#include "fuzz/damaged.h"
#include "lacuna/masks/prepare_masks.h"
#include "lacuna/masks/store_pages.h"
#include "lacuna/masks/verify_masks.h"
#include "lacuna/screen/testing.h"

using namespace lacuna;

namespace {

struct Whole {
  Whole()
      : screen(write_screen(directory / "screen",
                            {small_graph(1, 12), small_samples(1, 20, 12), {}, Json::object()})) {
    prepare_masks(screen, MaskForm::positions, directory / "store", {.threads = 1});
  }
  fuzz::MemoryDirectory directory;
  Screen screen;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Whole whole;
  static const fuzz::Damaged store(whole.directory / "store");
  store.read(data, size, [&] {
    const bool is_whole = fuzz::reads([&] {
      MaskStoreContents contents;
      StorePages::of(open_mask_directory(store.path(), whole.screen, contents)).check();
    });
    if (is_whole)
      fuzz::reads([&] {
        const MaskStore open = MaskStore::open(store.path(), whole.screen);
        for (uint64_t s = open.begin(); s < open.end(); ++s) fuzz::touch(open.record(s));
      });
    else
      fuzz::reads([&] { verify_masks(whole.screen, store.path(), {.all = true}); });
  });
  return 0;
}
