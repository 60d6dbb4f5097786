// The rungs of the ladder for screens: where a sample's masks are made.
//
//   disk:u8, disk:bits, disk:bf16   masks written once, read back (a store, docs/prepare.md)
//   disk:positions                  positions of what is gone written once, expanded by the loader
//   ram:u8, ram:bits                masks of all samples made once and held in memory
//   worker                          masks made by the loader's threads from the removed genes
//   device                          removed genes moved, masks made where the model computes
//   kernel                          removed genes moved, no mask ever made
//
// All give the same numbers; time, bytes and memory differ.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "lacuna/ops/masks/masks.h"

namespace lacuna {

enum class Rung : uint8_t {
  disk_u8,
  disk_bits,
  disk_bf16,
  disk_positions,
  ram_u8,
  ram_bits,
  worker,
  device,
  kernel
};

std::string_view name(Rung rung);            // "disk:u8"
Rung rung_from_name(std::string_view name);  // throws Error, listing all
std::span<const Rung> all_rungs();           // in the order above
bool is_stored(Rung rung);                   // reads a store
MaskForm form_of(Rung rung);                 // of what it stores or holds; u8 for all others
bool loads_masks(Rung rung);                 // a loader's batch holds masks: all but device, kernel
// Batches of masks that a loader of so many threads should make ahead: each takes 70 MB at yeast
// size and batch 28, so no more than keep every thread at work.
inline uint64_t masks_ahead(int threads) { return std::max<uint64_t>(4, uint64_t(threads) + 2); }
// The same for predictions on the way (validation), whose loader has one thread.
inline constexpr uint64_t kMasksAheadToPredict = 2;

}  // namespace lacuna
