// How well a recording's own frames compress, and how fast they come back: a few chunks, drawn all
// over it, packed and unpacked.
#pragma once

#include <cstdint>

#include "lacuna/ladder/frame_store.h"

namespace lacuna {

struct ChunkSample {
  uint64_t raw_bytes = 0, packed_bytes = 0;
  double pack_rate = 0, unpack_rate = 0;  // raw bytes a second, one thread

  double ratio() const { return packed_bytes == 0 ? 1 : double(raw_bytes) / double(packed_bytes); }
};

struct ChunkSampleSettings {
  uint64_t chunks = 96;  // at most
  double seconds = 0.5;  // about; a few chunks are looked at whatever they take
};

// Throws Error for a field that is not u8.
ChunkSample sample_chunks(const Recording& recording, const FrameStoreSettings& settings,
                          const ChunkSampleSettings& sample = {});

}  // namespace lacuna
