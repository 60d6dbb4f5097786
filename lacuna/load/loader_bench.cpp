// A sample through the loader, and the steps it is made of. Samples are triples out of 6,607 genes;
// the last two arguments are the number of samples and the batch.
//   Order            which samples are in a batch
//   ShuffledVector   the same from a list in memory, shuffled anew each epoch
//   Fill             those samples into a batch
//   Load             both, with 0, 1 or 2 threads (wall-clock time)
#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "lacuna/load/loader.h"
#include "lacuna/screen/screen_batch.h"

namespace lacuna {
namespace {

constexpr uint32_t kGenes = 6607;

Samples triples(uint64_t count) {
  Random random(1);
  std::vector<uint16_t> removed(3 * count);
  std::vector<uint32_t> ptr(count + 1);
  std::vector<float> labels(count);
  for (uint16_t& gene : removed) gene = uint16_t(random.below(kGenes));
  for (uint64_t s = 0; s <= count; ++s) ptr[s] = uint32_t(3 * s);
  for (float& label : labels) label = float(random.normal());
  Samples samples;
  samples.removed = Array::from(std::move(removed));
  samples.ptr = Array::from(std::move(ptr));
  samples.labels = Array::from(std::move(labels));
  samples.label_names = {"label"};
  return samples;
}

void BM_Order(benchmark::State& state) {
  const Order order(state.range(0), {.global_batch = uint64_t(state.range(1)), .seed = 1});
  std::vector<uint64_t> samples;
  uint64_t position = 0;
  for (auto _ : state) {
    order.batch(0, position, samples);
    benchmark::DoNotOptimize(samples.data());
    position = (position + 1) % order.batches();
  }
  state.SetItemsProcessed(state.iterations() * state.range(1));
}
BENCHMARK(BM_Order)->Args({332313, 28})->Args({20000000, 28})->Args({20000000, 256});

void BM_ShuffledVector(benchmark::State& state) {
  const uint64_t count = state.range(0), batch = state.range(1);
  std::vector<uint64_t> list(count), samples;
  std::iota(list.begin(), list.end(), 0);
  std::mt19937_64 random(1);
  uint64_t at = count;
  for (auto _ : state) {
    if (at + batch > count) {
      std::shuffle(list.begin(), list.end(), random);
      at = 0;
    }
    samples.assign(list.begin() + at, list.begin() + at + batch);
    benchmark::DoNotOptimize(samples.data());
    at += batch;
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(BM_ShuffledVector)->Args({332313, 28})->Args({20000000, 28});

void BM_Fill(benchmark::State& state) {
  const ScreenSource source(triples(state.range(0)), kGenes);
  const uint64_t batch = state.range(1);
  std::vector<uint64_t> places(1 << 20);
  Random random(2);
  for (uint64_t& place : places) place = random.below(source.size());
  ScreenBatch out;
  uint64_t at = 0;
  for (auto _ : state) {
    source.fill(std::span(places).subspan(at, batch), out);
    benchmark::DoNotOptimize(out.removed().data());
    at = at + 2 * batch > places.size() ? 0 : at + batch;
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(BM_Fill)->Args({332313, 28})->Args({20000000, 28})->Args({20000000, 256});

void BM_Load(benchmark::State& state) {
  Loader loader(ScreenSource(triples(state.range(1)), kGenes),
                {{.global_batch = uint64_t(state.range(2)), .seed = 1}, int(state.range(0))});
  uint64_t samples = 0;
  for (auto _ : state) {
    const auto batch = loader.next();
    if (batch) samples += batch->size();
  }
  state.SetItemsProcessed(samples);
}
BENCHMARK(BM_Load)
    ->ArgsProduct({{0, 1, 2}, {332313, 20000000}, {28, 256}})
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace lacuna
