// The frames of one session, wherever they lie: what Frames (frames.h) is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/ladder/recording_rungs.h"
#include "lacuna/recording/recording.h"

namespace lacuna {

struct StoredSession;  // frame_store.h

// From the dtype in which frames lie to the one that is asked for; bytes are normalised.
struct FrameCast {
  DType from = DType::u8, to = DType::u8;
  uint64_t pixels = 0;  // of a frame

  uint64_t from_bytes() const { return pixels * item_size(from); }
  uint64_t to_bytes() const { return pixels * item_size(to); }
  bool is_copy() const { return from == to; }
  void operator()(const std::byte* frames, uint64_t count, std::byte* out) const;
};

class FrameHolder {
 public:
  virtual ~FrameHolder() = default;
  // As Frames::read(); cast.from is what it holds.
  virtual void read(uint32_t segment, uint64_t t, uint64_t lags, uint64_t step,
                    const FrameCast& cast, std::byte* out) const = 0;
  // Rows in the order of time, as held.
  virtual void read_rows(uint32_t segment, uint64_t first, uint64_t count,
                         std::byte* out) const = 0;
  virtual uint64_t held_bytes() const { return 0; }
  virtual uint64_t disk_bytes() const { return 0; }
};

// The fields of a session's segments, by segment: the recording's own, or those of a store.
using SegmentFields = std::vector<Field>;

// disk:u8, disk:bf16, disk:f32: rows of these fields, read where they are.
std::unique_ptr<FrameHolder> hold_on_disk(const SegmentFields& fields);

// ram:u8, ram:bf16, ram:f32: the rows of these fields, cast to `dtype`, in one copy a host.
struct HeldPlan;  // what it would take, and where it is
std::shared_ptr<const HeldPlan> plan_held(SegmentFields fields, DType dtype,
                                          const std::string& session);
uint64_t bytes_of(const HeldPlan& plan);
bool is_held_already(const HeldPlan& plan);  // by some process of this host
std::unique_ptr<FrameHolder> hold_in_memory(std::shared_ptr<const HeldPlan> plan,
                                            Progress& progress, uint64_t done);

// disk:chunks, ram:chunks: the Zarr arrays of a stored session (store/zarr/zarr_chunks.h); in
// memory: their packed bytes in one copy a host.
std::unique_ptr<FrameHolder> hold_chunks(const StoredSession& session, bool in_memory,
                                         Progress& progress, uint64_t done = 0);
struct ChunkBytes {
  uint64_t all = 0;      // of the packed chunks
  uint64_t to_load = 0;  // what ram:chunks would add to the host's memory
};
ChunkBytes chunk_bytes(const StoredSession& session);

}  // namespace lacuna
