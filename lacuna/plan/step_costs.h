// What the steps of loading cost on this machine, for masks of this screen's sizes: each is done a
// few times, with the loader's number of threads at once, and timed.
//
// A step takes about 50 ms to measure, all of them half a second, beside making the tables (0.3 s
// at yeast size). A time is a median, so that other programs disturb it little.
#pragma once

#include <cstdint>

#include "lacuna/masks/mask_sizes.h"
#include "lacuna/ops/masks/masks.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

// Seconds. A batch and a record are those that all threads together finish one after another: with
// two threads half of what one of them takes, unless the memory is what they wait for.
struct FormCosts {
  double expand = 0;  // a record to u8
  double make = 0;    // a record from the removed genes
};
struct StepCosts : PerForm<FormCosts> {
  double indices = 0;  // a batch: removed genes, ptr and labels, through the loader
  double handed = 0;   // the same, few made ahead: what handing over a batch of masks costs
  double update = 0;   // a record: the masks of a batch brought up to date in a kept arena
  double first = 0;    // a record: memory taken and filled for the first time
  double look_up = 0;  // a record: found in an LMDB by its key
  double seconds = 0;  // that measuring took
  uint64_t batch = 0;  // samples that were used as a batch
  int threads = 0;     // that measured
};

struct CostSettings {
  uint64_t batch = 28;
  int threads = 2;        // of the loader; at most as many as there are cores are used
  uint64_t prefetch = 4;  // batches of masks made ahead
  uint64_t memory =
      1 << 30;           // bytes that may be used; a smaller batch is measured where they are few
  double budget = 0.05;  // seconds a step
};

// screen: at least one sample. Throws Error for samples that remove what is not a gene.
StepCosts measure_costs(const Screen& screen, const RemovalRules& rules,
                        const MaskEncoder& positions, const CostSettings& settings);

Json to_json(const StepCosts& costs);

}  // namespace lacuna
