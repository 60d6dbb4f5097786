// The store of a rung for as long as something is measured with it.
#pragma once

#include <cstdint>

#include "lacuna/core/system/file.h"
#include "lacuna/core/system/progress.h"
#include "lacuna/ladder/screen_rungs.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

class TemporaryStore {
 public:
  // Writes folder/store with the masks of all samples, for a rung that reads one; nothing for the
  // others. Throws Error as prepare_masks() does, and leaves nothing then.
  TemporaryStore(const Screen& screen, Rung rung, const fs::path& folder,
                 Progress& progress = Progress::none());
  ~TemporaryStore();
  TemporaryStore(const TemporaryStore&) = delete;
  TemporaryStore& operator=(const TemporaryStore&) = delete;

  const fs::path& path() const { return path_; }  // empty where there is none
  uint64_t bytes() const { return bytes_; }       // on disk

 private:
  void remove();

  fs::path path_;
  uint64_t bytes_ = 0;
};

}  // namespace lacuna
