// The ladder measured: batches of a screen through the loader, rung after rung, beside what the
// plan says.
//
//   const Screen slice = write_slice(screen, folder / "slice", 512);
//   const LadderMeasurement measured = measure_ladder(slice, {.folder = folder});
//
// Masks of all samples would fill a disk, so the ladder is measured on a slice: the first samples,
// as a screen of its own. A rung's store is made, warmed, read, and removed before the next. A
// batch is there when the loader has handed it over: masks in memory, to be read where they lie.
// For the rungs that hand out views that is before anybody has read them, so a second time includes
// reading every byte once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/system/progress.h"
#include "lacuna/ladder/screen_rungs.h"
#include "lacuna/plan/machine.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

struct LadderSettings {
  fs::path folder;  // for the stores, one at a time
  std::vector<Rung> rungs = {kScreenRungs.begin(), kScreenRungs.end()};
  uint64_t batch = 28;
  int threads = 2;     // of the loader, at least 1
  double seconds = 1;  // to measure a rung for, about
};

struct RungMeasurement {
  Rung rung = Rung::kernel;
  double batch_seconds = 0;    // until a batch is there, from one to the next
  double read_seconds = 0;     // the same, and every byte of its masks read by one thread
  double planned_seconds = 0;  // what plan_screen() says for batch_seconds
  double stored_bytes = 0;     // a sample: on disk, or held in memory on the ram rungs
  double moved_bytes = 0;      // a sample: of a batch
  double host_bytes = 0;       // the most memory that the rung took, without mapped files
  // Batches that were looked at hold exactly the masks that the edges say (plain_masks.h); on
  // device and kernel, which load none, exactly the removed genes.
  bool is_exact = false;

  // Of training, where it was measured; difference: the largest between predictions after it and
  // those of the first rung, which has none.
  std::optional<double> steps_per_second, device_bytes, difference;

  double planned_ratio() const { return batch_seconds / planned_seconds; }
};

struct LadderMeasurement {
  uint64_t samples = 0;  // of the slice
  uint64_t batch = 0;
  int threads = 0;
  Machine machine;
  uint64_t largest_store = 0;  // bytes on disk
  std::vector<RungMeasurement> rungs;
};

// The first `samples` of a screen (all where it has fewer) with the same graph, and a split
// "ladder" that trains on all of them.
Screen write_slice(const Screen& screen, const fs::path& out, uint64_t samples);

using RungMeasured = std::function<void(const RungMeasurement&)>;  // called when a rung is done

// Throws Error when the slice has fewer samples than a batch, the disk or the memory is too small
// for a rung, and when it was stopped.
LadderMeasurement measure_ladder(const Screen& slice, const LadderSettings& settings,
                                 const RungMeasured& measured = {},
                                 Progress& progress = Progress::none());

}  // namespace lacuna
