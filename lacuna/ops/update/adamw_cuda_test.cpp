// AdamW on a GPU against a plain loop in double.
#include "lacuna/ops/update/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/testing.h"
#include "lacuna/ops/closeness.h"
#include "lacuna/ops/cuda/cuda_test_support.h"

namespace lacuna {
namespace {

using namespace testing;

constexpr size_t kArrays = 4;  // parameter, gradient, average, average of squares

// Parameters of all sizes, one behind the other in one array of each kind.
struct Update {
  std::vector<int64_t> sizes;
  AdamwRule rule;
  std::vector<DeviceArray<float>> arrays;
  std::vector<AdamwPart> table;
  DeviceArray<AdamwPart> on_device;
  DeviceArray<float> lr, norm;
  DeviceArray<int64_t> step;
  DeviceArray<double> sums;

  Update(uint64_t seed, std::vector<int64_t> sizes_, const AdamwRule& rule_)
      : sizes(std::move(sizes_)),
        rule(rule_),
        arrays(make_arrays(seed)),
        table(make_table()),
        on_device(table),
        lr(std::vector<float>{0.01f}),
        norm(1),
        step(std::vector<int64_t>{0}),
        sums(table.size()) {}

  int64_t count() const {
    int64_t sum = 0;
    for (const int64_t size : sizes) sum += size;
    return sum;
  }
  std::vector<DeviceArray<float>> make_arrays(uint64_t seed) const {
    std::vector<DeviceArray<float>> result;
    for (size_t i = 0; i < kArrays; ++i)
      result.emplace_back(i < 2 ? random_numbers<float>(seed, i, count())
                                : std::vector<float>(size_t(count()), 0));
    return result;
  }
  std::vector<AdamwPart> make_table() const {
    std::vector<AdamwPart> parts;
    int64_t begin = 0;
    for (const int64_t size : sizes) {
      for (int64_t first = 0; first < size; first += kAdamwPart) {
        const int64_t at = begin + first;
        parts.push_back({arrays[0].data() + at, arrays[1].data() + at, arrays[2].data() + at,
                         arrays[3].data() + at,
                         int32_t(std::min<int64_t>(kAdamwPart, size - first))});
      }
      begin += size;
    }
    return parts;
  }
  void set_gradient(const std::vector<float>& values) const {
    EXPECT_EQ(cudaMemcpy(arrays[1].data(), values.data(), values.size() * sizeof(float),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  AdamwCall call() const {
    return {rule,        int64_t(table.size()), on_device.data(), lr.data(),
            step.data(), sums.data(),           norm.data()};
  }
};

const std::vector<int64_t> kSizes = {1, 2047, 2048, 2049, 0, 700, 3 * 2048 + 5, 64};

void expect_near(const std::vector<float>& got, const std::vector<double>& wanted, double bound) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], bound * (1 + std::abs(wanted[i]))) << i;
}

TEST(AdamwCuda, IsThatOfAPlainLoop) {
  LACUNA_NEEDS_GPU();
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const double clip : {0.0, 0.5, 1e6}) {
    SCOPED_TRACE(clip);
    const Update update(seed, kSizes, {.weight_decay = 0.1, .clip = clip});
    std::vector<double> w = to_doubles(update.arrays[0].host()), m(w.size(), 0), v(w.size(), 0);
    for (int step = 1; step <= 12; ++step) {
      const auto g = random_numbers<float>(seed, 100 + uint64_t(step), update.count());
      update.set_gradient(g);
      adamw_cuda(update.call(), nullptr);
      double squares = 0;
      for (const float number : g) squares += double(number) * double(number);
      const double norm = std::sqrt(squares), lr = double(0.01f);
      const double factor = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1;
      for (size_t i = 0; i < w.size(); ++i) {
        const double gradient = double(g[i]) * factor;
        m[i] = 0.9 * m[i] + 0.1 * gradient;
        v[i] = 0.999 * v[i] + 0.001 * gradient * gradient;
        const double m_hat = m[i] / (1 - std::pow(0.9, step));
        const double v_hat = v[i] / (1 - std::pow(0.999, step));
        w[i] = w[i] * (1 - lr * 0.1) - lr * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
      EXPECT_NEAR(update.norm.host()[0], norm, 1e-6 * norm);
    }
    EXPECT_EQ(update.step.host()[0], 12);
    expect_near(update.arrays[0].host(), w, 1e-4);
    expect_near(update.arrays[2].host(), m, 1e-5);
    expect_near(update.arrays[3].host(), v, 1e-5);
    for (const float number : update.arrays[1].host()) ASSERT_EQ(number, 0);
  }
}

TEST(AdamwCuda, HasTheSameBitsInEveryRunAndRecorded) {
  LACUNA_NEEDS_GPU();
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  const AdamwRule rule = {.weight_decay = 0.01, .clip = 1};
  const Update first(seed, kSizes, rule), second(seed, kSizes, rule), recorded(seed, kSizes, rule);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  adamw_cuda(recorded.call(), stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
  for (uint64_t step = 0; step < 5; ++step) {
    const auto g = random_numbers<float>(seed, 100 + step, first.count());
    for (const Update* update : {&first, &second, &recorded}) update->set_gradient(g);
    adamw_cuda(first.call(), nullptr);
    adamw_cuda(second.call(), nullptr);
    ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  for (const size_t i : {0, 2, 3}) {
    EXPECT_TRUE(same_bits(first.arrays[i].host(), second.arrays[i].host()));
    EXPECT_TRUE(same_bits(first.arrays[i].host(), recorded.arrays[i].host()));
  }
  EXPECT_EQ(first.norm.host(), recorded.norm.host());
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

// A gradient that is no number reaches every parameter where the norm is clipped, so that it is
// noticed, as without this kernel.
TEST(AdamwCuda, ABadGradientIsNotHidden) {
  LACUNA_NEEDS_GPU();
  for (const float bad : {NAN, INFINITY}) {
    const Update update(1, {10, 3000}, {.clip = 1});
    auto g = random_numbers<float>(1, 5, update.count());
    g[7] = bad;
    update.set_gradient(g);
    adamw_cuda(update.call(), nullptr);
    EXPECT_FALSE(std::isfinite(update.norm.host()[0]));
    EXPECT_TRUE(std::isnan(update.arrays[0].host()[7]));
  }
}

}  // namespace
}  // namespace lacuna
