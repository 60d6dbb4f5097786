// Batches of windows as the rungs give them: a Source for Loader.
//
//   const Windows windows(recording, settings);
//   const RecordingSource source(windows, Frames(recording, {.rung = rung}), {.batch = 256});
//   Loader<RecordingSource, SessionOrder> loader(
//       source, SessionOrder(source.first(), {.global_batch = 256, .seed = 1}),
//       {.threads = 2, .prefetch = source.prefetch(2)});
//   while (const auto batch = loader.next()) ..  // a WindowBatch
//
// Windows of a batch are ordered by session. The stimulus is one block, [B, lags, Y, X], gathered
// straight into a buffer that the batch keeps and uses again; on device:resident there is none, and
// `resident` says where each window starts. The buffer comes from `allocate`: pinned memory where
// there is a GPU.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lacuna/ladder/frames.h"
#include "lacuna/recording/window_batch.h"
#include "lacuna/recording/windows.h"

namespace lacuna {

class WindowFields;

struct RecordingBatch : WindowBatch {
  // [B] device:resident: the row of the newest frame of each window (Frames::resident_row()).
  std::vector<int64_t> resident;

 private:
  friend class RecordingSource;
  std::shared_ptr<std::byte> buffer_;
  uint64_t capacity_ = 0;  // bytes
};

struct RecordingSourceOptions {
  uint64_t batch = 256;  // windows in the largest
  // Memory for a batch's stimulus; it goes back with the last owner. None: ordinary memory.
  std::function<std::shared_ptr<std::byte>(uint64_t bytes)> allocate = {};
  std::vector<uint64_t> selection = {};  // numbers of windows to visit; empty: all
};

class RecordingSource {
 public:
  using Batch = RecordingBatch;

  RecordingSource(const Windows& windows, Frames frames, RecordingSourceOptions options = {});

  uint64_t size() const;  // windows, or those selected
  // [sessions + 1] for SessionOrder: the windows (or selected places) of each session of the
  // recording.
  std::vector<uint64_t> first() const;
  void fill(std::span<const uint64_t> places, RecordingBatch& out) const;

  const Windows& windows() const { return windows_; }
  const Frames& frames() const { return frames_; }
  const WindowFields& fields() const { return *fields_; }
  uint64_t batch_bytes() const;  // of the largest batch's stimulus
  // Batches to make ahead: enough to keep so many threads at work, within `bytes`, at least 1.
  uint64_t prefetch(int threads, uint64_t bytes = uint64_t(1) << 30) const;

 private:
  void fill_stimulus(RecordingBatch& out) const;

  Windows windows_;
  Frames frames_;
  RecordingSourceOptions options_;
  std::shared_ptr<const WindowFields> fields_;
};

}  // namespace lacuna
