// What every rung of the ladder would cost on a machine, which ones fit, and the one to take.
//
// A prediction is arithmetic on three measured things: the machine (machine.h), the sizes of the
// screen's masks (mask_sizes.h) and what the steps of loading cost (step_costs.h). For a batch:
//
//   disk:u8                         a look-up a sample; the batch refers to the mapped file
//   disk:bits, bf16, positions      a look-up and an expansion to u8 a sample
//   ram:u8                          nothing: the batch refers to the masks in memory
//   ram:bits                        an expansion a sample
//   worker                          a kept arena brought up to date
//   device, kernel                  nothing
//
// and for every rung the removed genes, ptr and labels. That is `batch_seconds`, what the loader
// takes for a batch with the store in the system's file cache: what `lacuna bench ladder` measures.
// `epoch_seconds` adds what comes after it: reading what the cache cannot hold, moving a batch to
// the GPU, making masks on the device. Neither holds the model's own time.
//
// What fits leaves a margin: kRoomMargin times the bytes must be free.
//
// Several ranks on one machine share its memory, its cores and its disk, where the store lies once,
// and the masks of the ram rungs, which one of them makes; each holds tables and batches of its own
// (a slice of the global batch, load/order.h) and has a GPU to itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/ladder/screen_rungs.h"
#include "lacuna/masks/mask_sizes.h"
#include "lacuna/plan/machine.h"
#include "lacuna/plan/step_costs.h"

namespace lacuna {

struct PlanSettings {
  uint64_t samples = 0;   // to plan for, at least 1
  uint64_t epochs = 10;   // of training in all, over which preparing is spread
  uint64_t batch = 28;    // samples of all ranks together, at least one a rank
  uint64_t prefetch = 0;  // batches of masks made ahead, two more are in use; 0: as training does
  uint64_t ranks = 1;     // processes that train together on this machine
};

// Bytes and seconds of one rank, where they are not of all.
struct RungPlan {
  Rung rung = Rung::kernel;
  double disk_bytes = 0;       // of the store, which all ranks read
  double memory_bytes = 0;     // of a process: masks held, batches of the loader, copies that
                               // training and validation read or a GPU fetches, tables
  double shared_bytes = 0;     // of these, the masks held, which all ranks have together
  double device_bytes = 0;     // on the GPU, beside the model: batches of training, of its recorded
                               // step and of validation, tables; 0 without one
  double read_bytes = 0;       // a batch: from the store or from memory
  double moved_bytes = 0;      // a batch: to where the model computes
  double prepare_seconds = 0;  // once: writing the store
  double start_seconds = 0;    // in every run, before its first batch
  double batch_seconds = 0;    // the loader's, a batch, with a warm cache
  double later_seconds = 0;    // a batch: moved to the GPU, masks made on the device
  double cold_seconds = 0;     // a batch: read from the disk because memory cannot hold the store
  double epoch_seconds = 0;    // of all batches
  double total_seconds = 0;    // prepare, start and all epochs
  std::vector<std::string> lacks;  // what is missing, with the numbers; empty: it fits
  // Epochs after which preparing (or filling memory) has paid for itself against `worker`: nothing
  // where it never does, and for rungs that prepare nothing.
  std::optional<double> pays_back;

  bool fits() const { return lacks.empty(); }
};

struct LadderPlan {
  PlanSettings settings;
  std::vector<RungPlan> rungs;  // in the order of kScreenRungs
  std::optional<Rung> pick;     // the least total_seconds of those that fit
  std::string reason;
  std::optional<Rung> masks_pick;  // the same for a model that reads masks: any but kernel
  std::string masks_reason;
  std::vector<std::string> notes;  // what does not fit and why; what is assumed

  const RungPlan& of(Rung rung) const;
};

LadderPlan plan_ladder(const MaskSizes& sizes, const StepCosts& costs, const Machine& machine,
                       const PlanSettings& settings);

// The whole of it for a screen: sizes looked at, steps timed, rungs planned (about a second at
// yeast size). settings.samples 0: as many as the screen has. threads: of the loader, at least 1.
// Throws Error for a screen without samples or with a sample that removes what is not a gene.
struct ScreenPlan {
  MaskSizes sizes;
  StepCosts costs;
  LadderPlan ladder;
};
ScreenPlan plan_screen(const Screen& screen, const Machine& machine, PlanSettings settings,
                       int threads);

Json to_json(const LadderPlan& plan);

}  // namespace lacuna
