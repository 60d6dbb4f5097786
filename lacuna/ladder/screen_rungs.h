// The rungs that screens offer: where a sample's masks are made, and what follows from that.
// Whoever loads, plans, trains or reports asks here, and knows no rung by its name.
//
//   disk:u8, disk:bits, disk:bf16   masks written once, read back (a store, docs/prepare.md)
//   disk:positions                  positions of what is gone written once, expanded by the loader
//   ram:u8, ram:bits                masks of all samples made once and held in memory
//   worker                          masks made by the loader's threads from the removed genes
//   device                          removed genes moved, masks made where the model computes
//   kernel                          removed genes moved, no mask ever made
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "lacuna/ladder/rung.h"
#include "lacuna/ops/masks/masks.h"

namespace lacuna {

inline constexpr std::array kScreenRungs = {Rung::disk_u8,        Rung::disk_bits, Rung::disk_bf16,
                                            Rung::disk_positions, Rung::ram_u8,    Rung::ram_bits,
                                            Rung::worker,         Rung::device,    Rung::kernel};

// A store on disk is read.
constexpr bool is_stored(Rung rung) { return rung.place == Place::disk; }
// The masks of all samples are held in memory.
constexpr bool is_held(Rung rung) { return rung.place == Place::ram; }
// Either: all masks are made before the first batch.
constexpr bool is_made_before(Rung rung) { return is_stored(rung) || is_held(rung); }
constexpr bool makes_masks_in_loader(Rung rung) { return rung.place == Place::worker; }
constexpr bool makes_masks_on_device(Rung rung) { return rung.place == Place::device; }
// A loader's batch holds masks.
constexpr bool loads_masks(Rung rung) {
  return is_made_before(rung) || makes_masks_in_loader(rung);
}
// The batch has u8 records of its own; else those it has, if any, are views of what lies elsewhere.
constexpr bool fills_records(Rung rung) { return loads_masks(rung) && rung.form != Form::u8; }
// A mask exists somewhere: loaded, or made on the device.
constexpr bool has_masks(Rung rung) { return loads_masks(rung) || makes_masks_on_device(rung); }

// The form of what is stored or held; u8, which all others make, where nothing is.
inline MaskForm mask_form(Rung rung) {
  return rung.form == Form::none ? MaskForm::u8 : mask_form_from_name(name(rung.form));
}

// Batches of masks that a loader of so many threads should make ahead: each takes 70 MB at yeast
// size and batch 28, so no more than keep every thread at work.
inline uint64_t masks_ahead(int threads) { return std::max<uint64_t>(4, uint64_t(threads) + 2); }
// The same for predictions, such as those of validation, whose loader has one thread.
inline constexpr uint64_t kMasksAheadToPredict = 2;

}  // namespace lacuna
