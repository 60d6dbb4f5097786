#include "lacuna/ladder/temporary_store.h"

#include "lacuna/core/system/stop.h"
#include "lacuna/masks/prepare_masks.h"

namespace lacuna {

TemporaryStore::TemporaryStore(const Screen& screen, Rung rung, const fs::path& folder,
                               Progress& progress) {
  if (!is_stored(rung)) return;
  path_ = folder / "store";
  try {
    const auto made = prepare_masks(screen, mask_form(rung), path_, {}, progress);
    if (made.is_stopped) throw Stopped();
    bytes_ = made.bytes;
  } catch (...) {
    remove();
    throw;
  }
}

TemporaryStore::~TemporaryStore() { remove(); }

void TemporaryStore::remove() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace lacuna
