// Aggregation at yeast size: nine types, 2,495,908 edges, batch 28 of three removed genes, width
// 64. CPU is the time of all threads together. bench/aggregate_cpu.py sets these beside
// torch.sparse and PyG.
#include "lacuna/ops/aggregate/aggregate.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>

#include "lacuna/ops/testing.h"

namespace lacuna {
namespace {

constexpr int64_t kBatch = 28, kWidth = 64;

struct Setting {
  GraphPlan graph = testing::yeast_size_graph().plan();
  testing::RandomRemoved removed;
  int64_t elements = graph.node_count() * kBatch * kWidth;
  std::vector<float> values, eps;

  Setting() {
    Random random(2);
    for (int64_t b = 0; b < kBatch; ++b) {
      std::vector<int32_t> genes(3);
      for (int32_t& gene : genes) gene = int32_t(random.below(graph.node_count()));
      removed.add(genes);
    }
    values.assign(graph.edge_count(), 0.5f);
    eps.assign(graph.type_count(), 0.1f);
  }
  static const Setting& get() {
    static const Setting setting;
    return setting;
  }
};

// In pages as a user's tensors have them.
template <class Real>
class Numbers {
 public:
  explicit Numbers(int64_t count)
      : data_(static_cast<Real*>(
            std::aligned_alloc(64, (size_t(count) * sizeof(Real) + 63) / 64 * 64))) {}
  Real* get() const { return data_.get(); }
  Real& operator[](size_t i) const { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(Real* data) const { std::free(data); }
  };
  std::unique_ptr<Real[], Free> data_;
};

template <class Real>
Numbers<Real> numbers(int64_t count) {
  Numbers<Real> numbers(count);
  for (int64_t i = 0; i < count; ++i)
    numbers[size_t(i)] = testing::from_double<Real>(double(i % 1001) / 1001);
  return numbers;
}

template <class Real>
AggregateCall<Real> call_of(const benchmark::State& state, const Numbers<Real>& x) {
  return {.reduce = Reduce(state.range(0)),
          .keep = Setting::get().removed.view(),
          .width = kWidth,
          .x = x.get(),
          .threads = int(state.range(1))};
}

template <class Real>
void run_forward(benchmark::State& state, const AggregateCall<Real>& call) {
  const Setting& s = Setting::get();
  const auto out = numbers<Real>(s.elements * (call.sum_types ? 1 : 9));
  for (auto _ : state) aggregate(s.graph, call, out.get());
}
template <class Real>
void run_backward(benchmark::State& state, const AggregateCall<Real>& call, bool eps, bool values) {
  const Setting& s = Setting::get();
  const auto grad_out = numbers<Real>(s.elements * 9),
             grad_x = numbers<Real>(call.shared ? s.elements / kBatch : s.elements);
  std::vector<Parameter<Real>> grad_eps(9), grad_values(s.values.size());
  for (auto _ : state)
    aggregate_backward(s.graph, call,
                       {.out = grad_out.get(),
                        .x = grad_x.get(),
                        .eps = eps ? grad_eps.data() : nullptr,
                        .values = values ? grad_values.data() : nullptr});
}

template <class Real>
void BM_Forward(benchmark::State& state) {
  const auto x = numbers<Real>(Setting::get().elements);
  run_forward(state, call_of(state, x));
}

void BM_ForwardSummed(benchmark::State& state) {
  const auto x = numbers<float>(Setting::get().elements);
  auto call = call_of(state, x);
  call.sum_types = true;
  call.eps = Setting::get().eps.data();
  run_forward(state, call);
}

void BM_ForwardValues(benchmark::State& state) {
  const auto x = numbers<float>(Setting::get().elements);
  auto call = call_of(state, x);
  call.values = Setting::get().values.data();
  call.eps = Setting::get().eps.data();
  run_forward(state, call);
}

template <class Real>
void BM_Backward(benchmark::State& state) {
  const auto x = numbers<Real>(Setting::get().elements);
  run_backward(state, call_of(state, x), false, false);
}

void BM_BackwardEps(benchmark::State& state) {
  const auto x = numbers<float>(Setting::get().elements);
  auto call = call_of(state, x);
  call.eps = Setting::get().eps.data();
  run_backward(state, call, true, false);
}

void BM_BackwardValues(benchmark::State& state) {
  const auto x = numbers<float>(Setting::get().elements);
  auto call = call_of(state, x);
  call.values = Setting::get().values.data();
  run_backward(state, call, false, true);
}

void BM_MaskedForward(benchmark::State& state) {
  const Setting& s = Setting::get();
  const auto x = numbers<float>(s.elements);
  std::vector<uint64_t> offsets;
  for (uint32_t t = 0; t < 9; ++t) offsets.push_back(s.graph.first_edge(t));
  const std::vector<uint8_t> records(kBatch * s.graph.edge_count(), 1);
  auto call = call_of(state, x);
  call.keep = MaskView{records, s.graph.edge_count(), offsets};
  run_forward(state, call);
}

void BM_SharedForward(benchmark::State& state) {
  const auto x = numbers<float>(Setting::get().elements / kBatch);
  auto call = call_of(state, x);
  call.shared = true;
  call.eps = Setting::get().eps.data();
  run_forward(state, call);
}

void BM_SharedBackward(benchmark::State& state) {
  const auto x = numbers<float>(Setting::get().elements / kBatch);
  auto call = call_of(state, x);
  call.shared = true;
  call.eps = Setting::get().eps.data();
  run_backward(state, call, true, false);
}

constexpr int64_t kSum = int64_t(Reduce::sum), kMean = int64_t(Reduce::mean);
constexpr int64_t kGcn = int64_t(Reduce::gcn), kMax = int64_t(Reduce::max);
#define LACUNA_BENCH(name)              \
  BENCHMARK(name)                       \
      ->ArgNames({"reduce", "threads"}) \
      ->Unit(benchmark::kMillisecond)   \
      ->MeasureProcessCPUTime()         \
      ->UseRealTime()
LACUNA_BENCH(BM_Forward<float>)
    ->Args({kSum, 1})
    ->Args({kSum, 2})
    ->Args({kMean, 2})
    ->Args({kGcn, 2})
    ->Args({kMax, 2});
LACUNA_BENCH(BM_Forward<BFloat16>)->Args({kSum, 2});
LACUNA_BENCH(BM_ForwardSummed)->Args({kSum, 2});
LACUNA_BENCH(BM_ForwardValues)->Args({kSum, 2});
LACUNA_BENCH(BM_Backward<float>)
    ->Args({kSum, 1})
    ->Args({kSum, 2})
    ->Args({kMean, 2})
    ->Args({kGcn, 2})
    ->Args({kMax, 2});
LACUNA_BENCH(BM_Backward<BFloat16>)->Args({kSum, 2});
LACUNA_BENCH(BM_BackwardEps)->Args({kSum, 2});
LACUNA_BENCH(BM_BackwardValues)->Args({kSum, 2});
LACUNA_BENCH(BM_MaskedForward)->Args({kSum, 2});
LACUNA_BENCH(BM_SharedForward)->Args({kSum, 2});
LACUNA_BENCH(BM_SharedBackward)->Args({kSum, 2});

}  // namespace
}  // namespace lacuna
