// From a loader's batches of windows to tensors on the model's device, one batch ahead.
//
// The stimulus goes as it comes: bytes on the rungs that are cast on the device, numbers on the
// others; on device:resident it is gathered there. Counts, validity and inputs of all sessions are
// packed into one buffer and sent at once. On a GPU a batch is copied while the model works on the
// one before (train/fetch_ahead.h); on the CPU the stimulus is not copied at all.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "lacuna/load/session_order.h"
#include "lacuna/train/fetch_ahead.h"
#include "lacuna/train/recording/recording_session.h"
#include "lacuna/train/task.h"

namespace lacuna {

struct DeviceWindows : Batch {
  WindowInput input;
  std::vector<at::Tensor> counts, validity;  // [S] each [b T, units] f32; T target rows a window
  std::vector<uint64_t> windows;             // [B] their numbers

  int64_t size() const override { return input.batch(); }
  std::unique_ptr<Batch> clone() const override;
  void assign(const Batch& other) override;
};

// Lays batches out as tensors. Its buffers serve one batch at a time.
class WindowPlacer {
 public:
  explicit WindowPlacer(const RecordingSession& session) : session_(&session) {}
  // batch outlives the result; copies to a GPU are sent on the current stream.
  DeviceWindows place(const RecordingBatch& batch);

 private:
  at::Tensor place_stimulus(const RecordingBatch& batch);

  const RecordingSession* session_;
  at::Tensor host_, device_;  // packed floats
  at::Tensor stimulus_;       // on the device
  at::Tensor rows_;           // device:resident: rows of the newest frames, on the host
};

// The training batches of a session, in the order that its config asks for.
class WindowFeed : public Feed {
 public:
  explicit WindowFeed(const RecordingSession& session);  // which outlives it
  ~WindowFeed() override;

  const Batch* next() override;
  const LoaderState& state() const override;
  void seek(const LoaderState& state) override;
  std::vector<uint64_t> samples(uint64_t epoch, uint64_t position) const override;

 private:
  struct Slot;
  void fetch(Slot& slot);

  const RecordingSession& session_;
  Loader<RecordingSource, SessionOrder> loader_;
  std::unique_ptr<FetchAhead<Slot>> ahead_;
};

// Runs the model over windows `numbers` (ascending) of `windows`, without gradients, and hands over
// each batch with its rates: [S] each [b, units] f32 on the device.
using TakeRates =
    std::function<void(const DeviceWindows& batch, const std::vector<at::Tensor>& rates)>;
// The same without the model.
void visit_windows(const RecordingSession& session, const Windows& windows,
                   std::vector<uint64_t> numbers,
                   const std::function<void(const DeviceWindows& batch)>& take,
                   Progress& progress = Progress::none());
void predict_windows(const RecordingSession& session, const Windows& windows,
                     std::vector<uint64_t> numbers, const TakeRates& take,
                     Progress& progress = Progress::none());

// Of a session, `most` windows or all, evenly spread.
std::vector<uint64_t> spread_windows(const Windows& windows, uint32_t session, uint64_t most);

}  // namespace lacuna
