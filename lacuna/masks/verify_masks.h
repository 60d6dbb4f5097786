// Looks for damage in a store of masks: recomputes what it holds from the screen, and compares.
//
// A damaged page can crash LMDB, so only a child process opens the data; the parent reads the
// manifest and the checksums of the tree's pages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/masks/mask_store.h"

namespace lacuna {

struct VerifyOptions {
  bool all = false;                     // every sample, else some at random and the outermost two
  std::optional<uint64_t> sample = {};  // only this one
  uint64_t random_samples = 3000;
  uint64_t seed = 0;  // of the random choice
};

struct VerifyResult {
  MaskStoreContents contents;
  uint64_t samples = 0;              // compared, byte by byte
  uint64_t pages = 0;                // of LMDB's own, compared with their checksums
  bool is_manifest_checked = false;  // false: it has no checksum
  // What is wrong and where, one line each; no more than kMostFaults are kept.
  static constexpr size_t kMostFaults = 50;
  uint64_t fault_count = 0;
  std::vector<std::string> faults = {};
};

// Throws Error when there is no store to look into: it is missing, unfinished, made for something
// else than this screen, or its manifest or pages.npy are damaged.
VerifyResult verify_masks(const Screen& screen, const fs::path& store, const VerifyOptions& options,
                          Progress& progress = Progress::none());

}  // namespace lacuna
