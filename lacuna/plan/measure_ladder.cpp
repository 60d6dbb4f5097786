#include "lacuna/plan/measure_ladder.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/median.h"
#include "lacuna/core/system/memory.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/ladder/rung_source.h"
#include "lacuna/load/loader.h"
#include "lacuna/ops/masks/plain_masks.h"
#include "lacuna/plan/ladder_plan.h"

namespace lacuna {
namespace {

constexpr int kRounds = 7;
constexpr uint64_t kCheckedBatches = 2;  // a rung; the plain way takes 2 ms a sample at yeast size

using Clock = std::chrono::steady_clock;
using RungLoader = Loader<RungSource>;

BatchRef<RungBatch> next_batch(RungLoader& loader) {
  throw_if_stopped();
  if (auto batch = loader.next()) return batch;
  return loader.next();  // an epoch has ended
}

// Seconds a batch: of a few rounds of together at least `seconds` the median, so that a moment in
// which the machine did something else counts little.
template <class Use>
double time_batches(RungLoader& loader, double seconds, Use use) {
  std::vector<double> rounds(kRounds);
  for (double& round : rounds) {
    const auto start = Clock::now();
    uint64_t count = 0;
    double passed = 0;
    while (passed < seconds / kRounds) {
      use(*next_batch(loader));
      ++count;
      passed = std::chrono::duration<double>(Clock::now() - start).count();
    }
    round = passed / double(count);
  }
  return median(std::move(rounds));
}

// How many elements the masks of a batch keep: a reader that needs every byte.
uint64_t count_kept(const RungBatch& batch, uint64_t stride) {
  uint64_t kept = 0;
  for (const uint8_t* record : batch.records())
    kept += std::accumulate(record, record + stride, uint32_t(0));
  return kept;
}

class Checker {
 public:
  explicit Checker(const Screen& slice)
      : layout_(RemovalRules(slice.graph()), MaskForm::u8),
        plain_(slice.graph()),
        removed_(slice.samples()) {}

  uint64_t stride() const { return layout_.stride(); }

  bool is_exact(const RungBatch& batch) const {
    std::vector<uint32_t> genes;
    const ScreenBatch& samples = batch.samples();
    for (uint64_t b = 0; b < batch.size(); ++b) {
      removed_.read(samples.samples()[b], genes);
      const auto loaded = samples.removed().subspan(
          size_t(samples.ptr()[b]), size_t(samples.ptr()[b + 1] - samples.ptr()[b]));
      if (!std::equal(loaded.begin(), loaded.end(), genes.begin(), genes.end())) return false;
      if (batch.records().empty()) continue;
      const auto expected = plain_.record(genes, layout_);
      if (std::memcmp(batch.records()[b], expected.data(), expected.size()) != 0) return false;
    }
    return true;
  }

 private:
  MaskLayout layout_;
  PlainMasks plain_;
  RemovedReader removed_;
};

class RungBench {
 public:
  RungBench(const Screen& slice, const LadderSettings& settings)
      : slice_(slice), settings_(settings), checker_(slice) {}

  // store: of a disk rung.
  void measure(const fs::path& store, RungMeasurement& result) const {
    give_back_freed_memory();  // of the rung before
    const uint64_t before = own_memory();
    const RungMasks masks(slice_, slice_.graph(), {.rung = result.rung, .store = store});
    const RungSource source(slice_, masks, settings_.batch);
    if (is_held(result.rung))
      result.stored_bytes = double(masks.held_bytes()) / double(source.size());
    RungLoader loader(
        source,
        {.order = {.global_batch = settings_.batch, .seed = 1, .remainder = Remainder::drop},
         .threads = settings_.threads,
         .prefetch = masks.prefetch(settings_.threads)});
    // The first epoch brings pages and buffers into being and is looked at.
    uint64_t number = 0;
    result.is_exact = true;
    while (const auto batch = loader.next()) {
      throw_if_stopped();
      if (number++ < kCheckedBatches) result.is_exact &= checker_.is_exact(*batch);
      kept_ = kept_ + count_kept(*batch, checker_.stride());
      result.moved_bytes = double(batch->bytes()) / double(batch->size());
      result.host_bytes = std::max(result.host_bytes, double(own_memory()) - double(before));
    }
    // What was made ahead meanwhile is no part of what follows.
    for (uint64_t i = 0; i < masks.prefetch(settings_.threads) + 2; ++i) next_batch(loader);
    result.batch_seconds = time_batches(loader, settings_.seconds, [](const RungBatch&) {});
    result.read_seconds = time_batches(loader, settings_.seconds / 2, [&](const RungBatch& batch) {
      kept_ = kept_ + count_kept(batch, checker_.stride());
    });
    result.host_bytes = std::max(result.host_bytes, double(own_memory()) - double(before));
  }

 private:
  const Screen& slice_;
  const LadderSettings& settings_;
  Checker checker_;
  mutable volatile uint64_t kept_ = 0;  // so that the compiler keeps the reads
};

}  // namespace

Screen write_slice(const Screen& screen, const fs::path& out, uint64_t samples) {
  std::vector<uint64_t> chosen(std::min(samples, screen.samples().size()));
  std::iota(chosen.begin(), chosen.end(), 0);
  const Split all = {
      .name = "ladder",
      .parts = Array::from(std::vector<uint8_t>(chosen.size(), uint8_t(Part::train))),
      .how = {{"by", "all"}}};
  return write_screen(out, {screen.graph(),
                            take_samples(screen.samples(), chosen),
                            {all},
                            {{"command", "lacuna bench ladder"}}});
}

LadderMeasurement measure_ladder(const Screen& slice, const LadderSettings& settings,
                                 const RungMeasured& measured, Progress& progress) {
  const Samples& samples = slice.samples();
  if (samples.size() < settings.batch)
    throw Error("a batch of {} samples needs more than the {} there are; give a smaller --batch",
                settings.batch, samples.size());
  LadderMeasurement ladder;
  ladder.samples = samples.size();
  ladder.batch = settings.batch;
  ladder.threads = settings.threads;
  ladder.machine = probe_machine(settings.folder);
  const LadderPlan plan =
      plan_screen(slice, ladder.machine, {.samples = samples.size(), .batch = settings.batch},
                  settings.threads)
          .ladder;
  const RungBench bench(slice, settings);
  for (const Rung rung : settings.rungs) {
    throw_if_stopped();
    RungMeasurement result;
    result.rung = rung;
    result.planned_seconds = plan.of(rung).batch_seconds;
    const TemporaryStore store(slice, rung, settings.folder, progress);
    ladder.largest_store = std::max(ladder.largest_store, store.bytes());
    const uint64_t bytes = is_stored(rung)
                               ? store.bytes()
                               : samples.removed.bytes().size() + samples.ptr.bytes().size();
    result.stored_bytes = double(bytes) / double(samples.size());
    bench.measure(store.path(), result);
    ladder.rungs.push_back(result);
    if (measured) measured(result);
  }
  return ladder;
}

}  // namespace lacuna
