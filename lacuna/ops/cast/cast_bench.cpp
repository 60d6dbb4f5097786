// u8 to f32 and bf16, beside a plain loop as a compiler makes it for any x86-64.
#include "lacuna/ops/cast/cast.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace lacuna {
namespace {

constexpr int64_t kCount = 1 << 22;

template <class Real>
void BM_Cast(benchmark::State& state) {
  const std::vector<uint8_t> x(kCount, 100);
  std::vector<Real> out(kCount);
  for (auto _ : state) {
    cast<Real>(x.data(), kCount, 1.0f / 255, -0.5f, out.data(), 1);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kCount);
}
BENCHMARK(BM_Cast<float>);
BENCHMARK(BM_Cast<BFloat16>);

template <class Real>
void BM_PlainLoop(benchmark::State& state) {
  const std::vector<uint8_t> x(kCount, 100);
  std::vector<Real> out(kCount);
  for (auto _ : state) {
    for (int64_t i = 0; i < kCount; ++i)
      out[size_t(i)] = Real(float(x[size_t(i)]) * (1.0f / 255) - 0.5f);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kCount);
}
BENCHMARK(BM_PlainLoop<float>);
BENCHMARK(BM_PlainLoop<BFloat16>);

}  // namespace
}  // namespace lacuna
