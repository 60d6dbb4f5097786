// Batches of a screen as the rungs give them: removed genes and labels on every rung, and on those
// that load masks the u8 records of masks.h beside them, the same bits whatever the rung.
//
//   const RungMasks masks(screen, screen.graph(), {.rung = Rung::worker});
//   const RungSource source(screen, masks, 28, {.selection = training});
//   Loader loader(source, {.order = {.global_batch = 28}, .prefetch = masks.prefetch(2)});
//
// disk:u8 and ram:u8 hand out views of what is stored, without a copy. The other forms are expanded
// into the batch's own buffer by the loader's thread (expand_masks(), one function for all). worker
// keeps an arena in every batch that only undoes what its last samples removed. A batch that is
// kept never changes: buffers are its own, and views keep the store open.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/core/system/scratch.h"
#include "lacuna/ladder/screen_rungs.h"
#include "lacuna/ops/masks/masks.h"
#include "lacuna/screen/screen.h"
#include "lacuna/screen/screen_batch.h"

namespace lacuna {

struct RungOptions {
  Rung rung = Rung::kernel;
  fs::path store = {};  // of a disk rung
};

// What to open for a model: what was asked for, or kernel where the model reads no masks.
// note: told of a rung or a store that is not used.
RungOptions rung_for(const RungOptions& asked, const std::string& model, bool reads_masks,
                     const std::function<void(const std::string&)>& note);

// What a rung reads masks from: an open store, masks in memory, or lists of what goes with each
// gene. Made once; copies share it and are cheap.
class RungMasks {
 public:
  RungMasks();  // kernel, which needs nothing
  // graph: what the model computes on, the screen's own or another with its genes. Throws Error for
  // a store that is not named, missing, stale, unfinished, or of another rung, a disk rung with a
  // graph that is not the screen's, and a ram rung that does not fit into memory, with both
  // numbers. progress: of filling memory.
  RungMasks(const Screen& screen, const HeteroGraph& graph, const RungOptions& options,
            Progress& progress = Progress::none());

  Rung rung() const;
  bool loads_masks() const { return lacuna::loads_masks(rung()); }
  const MaskLayout& layout() const;            // of the u8 records; on all rungs but kernel
  std::span<const uint8_t> wild_type() const;  // the record that nothing is gone from, [stride]
  // In memory: tables, and the masks of the ram rungs, which all processes of this host share.
  uint64_t held_bytes() const;
  // How many batches a loader of so many threads should make ahead: few where a batch holds masks.
  uint64_t prefetch(int threads) const { return loads_masks() ? masks_ahead(threads) : 128; }
  // The same for predictions, whose loader has one thread.
  uint64_t prefetch_to_predict() const { return loads_masks() ? kMasksAheadToPredict : 128; }
  // Throws Error unless it has these samples of the screen (a store may hold fewer).
  void check_samples(const Screen& screen, uint64_t first, uint64_t last) const;

 private:
  friend class RungSource;
  friend class RungBatch;
  struct State;
  std::shared_ptr<const State> state_;
};

// The store of a disk rung for as long as something is measured with it.
class TemporaryStore {
 public:
  // Writes folder/store with the masks of all samples; nothing for rungs that read no store. Throws
  // Error as prepare_masks() does, and leaves nothing then.
  TemporaryStore(const Screen& screen, Rung rung, const fs::path& folder,
                 Progress& progress = Progress::none());
  ~TemporaryStore();
  TemporaryStore(const TemporaryStore&) = delete;
  TemporaryStore& operator=(const TemporaryStore&) = delete;

  const fs::path& path() const { return path_; }  // empty where there is none
  uint64_t bytes() const { return bytes_; }       // on disk

 private:
  TemporaryStore() = default;

  fs::path path_;
  uint64_t bytes_ = 0;
};

class RungBatch {
 public:
  const ScreenBatch& samples() const { return samples_; }
  uint64_t size() const { return samples_.size(); }  // B
  // [B] where each sample's u8 record starts; empty on device and kernel.
  std::span<const uint8_t* const> records() const { return records_; }
  // The same records one after another, the wild type's behind them, [B + 1, stride]; null where
  // records() are views of what is stored.
  const uint8_t* block() const { return block_; }
  uint64_t mask_bytes() const;  // of all records
  // Of removed genes, ptr, labels and masks: what would be moved to a device.
  uint64_t bytes() const { return samples_.bytes() + mask_bytes(); }

 private:
  friend class RungSource;

  ScreenBatch samples_;
  std::vector<const uint8_t*> records_;
  const uint8_t* block_ = nullptr;
  RungMasks masks_;                   // keeps what records_ point into
  std::unique_ptr<MaskArena> arena_;  // worker
  Scratch<uint8_t> buffer_;           // [capacity + 1, stride] of the rungs that expand
  uint64_t capacity_ = 0;             // samples that fit
};

// A Source for Loader.
class RungSource {
 public:
  using Batch = RungBatch;

  // batch: samples in the largest. Throws Error as ScreenSource and check_samples() do.
  RungSource(const Screen& screen, RungMasks masks, uint64_t batch,
             ScreenSourceOptions samples = {});

  uint64_t size() const { return source_.size(); }
  void fill(std::span<const uint64_t> places, RungBatch& out) const;

  const RungMasks& masks() const { return masks_; }

 private:
  void fill_masks(RungBatch& out) const;
  void reserve(RungBatch& out) const;

  ScreenSource source_;
  RungMasks masks_;
  uint64_t batch_;
};

}  // namespace lacuna
