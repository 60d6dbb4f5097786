// What every rung of a recording would cost on a machine, which ones fit, and the one to take.
//
// A prediction is arithmetic on the machine (machine.h), the sizes of the recording and what was
// measured on its own frames (recording_costs.h). A window is `lags` frames, so an epoch moves the
// movie `lags` times over, whoever holds it.
//
//   ram:*            frames are loaded once a run, one copy a host whatever the number of ranks
//   disk:*           read window by window; what the memory left over cannot cache is read again
//   *:chunks         a window lies in about two chunks, which are decoded for it
//   tiered           sessions drawn most a byte in memory, as many as fit; the others as disk:u8
//   @worker, @device numbers made by the loader's threads, or bytes moved and cast there
//   device:resident  nothing is moved but the numbers of rows
//
// What fits leaves a margin: kRoom (ladder/guards.h) times the bytes must be free. A store may lie
// on any of the disks.
//
// Transforms that need more than a window (whitening, smoothing over time) run once into a store of
// floats: then rungs of bytes cannot give them exactly and are refused with that reason. Those of a
// window (crop, normalise, scale) cost nothing here: they are done where frames are cast.
//
// The pick is the least total time among rungs that fit and lose nothing, where a model takes at
// most `demand` windows a second; of those within 10% of it the one that writes least, then holds
// least.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/ladder/recording_rungs.h"
#include "lacuna/plan/machine.h"
#include "lacuna/plan/recording_costs.h"

namespace lacuna {

struct PlanDisk {
  fs::path folder;
  double free = 0;  // bytes
};

// What the frames go through before a model sees them.
enum class FrameTransforms : uint8_t {
  window,  // none, or those that need a window alone
  whole,   // some that need more: they run once, into floats
};
// From names, as "crop,whiten". Throws UsageError, listing them, for one that is not known.
FrameTransforms frame_transforms_from_names(const std::vector<std::string>& names);

struct RecordingPlanSettings {
  uint64_t epochs = 10;
  uint64_t batch = 256;  // windows of all ranks together
  uint64_t ranks = 1;    // processes that train together on this machine
  int threads = 2;       // of each one's loader
  double prefetch_bytes = double(uint64_t(1) << 30);  // of batches made ahead, a rank
  FrameTransforms transforms = FrameTransforms::window;
  DType cast = DType::f32;  // what the model computes with: f32 or bf16
  // Windows a second that a model takes, a rank: what a rung could give beyond that gains nothing.
  // A small convolutional core on a large GPU takes some 10,000.
  double demand = 20'000;
  std::vector<double> shares = {};  // drawn a session; empty: by its length
  bool is_weighed = false;          // windows are drawn by a column, which every rank keeps
};

struct RecordingRungPlan {
  Rung rung;
  double disk_bytes = 0;       // of a store to be written
  double memory_bytes = 0;     // of this host: frames held, and batches of all ranks
  double device_bytes = 0;     // of the GPU: frames and batches; 0 without one
  double moved_bytes = 0;      // a batch of one rank: to where the model computes
  double prepare_seconds = 0;  // once: writing the store
  double start_seconds = 0;    // in every run: loading frames
  double batch_seconds = 0;    // the loader's, warm
  double cold_seconds = 0;     // a batch: what must be read from the disk
  double epoch_seconds = 0, total_seconds = 0;
  // Epochs after which preparing or loading has paid for itself against reading the recording as it
  // lies (disk:u8): nothing where it never does, and for rungs that do neither.
  std::optional<double> pays_back;
  std::string lost;                // precision; empty: nothing
  fs::path folder;                 // where its store would lie: the first disk that has room
  std::vector<std::string> lacks;  // what is missing, with the numbers; empty: it fits

  bool fits() const { return lacks.empty(); }
};

struct RecordingPlan {
  RecordingPlanSettings settings;
  std::vector<RecordingRungPlan> rungs;
  std::optional<Rung> pick;
  std::string reason;
  std::vector<std::string> notes;

  const RecordingRungPlan& of(const std::string& rung) const;  // "disk:u8@device"
};

RecordingPlan plan_recording(const RecordingSizes& sizes, const RecordingCosts& costs,
                             const Machine& machine, const std::vector<PlanDisk>& disks,
                             const RecordingPlanSettings& settings);

Json to_json(const RecordingPlan& plan);

}  // namespace lacuna
