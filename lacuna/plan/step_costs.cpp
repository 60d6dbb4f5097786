#include "lacuna/plan/step_costs.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/median.h"
#include "lacuna/core/random.h"
#include "lacuna/core/system/clock.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/load/loader.h"
#include "lacuna/masks/mask_store.h"
#include "lacuna/ops/masks/masks.h"
#include "lacuna/screen/screen_batch.h"
#include "lacuna/store/lmdb.h"

namespace lacuna {
namespace {

constexpr uint64_t kLargestBatch = 64;  // larger ones cost as much a record
// A loader goes round through several batches, and reads records it has not read for long: what is
// measured must not find them in the caches either.
constexpr uint64_t kBatchesAThread = 3;
constexpr uint64_t kSourceBytes = 96 << 20;

using Clock = std::chrono::steady_clock;

// Threads that all do the same step over and over, each with data of its own.
class Bench {
 public:
  Bench(int threads, double budget) : threads_(threads), budget_(budget) {}

  int threads() const { return threads_; }

  // Seconds from one finished call to the next, all threads together. body(thread, call) from call
  // 0, which is not counted.
  double time(const std::function<void(int, uint64_t)>& body) const {
    std::vector<double> medians(static_cast<size_t>(threads_));
    const auto work = [&](int thread) {
      body(thread, 0);
      std::vector<double> times;
      const auto start = Clock::now();
      for (uint64_t call = 1; times.size() < 3 || seconds_since(start) < budget_; ++call) {
        const auto before = Clock::now();
        body(thread, call);
        times.push_back(seconds_since(before));
      }
      medians[size_t(thread)] = median(times);
    };
    std::vector<std::future<void>> others;
    for (int thread = 1; thread < threads_; ++thread)
      others.push_back(std::async(std::launch::async, work, thread));
    work(0);
    for (auto& other : others) other.get();  // throws what the thread threw
    double rate = 0;
    for (const double seconds : medians) rate += 1 / std::max(seconds, 1e-9);
    return 1 / rate;
  }

 private:
  int threads_;
  double budget_;
};

// Batches as the loader would make them, in random order.
std::vector<ScreenBatch> make_batches(const ScreenSource& source, uint64_t size, uint64_t count) {
  std::vector<ScreenBatch> batches(count);
  Random random(1);
  std::vector<uint64_t> places(size);
  for (ScreenBatch& batch : batches) {
    for (uint64_t& place : places) place = random.below(source.size());
    source.fill(places, batch);
  }
  return batches;
}

// The real loader. With much made ahead, as `device` and `kernel` do, its threads are woken once in
// many batches.
double time_indices(const ScreenSource& source, const CostSettings& settings, uint64_t prefetch) {
  Loader loader(source,
                {.order = {.global_batch = std::min(settings.batch, source.size()), .seed = 1},
                 .threads = settings.threads,
                 .prefetch = prefetch});
  constexpr int kTogether = 256;  // a single one may have lain ready
  const auto take = [&] {
    for (int taken = 0; taken < kTogether;)
      if (loader.next()) ++taken;
  };
  take();  // the first ones also bring the arrays into reach
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < 3 || seconds_since(start) < settings.budget) {
    const auto before = Clock::now();
    take();
    times.push_back(seconds_since(before));
  }
  return median(times) / kTogether;
}

void measure_update(const RemovalRules& rules, const MaskLayout& layout, const ScreenSource& source,
                    uint64_t batch, const Bench& bench, StepCosts& costs) {
  const MaskTable table(rules, layout);
  const auto start = Clock::now();
  std::vector<MaskArena> arenas;
  for (uint64_t i = 0; i < uint64_t(bench.threads()) * kBatchesAThread; ++i)
    arenas.emplace_back(layout, table, int64_t(batch));
  costs.first = seconds_since(start) / double(arenas.size() * batch);
  const std::vector<ScreenBatch> batches = make_batches(source, batch, 32);
  costs.update = bench.time([&](int thread, uint64_t call) {
    const ScreenBatch& next = batches[(call + uint64_t(thread)) % batches.size()];
    arenas[uint64_t(thread) * kBatchesAThread + call % kBatchesAThread].update(
        {next.removed(), next.ptr()});
  }) / double(batch);
}

// Records of one form: made, then expanded one after another into memory, [threads][places,
// stride].
FormCosts measure_form(const Samples& samples, const MaskEncoder& encoder, uint64_t places,
                       const std::vector<Scratch<uint8_t>>& memory, const Bench& bench) {
  const RemovedReader reader(samples);
  const size_t count = encoder.form() == MaskForm::positions ? 64 : 4;
  Random random(2);
  std::vector<std::vector<uint32_t>> removed(count);
  std::vector<std::vector<std::byte>> records(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t sample = random.below(samples.size());
    reader.read(sample, removed[i]);
    encoder.append(sample, removed[i], records[i]);
  }
  std::vector<std::vector<std::byte>> made(size_t(bench.threads()));
  FormCosts form;
  form.make = bench.time([&](int thread, uint64_t call) {
    made[size_t(thread)].clear();
    encoder.append(0, removed[call % count], made[size_t(thread)]);
  });
  const size_t copies = kSourceBytes / std::max<size_t>(records[0].size(), 1);
  while (records.size() < copies) records.push_back(records[records.size() - count]);
  form.expand = bench.time([&](int thread, uint64_t call) {
    uint8_t* const out = memory[size_t(thread)].get() + call % places * encoder.layout().stride();
    expand_masks(encoder.layout(), encoder.form(), records[call % records.size()], out);
  });
  return form;
}

// ---- look-ups

constexpr uint32_t kEntries = 20'000;

// The values do not matter: only the tree is walked.
void write_entries(const fs::path& folder) {
  LmdbWriter data(folder);
  data.begin(kEntries, kEntries * mask_key(0).size());
  for (uint32_t i = 0; i < kEntries; ++i) {
    const std::string key = mask_key(i);
    data.append(key, std::as_bytes(std::span(key)));
  }
  data.commit();
}

double time_look_ups(const Bench& bench) {
  std::string name = (fs::temp_directory_path() / "lacuna-plan-XXXXXX").string();
  if (!::mkdtemp(name.data()))
    throw_errno(name, "cannot create a folder to measure in (TMPDIR says where)");
  const std::unique_ptr<const std::string, void (*)(const std::string*)> gone_at_the_end(
      &name, [](const std::string* folder) {
        std::error_code ignored;
        fs::remove_all(*folder, ignored);
      });
  write_entries(name);
  const LmdbEnvironment environment(name);
  std::vector<LmdbTransaction> views;
  for (int i = 0; i < bench.threads(); ++i) views.emplace_back(environment);
  constexpr uint32_t kTogether = 64;  // a single one is as short as reading the clock
  return bench.time([&](int thread, uint64_t call) {
    Random random(call, uint64_t(thread));
    for (uint32_t i = 0; i < kTogether; ++i) {
      LACUNA_ASSERT(views[size_t(thread)].get(mask_key(random.below(kEntries))));
    }
  }) / kTogether;
}

}  // namespace

StepCosts measure_costs(const Screen& screen, const RemovalRules& rules,
                        const MaskEncoder& positions, const CostSettings& settings) {
  const auto start = Clock::now();
  const ScreenSource source(screen.samples(), rules.gene_count());
  const MaskLayout& layout = positions.layout();
  const Bench bench(std::clamp(settings.threads, 1, available_threads()), settings.budget);
  const uint64_t a_sample = 2 * kBatchesAThread * uint64_t(bench.threads()) * layout.stride();
  const uint64_t room = settings.memory / a_sample;
  StepCosts costs;
  costs.threads = bench.threads();
  costs.batch = std::clamp<uint64_t>(std::min(settings.batch, kLargestBatch), 1, room + 1);
  costs.indices = time_indices(source, settings, LoaderSettings().prefetch);
  costs.handed = time_indices(source, settings, settings.prefetch);
  costs.look_up = time_look_ups(bench);
  measure_update(rules, layout, source, costs.batch, bench, costs);

  const uint64_t places = costs.batch * kBatchesAThread;
  std::vector<Scratch<uint8_t>> memory;
  for (int i = 0; i < bench.threads(); ++i) {
    memory.emplace_back(places * layout.stride());
    std::memset(memory.back().get(), 0, places * layout.stride());
  }
  const auto measure = [&](const MaskEncoder& encoder) {
    return measure_form(screen.samples(), encoder, places, memory, bench);
  };
  costs.u8 = measure(MaskEncoder(rules, MaskForm::u8));
  costs.bits = measure(MaskEncoder(rules, MaskForm::bits));
  costs.bf16 = measure(MaskEncoder(rules, MaskForm::bf16));
  costs.positions = measure(positions);
  costs.seconds = seconds_since(start);
  return costs;
}

Json to_json(const StepCosts& costs) {
  const auto form = [](const FormCosts& form) -> Json {
    return {{"expand_seconds", form.expand}, {"make_seconds", form.make}};
  };
  return {{"indices_seconds_per_batch", costs.indices},
          {"handed_seconds_per_batch", costs.handed},
          {"update_seconds_per_record", costs.update},
          {"first_seconds_per_record", costs.first},
          {"look_up_seconds_per_record", costs.look_up},
          {"u8", form(costs.u8)},
          {"bits", form(costs.bits)},
          {"bf16", form(costs.bf16)},
          {"positions", form(costs.positions)},
          {"batch", costs.batch},
          {"threads", costs.threads},
          {"seconds", costs.seconds}};
}

}  // namespace lacuna
