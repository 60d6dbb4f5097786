// Mask records of a batch of 28 at yeast size, three removed genes a sample, on one core.
#include "lacuna/ops/masks/masks.h"

#include <benchmark/benchmark.h>

#include "lacuna/graph/generate_graph.h"
#include "lacuna/ops/testing.h"

namespace lacuna {
namespace {

constexpr int64_t kBatch = 28;

struct Setting {
  HeteroGraph graph = generate_graph(GraphSize::yeast, 1);
  RemovalRules rules = RemovalRules(graph);
  MaskLayout layout = MaskLayout(rules, MaskForm::u8);
  MaskTable table = MaskTable(rules, layout);
  std::vector<testing::RandomRemoved> batches;

  Setting() {
    Random random(2);
    batches.resize(64);
    for (auto& removed : batches)
      for (int64_t b = 0; b < kBatch; ++b) {
        std::vector<int32_t> genes(3);
        for (int32_t& gene : genes) gene = int32_t(random.below(graph.genes().size()));
        removed.add(genes);
      }
  }
  static const Setting& get() {
    static const Setting setting;
    return setting;
  }
};

void BM_Rewrite(benchmark::State& state) {
  const Setting& s = Setting::get();
  std::vector<uint8_t> memory(uint64_t(kBatch) * s.layout.stride() +
                              63);  // pages as a tensor has them
  uint8_t* records = memory.data() + (64 - uintptr_t(memory.data()) % 64) % 64;
  size_t i = 0;
  for (auto _ : state)
    write_masks(s.layout, s.table, s.batches[i++ % s.batches.size()].view(), records, 1);
  state.counters["record_bytes"] = double(s.layout.stride());
  state.counters["table_MB"] = double((s.table.ptr.size() + s.table.place.size()) * 4) / 1e6;
}
BENCHMARK(BM_Rewrite)->Unit(benchmark::kMillisecond);

void BM_Arena(benchmark::State& state) {
  const Setting& s = Setting::get();
  MaskArena arena(s.layout, s.table, kBatch);
  size_t i = 0;
  for (auto _ : state) arena.update(s.batches[i++ % s.batches.size()].view());
}
BENCHMARK(BM_Arena)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lacuna
