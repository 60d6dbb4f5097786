// What it costs that a record of a disk rung is read against its checksum the first time. An epoch
// makes u8 records of all samples in memory, as the loader does for a training step: `first` with
// a store that was just opened, `later` with one whose records were all read before. Both find the
// store in the system's file cache, where the check weighs most.
//
// A screen at yeast size and its stores are made in the directory for temporary files (TMPDIR),
// about 400 MB, and removed at the end.
#include "lacuna/masks/mask_store.h"

#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/masks/prepare_masks.h"

namespace lacuna {
namespace {

constexpr uint64_t kSamples = 128;

Screen make_screen(const fs::path& path) {
  const HeteroGraph graph = generate_graph(GraphSize::yeast, 1);
  SampleBuilder builder(graph.genes().size(), {"label"});
  Random random(1);
  for (uint64_t s = 0; s < kSamples; ++s) {
    uint32_t genes[3];
    for (uint32_t& gene : genes) gene = uint32_t(random.below(graph.genes().size()));
    const float label = float(random.uniform());
    builder.add(genes, {&label, 1});
  }
  return write_screen(path, {graph, builder.finish(), {}, {}});
}

class Stores {
 public:
  Stores() {
    std::string name = (fs::temp_directory_path() / "lacuna-bench-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw_errno(name, "cannot create");
    directory_ = name;
    screen_.emplace(make_screen(directory_ / "screen"));
  }
  ~Stores() { fs::remove_all(directory_); }

  MaskStore open(MaskForm form) {
    const fs::path path = directory_ / disk_rung(form);
    if (!fs::exists(path)) prepare_masks(*screen_, form, path, {});
    return MaskStore::open(path, *screen_);
  }

 private:
  fs::path directory_;
  std::optional<Screen> screen_;
};

void read_all(const MaskStore& store, std::vector<uint8_t>& record) {
  for (uint64_t s = store.begin(); s < store.end(); ++s) {
    expand_masks(store.layout(), store.form(), store.record(s), record.data());
    benchmark::DoNotOptimize(record.data());
  }
}

template <bool is_first>
void epoch(benchmark::State& state) {
  static Stores stores;
  const MaskForm form = MaskForm(state.range(0));
  MaskStore store = stores.open(form);
  std::vector<uint8_t> record(store.layout().stride());
  read_all(store, record);
  for (auto _ : state) {
    if (is_first) {
      state.PauseTiming();
      store = stores.open(form);
      state.ResumeTiming();
    }
    read_all(store, record);
  }
  state.SetLabel(disk_rung(form));
}

void forms(benchmark::internal::Benchmark* benchmark) {
  for (const MaskForm form : {MaskForm::u8, MaskForm::bits, MaskForm::positions})
    benchmark->Arg(int64_t(form));
  benchmark->Unit(benchmark::kMillisecond);
}
void epoch_first(benchmark::State& state) { epoch<true>(state); }
void epoch_later(benchmark::State& state) { epoch<false>(state); }

BENCHMARK(epoch_first)->Apply(forms);
BENCHMARK(epoch_later)->Apply(forms);

}  // namespace
}  // namespace lacuna
