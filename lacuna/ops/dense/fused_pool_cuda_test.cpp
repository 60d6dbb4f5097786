// fused_pool on a GPU against plain loops in double.
#include "lacuna/ops/dense/fused_pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/ops/cuda/cuda_test_support.h"
#include "lacuna/ops/dense/testing.h"

namespace lacuna {
namespace {

using namespace testing;

constexpr size_t kH = 64, kHalf = 32;

// In the order of FusedPoolParameters.
using Parameters = std::vector<std::vector<float>>;

struct PoolData {
  FusedPoolShape shape;
  std::vector<BFloat16> x;
  std::vector<uint8_t> keep;
  Parameters parameters;
  std::vector<float> grad;

  PoolData(int64_t nodes, int64_t batch, double removed, uint64_t seed)
      : shape{nodes, batch, int64_t(kH)} {
    Random random(seed, 3);
    for (int64_t i = 0; i < nodes * batch * int64_t(kH); ++i)
      x.push_back(BFloat16(float(random.normal())));
    for (int64_t i = 0; i < nodes * batch; ++i) keep.push_back(random.uniform() >= removed);
    const auto draw = [&](size_t count, double spread, bool rounded) {
      std::vector<float> values(count);
      for (float& v : values) {
        v = float(spread * random.normal());
        if (rounded) v = float(BFloat16(v));  // as the kernel rounds them
      }
      parameters.push_back(values);
    };
    draw(kH * kHalf, 0.2, true);
    draw(kHalf, 0.1, false);
    draw(kHalf, 0.7, false);
    draw(1, 0.5, false);
    draw(kH * kH, 0.15, true);
    draw(kH, 0.1, false);
    for (int64_t i = 0; i < batch * int64_t(kH); ++i) grad.push_back(float(random.normal()));
  }
};

struct PoolResult {
  std::vector<double> pooled, grad_x;
  std::vector<std::vector<double>> gradients;
};

// x [64] times a weight [64, out], plus bias.
std::vector<double> linear(const BFloat16* x, const std::vector<float>& weight,
                           const std::vector<float>& bias) {
  std::vector<double> z(bias.begin(), bias.end());
  for (size_t i = 0; i < kH; ++i)
    for (size_t o = 0; o < z.size(); ++o)
      z[o] += double(float(x[i])) * double(weight[i * z.size() + o]);
  return z;
}

PoolResult plain_pool(const PoolData& data) {
  const auto nodes = size_t(data.shape.nodes), batch = size_t(data.shape.batch);
  const Parameters& p = data.parameters;
  PoolResult r;
  r.pooled.assign(batch * kH, 0);
  r.grad_x.assign(data.x.size(), 0);
  for (const auto& parameter : p) r.gradients.emplace_back(parameter.size(), 0.0);
  for (size_t b = 0; b < batch; ++b) {
    std::vector<double> logit(nodes, 0);
    double sum = 0;
    for (size_t n = 0; n < nodes; ++n) {
      if (!data.keep[n * batch + b]) continue;
      const auto z = linear(&data.x[(n * batch + b) * kH], p[0], p[1]);
      logit[n] = double(p[3][0]);
      for (size_t o = 0; o < kHalf; ++o) logit[n] += gelu_of(z[o]) * double(p[2][o]);
      sum += std::exp(logit[n]);
    }
    for (size_t n = 0; n < nodes; ++n) {
      if (!data.keep[n * batch + b]) continue;
      const auto z = linear(&data.x[(n * batch + b) * kH], p[4], p[5]);
      for (size_t h = 0; h < kH; ++h)
        r.pooled[b * kH + h] += std::exp(logit[n]) / sum * gelu_of(z[h]);
    }
    for (size_t n = 0; n < nodes; ++n) {
      if (!data.keep[n * batch + b]) continue;
      const size_t at = (n * batch + b) * kH;
      const double weight = std::exp(logit[n]) / sum;
      const auto value = linear(&data.x[at], p[4], p[5]), gate = linear(&data.x[at], p[0], p[1]);
      double of_logit = 0;
      std::vector<double> dz_value(kH), dz_gate(kHalf);
      for (size_t h = 0; h < kH; ++h) {
        const double g = double(data.grad[b * kH + h]);
        of_logit += weight * g * (gelu_of(value[h]) - r.pooled[b * kH + h]);
        dz_value[h] = weight * g * gelu_slope_of(value[h]);
        r.gradients[5][h] += dz_value[h];
      }
      r.gradients[3][0] += of_logit;
      for (size_t o = 0; o < kHalf; ++o) {
        r.gradients[2][o] += of_logit * gelu_of(gate[o]);
        dz_gate[o] = of_logit * double(p[2][o]) * gelu_slope_of(gate[o]);
        r.gradients[1][o] += dz_gate[o];
      }
      for (size_t i = 0; i < kH; ++i) {
        const double x = double(float(data.x[at + i]));
        for (size_t o = 0; o < kHalf; ++o) {
          r.gradients[0][i * kHalf + o] += x * dz_gate[o];
          r.grad_x[at + i] += dz_gate[o] * double(p[0][i * kHalf + o]);
        }
        for (size_t h = 0; h < kH; ++h) {
          r.gradients[4][i * kH + h] += x * dz_value[h];
          r.grad_x[at + i] += dz_value[h] * double(p[4][i * kH + h]);
        }
      }
    }
  }
  return r;
}

struct PoolOnDevice {
  std::vector<float> pooled;
  std::vector<BFloat16> grad_x;
  std::vector<std::vector<float>> gradients;

  explicit PoolOnDevice(const PoolData& data) {
    const FusedPoolShape& s = data.shape;
    const DeviceArray<BFloat16> x(data.x), out(data.x.size());
    const DeviceArray<uint8_t> keep(data.keep);
    const DeviceArray<float> grad(data.grad), result(data.grad.size()),
        logits(size_t(s.batch * s.nodes)), lse(static_cast<size_t>(s.batch));
    const DeviceArray<std::byte> packed(fused_pool_packed_bytes()),
        workspace(fused_pool_workspace(s));
    std::vector<DeviceArray<float>> from, to;
    for (const auto& parameter : data.parameters) {
      from.emplace_back(parameter);
      to.emplace_back(parameter.size());
    }
    const auto pointers = [](const std::vector<DeviceArray<float>>& arrays) {
      return FusedPoolParameters<float>{arrays[0].data(), arrays[1].data(), arrays[2].data(),
                                        arrays[3].data(), arrays[4].data(), arrays[5].data()};
    };
    const FusedPoolParameters<float> all = pointers(from);
    fused_pool_pack({all.gate_hidden_weight, all.gate_hidden_bias, all.gate_weight, all.gate_bias,
                     all.value_weight, all.value_bias},
                    packed.data(), nullptr);
    fused_pool(s, packed.data(), x.data(), keep.data(), result.data(), logits.data(), lse.data(),
               workspace.data(), nullptr);
    fused_pool_backward(s, packed.data(), x.data(), keep.data(), result.data(), logits.data(),
                        lse.data(), grad.data(), out.data(), pointers(to), workspace.data(),
                        nullptr);
    pooled = result.host();
    grad_x = out.host();
    for (const auto& g : to) gradients.push_back(g.host());
  }
};

bool no_fused_pool() { return !fused_pool_fits(int64_t(kH)); }

TEST(FusedPoolCuda, AgreesWithPlainLoops) {
  LACUNA_NEEDS_GPU();
  if (no_fused_pool()) GTEST_SKIP() << "this GPU has no fused pool";
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  struct Case {
    int64_t nodes, batch;
    double removed;
  };
  for (const Case& c : {Case{1, 1, 0}, Case{64, 2, 0.1}, Case{65, 3, 0.5}, Case{300, 29, 0.01},
                        Case{130, 4, 1.0}}) {
    SCOPED_TRACE(::testing::Message() << c.nodes << " genes, " << c.batch << " samples");
    const PoolData data(c.nodes, c.batch, c.removed, seed);
    const PoolResult wanted = plain_pool(data);
    const PoolOnDevice got(data), again(data);
    EXPECT_LT(distance(got.pooled, wanted.pooled), 1e-5);  // f32 all the way
    EXPECT_LT(distance(got.grad_x, wanted.grad_x), 0.02);
    for (const size_t i : {0, 1, 2, 4, 5})
      EXPECT_LT(distance(got.gradients[i], wanted.gradients[i]), 0.02) << i;
    // The softmax does not see its bias: the sum is 0 but for rounding.
    EXPECT_NEAR(double(got.gradients[3][0]), 0, 1e-4 * double(c.batch));
    EXPECT_EQ(got.gradients, again.gradients);
    EXPECT_EQ(got.pooled, again.pooled);
  }
}

TEST(FusedPoolCuda, ARemovedGeneHasNoSayAndANanIsSeen) {
  LACUNA_NEEDS_GPU();
  if (no_fused_pool()) GTEST_SKIP() << "this GPU has no fused pool";
  PoolData data(100, 2, 0, test_seed());
  for (size_t i = 0; i < kH; ++i) data.x[(7 * 2 + 0) * kH + i] = BFloat16(INFINITY);
  data.keep[7 * 2 + 0] = 0;
  data.x[(8 * 2 + 1) * kH] = BFloat16(NAN);
  const PoolOnDevice got(data);
  for (size_t h = 0; h < kH; ++h) {
    EXPECT_TRUE(std::isfinite(got.pooled[h])) << h;
    EXPECT_TRUE(std::isnan(got.pooled[kH + h])) << h;
    EXPECT_EQ(float(got.grad_x[(7 * 2 + 0) * kH + h]), 0);
  }
}

}  // namespace
}  // namespace lacuna
