// Memory that a training takes beside the frames: what a guard (guards.h) and a plan count.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lacuna {

// Of all ranks of this host together.
struct WindowMemory {
  uint64_t batch = 256;       // windows of all ranks
  uint64_t window_bytes = 0;  // of a window's stimulus as it is moved; 0 on device:resident
  uint64_t row_bytes = 0;     // of its counts, validity and inputs, as floats
  uint64_t ranks = 1;         // processes that train together
  uint64_t threads = 2;       // of each one's loader
  bool has_gpu = false;       // batches are pinned, and two of them on their way
  uint64_t most_ahead = uint64_t(1) << 30;  // bytes of batches made ahead, a rank
  uint64_t field_bytes = 0;                 // counts, validity and behaviour, which stay in memory
  uint64_t weighed_windows = 0;             // order.column: a number of each is kept, by every rank
  uint64_t evaluated_bytes = 0;  // predictions of a session that are scored or written at once

  // Of a window that is scored: rates, counts, validity and two baselines of every unit, and where
  // it stands.
  static constexpr uint64_t evaluated_window(uint64_t units) { return 21 * units + 48; }

  // A rank's batches: those made ahead, two in use, and two that a GPU fetches from.
  uint64_t training_bytes() const {
    const uint64_t one = (batch + ranks - 1) / ranks * (window_bytes + row_bytes);
    const uint64_t ahead =
        std::clamp<uint64_t>(most_ahead / std::max<uint64_t>(one, 1), 1, threads + 2);
    return (ahead + 2 + (has_gpu ? 2 : 0)) * one;
  }
  // The same while it validates or predicts: whole batches, by one thread.
  uint64_t validation_bytes() const {
    return (3 + 1 + (has_gpu ? 1 : 0)) * batch * (window_bytes + row_bytes);
  }
  uint64_t bytes() const {
    return ranks * (training_bytes() + validation_bytes() + 4 * weighed_windows) + field_bytes +
           evaluated_bytes;
  }
};

}  // namespace lacuna
