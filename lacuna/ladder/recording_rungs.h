// The rungs that recordings offer: where the frames of a movie lie until a window is asked for, in
// which form, and who turns bytes into numbers.
//
//   ram:u8, ram:bf16, ram:f32     frames in memory, one copy a host (host_copy.h)
//   ram:chunks                    the same, compressed
//   disk:u8                       read from the recording itself, window by window
//   disk:bf16, disk:f32           read from a store of normalised frames (frame_store.h)
//   disk:chunks                   read from a store of compressed chunks
//   tiered                        the sessions drawn most in memory as u8, the others as disk:u8
//   device:resident               the u8 movie in the GPU's memory, windows gathered there
//
// Where frames lie as bytes (u8, chunks, tiered), a second choice says who normalises and casts:
//   @worker   the loader's threads, window by window, into the batch
//   @device   bytes are moved, and cast where the model computes
// Without one it is @device where the model computes on a GPU, @worker elsewhere.
//
// All rungs give the same numbers: f32 to the bit, bf16 rounded once from those.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "lacuna/core/dtype.h"
#include "lacuna/ladder/rung.h"

namespace lacuna {

inline constexpr std::array kRecordingRungs = {
    Rung{Place::ram, Form::u8},   Rung{Place::ram, Form::bf16},
    Rung{Place::ram, Form::f32},  Rung{Place::ram, Form::chunks},
    Rung{Place::disk, Form::u8},  Rung{Place::disk, Form::bf16},
    Rung{Place::disk, Form::f32}, Rung{Place::disk, Form::chunks},
    Rung{Place::tiered},          Rung{Place::device, Form::resident}};

// One of these, with @worker or @device where the rung leaves that to choose. Throws Error, listing
// them.
Rung recording_rung_from_name(std::string_view name);

// Frames lie as bytes, and somebody casts them.
constexpr bool is_bytes(Rung rung) {
  return rung.form == Form::u8 || rung.form == Form::chunks || rung.place == Place::tiered;
}
constexpr bool is_resident(Rung rung) { return rung.form == Form::resident; }
// A store is read; disk:u8 and ram:u8 may read one (of transformed frames).
constexpr bool needs_store(Rung rung) {
  return rung.form == Form::chunks || (rung.place == Place::disk && rung.form != Form::u8);
}
// The same rung with the choice made.
constexpr Rung with_expansion(Rung rung, bool has_gpu) {
  if (is_bytes(rung) && !rung.expanded_at)
    rung.expanded_at = has_gpu ? Place::device : Place::worker;
  return rung;
}
// The dtype of frames as they lie.
constexpr DType held_dtype(Rung rung) {
  return rung.form == Form::bf16 ? DType::bf16 : rung.form == Form::f32 ? DType::f32 : DType::u8;
}
// The dtype of a batch's frames. cast: what @worker makes of bytes.
constexpr DType moved_dtype(Rung rung, DType cast) {
  if (is_resident(rung) || rung.expanded_at == Place::device) return DType::u8;
  return is_bytes(rung) ? cast : held_dtype(rung);
}

}  // namespace lacuna
