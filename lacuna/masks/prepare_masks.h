// Writes a store of masks (mask_store.h), goes on with one that was interrupted, or adds the
// samples that a screen has gained since.
//
// Several threads make records while one writes them, in transactions of about 64 MB that are each
// on the disk before the next is begun: what a kill or a loss of power leaves is whole up to its
// last transaction, and is not made again. The manifest comes last. While samples are added to a
// finished store it is unfinished again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "lacuna/masks/mask_store.h"

namespace lacuna {

struct PrepareOptions {
  // Samples first to second - 1; not set: all.
  std::optional<std::pair<uint64_t, uint64_t>> samples = {};
  int threads = 0;     // that make records; 0: all available
  bool again = false;  // throw away what a store there holds
  GeneReactionView view = GeneReactionView::gene;
  // To count on; not set: what the disk has free.
  std::function<uint64_t()> free_bytes = {};
  Json made_by = Json::object();  // see Directory
};

struct PrepareResult {
  uint64_t begin, end;      // samples the store holds
  uint64_t written;         // of them by this call; the others were there
  uint64_t bytes;           // on disk
  bool is_stopped = false;  // where all samples are there: before the checksums were
};

// Throws Error before anything is written when the disk lacks 1.2 times what is needed, `out` is
// not a store, or a store for something else (unless `again`). Looks at the stop flag
// (core/system/stop.h) between transactions, and while checksums are taken behind the last: ends
// there, and leaves the store unfinished.
PrepareResult prepare_masks(const Screen& screen, MaskForm form, const fs::path& out,
                            const PrepareOptions& options, Progress& progress = Progress::none());

// Replaces `value` by what the store holds for a sample: header and record.
void encode_value(const MaskEncoder& encoder, const RemovedReader& removed, uint64_t sample,
                  std::vector<std::byte>& value);

}  // namespace lacuna
