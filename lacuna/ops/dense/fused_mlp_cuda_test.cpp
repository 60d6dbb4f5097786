// fused_mlp on a GPU against plain loops in double.
#include "lacuna/ops/dense/fused_mlp.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/ops/cuda/cuda_test_support.h"
#include "lacuna/ops/dense/testing.h"

namespace lacuna {
namespace {

using namespace testing;

constexpr double kEps = 1e-5;
// The parameters of all graphs, and as many numbers for their gradients.
struct Mlp {
  std::vector<float> weight[kMlpLinears], bias[kMlpLinears], norm_weight, norm_bias;

  Mlp(const FusedMlpShape& s, uint64_t seed) {
    Random random(seed, 7);
    const auto draw = [&](std::vector<float>& out, int64_t count, double mean, double spread) {
      out.resize(size_t(count));
      for (float& v : out) v = float(mean + spread * random.normal());
    };
    for (int l = 0; l < kMlpLinears; ++l) {
      draw(weight[l], s.graphs * s.width * s.width, 0, 1.2 / std::sqrt(double(s.width)));
      for (float& w : weight[l]) w = float(BFloat16(w));  // as the kernel rounds them
      draw(bias[l], s.graphs * s.width, 0, 0.1);
    }
    draw(norm_weight, s.graphs * s.width, 1, 0.1);
    draw(norm_bias, s.graphs * s.width, 0, 0.1);
  }
};
struct Gradients {
  std::vector<double> weight[kMlpLinears], bias[kMlpLinears], norm_weight, norm_bias;
};
struct Result {
  std::vector<double> y, grad_u;  // [G, rows, H] or, merged, y [rows, H]
  Gradients gradients;
};

// One row of graph g, forward and back; grad: of its y. Adds to the gradients of the parameters.
void plain_row(const Mlp& mlp, size_t g, size_t width, const double* u, const double* grad,
               double* y, double* grad_u, Gradients& to) {
  std::vector<std::vector<double>> a = {std::vector<double>(u, u + width)}, z;
  for (int l = 0; l < kMlpLinears; ++l) {
    const float* w = mlp.weight[l].data() + g * width * width;
    std::vector<double> out(width), next(width);
    for (size_t o = 0; o < width; ++o) {
      out[o] = double(mlp.bias[l][g * width + o]);
      for (size_t i = 0; i < width; ++i) out[o] += a.back()[i] * double(w[i * width + o]);
      next[o] = gelu_of(out[o]);
    }
    z.push_back(out);
    a.push_back(next);
  }
  double mean = 0, var = 0;
  for (const double v : z.back()) mean += v / double(width);
  for (const double v : z.back()) var += (v - mean) * (v - mean) / double(width);
  const double scale = 1 / std::sqrt(var + kEps);
  std::vector<double> unit(width), d(width);
  double sum = 0, product = 0;
  for (size_t i = 0; i < width; ++i) {
    const double weight = double(mlp.norm_weight[g * width + i]);
    unit[i] = (z.back()[i] - mean) * scale;
    const double t = unit[i] * weight + double(mlp.norm_bias[g * width + i]);
    y[i] = gelu_of(t);
    const double dt = grad[i] * gelu_slope_of(t);
    to.norm_weight[g * width + i] += dt * unit[i];
    to.norm_bias[g * width + i] += dt;
    d[i] = dt * weight;
    sum += d[i] / double(width);
    product += d[i] * unit[i] / double(width);
  }
  for (size_t i = 0; i < width; ++i) d[i] = scale * (d[i] - sum - unit[i] * product);
  for (int l = kMlpLinears - 1; l >= 0; --l) {
    const float* w = mlp.weight[l].data() + g * width * width;
    std::vector<double> back(width, 0);
    for (size_t i = 0; i < width; ++i)
      for (size_t o = 0; o < width; ++o) {
        to.weight[l][(g * width + i) * width + o] += a[size_t(l)][i] * d[o];
        back[i] += d[o] * double(w[i * width + o]);
      }
    for (size_t o = 0; o < width; ++o) to.bias[l][g * width + o] += d[o];
    if (l > 0)
      for (size_t i = 0; i < width; ++i) back[i] *= gelu_slope_of(z[size_t(l) - 1][i]);
    d = back;
  }
  std::copy(d.begin(), d.end(), grad_u);
}

struct Case {
  FusedMlpShape shape;
  std::vector<int32_t> used = {};  // rows of each graph; empty: all
};

struct Data {
  Case made_for;
  Mlp mlp;
  std::vector<BFloat16> u, grad_y;

  Data(const Case& c, uint64_t seed) : made_for(c), mlp(c.shape, seed) {
    Random random(seed, 8);
    const auto draw = [&](std::vector<BFloat16>& out, int64_t count) {
      out.resize(size_t(count));
      for (BFloat16& v : out) v = BFloat16(float(random.normal()));
    };
    const FusedMlpShape& s = c.shape;
    draw(u, s.graphs * s.rows * s.width);
    draw(grad_y, (s.merged ? 1 : s.graphs) * s.rows * s.width);
  }

  int64_t rows_of(int64_t g) const {
    return made_for.used.empty() ? made_for.shape.rows : int64_t(made_for.used[size_t(g)]);
  }

  Result plainly() const {
    const FusedMlpShape& s = made_for.shape;
    const auto width = size_t(s.width);
    Result r;
    r.y.assign(grad_y.size(), 0);
    r.grad_u.assign(u.size(), 0);
    for (int l = 0; l < kMlpLinears; ++l) {
      r.gradients.weight[l].assign(mlp.weight[l].size(), 0);
      r.gradients.bias[l].assign(mlp.bias[l].size(), 0);
    }
    r.gradients.norm_weight.assign(mlp.norm_weight.size(), 0);
    r.gradients.norm_bias.assign(mlp.norm_bias.size(), 0);
    std::vector<double> row(width), grad(width), y(width);
    for (int64_t g = 0; g < s.graphs; ++g)
      for (int64_t i = 0; i < rows_of(g); ++i) {
        const size_t at = size_t(g * s.rows + i) * width;
        const size_t out = s.merged ? size_t(i) * width : at;
        for (size_t k = 0; k < width; ++k) {
          row[k] = double(float(u[at + k]));
          grad[k] = double(float(grad_y[out + k])) * double(s.share);
        }
        plain_row(mlp, size_t(g), width, row.data(), grad.data(), y.data(), &r.grad_u[at],
                  r.gradients);
        for (size_t k = 0; k < width; ++k) r.y[out + k] += y[k] * double(s.share);
      }
    return r;
  }
};

// The same on the device; rows that are not in use come back as they were poisoned.
struct OnDevice {
  std::vector<BFloat16> y, grad_u;
  std::vector<std::vector<float>> gradients;  // 4 weights, 4 biases, the norm's two

  explicit OnDevice(const Data& data) {
    FusedMlpShape shape = data.made_for.shape;
    const DeviceArray<int32_t> used(data.made_for.used);
    if (!data.made_for.used.empty()) shape.used = used.data();
    const DeviceArray<BFloat16> u(data.u), grad_y(data.grad_y), out(data.grad_y.size()),
        grad_u_out(data.u.size());
    const DeviceArray<std::byte> packed(fused_mlp_packed_bytes(shape)),
        workspace(fused_mlp_backward_workspace(shape));
    std::vector<DeviceArray<float>> parameters, grads;
    for (const auto* group : {&data.mlp.weight, &data.mlp.bias})
      for (const auto& values : *group) parameters.emplace_back(values);
    parameters.emplace_back(data.mlp.norm_weight);
    parameters.emplace_back(data.mlp.norm_bias);
    for (const auto& p : parameters) grads.emplace_back(p.size());
    FusedMlpParameters<const float> from = {};
    FusedMlpParameters<float> to = {};
    for (size_t l = 0; l < kMlpLinears; ++l) {
      from.weight[l] = parameters[l].data(), from.bias[l] = parameters[kMlpLinears + l].data();
      to.weight[l] = grads[l].data(), to.bias[l] = grads[kMlpLinears + l].data();
    }
    from.norm_weight = parameters[8].data(), from.norm_bias = parameters[9].data();
    to.norm_weight = grads[8].data(), to.norm_bias = grads[9].data();
    fused_mlp_pack(shape, from, packed.data(), nullptr);
    fused_mlp(shape, packed.data(), u.data(), out.data(), nullptr);
    fused_mlp_backward(shape, packed.data(), u.data(), grad_y.data(), grad_u_out.data(), to,
                       workspace.data(), nullptr);
    y = out.host();
    grad_u = grad_u_out.host();
    for (const auto& g : grads) gradients.push_back(g.host());
  }
};

// A bf16 activation is off by up to 1 / 256; over four Linears that adds up to about 0.01.
constexpr double kMostOff = 0.025;

// Which kernels, and with how much shared memory: the device's own choice; those of compute
// capability 8.0 with all that the device has, with what 8.0 has, and with what 8.6 and 8.9 have.
struct Kind {
  const char* name;
  bool portable;
  int shared_limit;
};
class FusedMlpCuda : public ::testing::TestWithParam<Kind> {
 protected:
  static std::vector<int64_t> widths() {
    std::vector<int64_t> widths;
    for (const int64_t width : {16, 32, 48, 64, 96, 128, 256})
      if (fused_mlp_fits(width, GetParam().portable)) widths.push_back(width);
    return widths;
  }
  static Case of_kind(Case c) {
    c.shape.portable = GetParam().portable;
    c.shape.shared_limit = GetParam().shared_limit;
    return c;
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, FusedMlpCuda,
                         ::testing::Values(Kind{"default", false, 0}, Kind{"portable", true, 0},
                                           Kind{"portable_163", true, 163 * 1024},
                                           Kind{"portable_99", true, 99 * 1024}),
                         [](const auto& info) { return info.param.name; });

void expect_right(Data& data) {
  const Result wanted = data.plainly();
  OnDevice got(data);
  // Rows that are not in use must still be poison; then they count as 0 for the comparison.
  const FusedMlpShape& s = data.made_for.shape;
  for (int64_t g = 0; g < s.graphs && !data.made_for.used.empty(); ++g)
    for (int64_t i = data.rows_of(g) * s.width; i < s.rows * s.width; ++i) {
      const auto at = size_t(g * s.rows * s.width + i);
      EXPECT_EQ(got.y[at].bits, 0xffff);
      EXPECT_EQ(got.grad_u[at].bits, 0xffff);
      got.y[at] = got.grad_u[at] = BFloat16(0.0f);
    }
  EXPECT_LT(distance(got.y, wanted.y), kMostOff);
  EXPECT_LT(distance(got.grad_u, wanted.grad_u), kMostOff);
  for (size_t l = 0; l < kMlpLinears; ++l) {
    EXPECT_LT(distance(got.gradients[l], wanted.gradients.weight[l]), kMostOff) << "weight " << l;
    EXPECT_LT(distance(got.gradients[kMlpLinears + l], wanted.gradients.bias[l]), kMostOff)
        << "bias " << l;
  }
  EXPECT_LT(distance(got.gradients[8], wanted.gradients.norm_weight), kMostOff);
  EXPECT_LT(distance(got.gradients[9], wanted.gradients.norm_bias), kMostOff);
}

TEST_P(FusedMlpCuda, AgreesWithPlainLoops) {
  LACUNA_NEEDS_GPU();
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const int64_t width : widths())
    for (const Case& c :
         {Case{{1, 1, width, true}}, Case{{2, 64, width}}, Case{{3, 65, width, true, 1.0f / 3}},
          Case{{9, 130, width, true}}, Case{{5, 130, width}, {0, 1, 64, 65, 130}},
          Case{{2, 257, width}}, Case{{150, 17, width}}, Case{{150, 17, width, true}}}) {
      SCOPED_TRACE(::testing::Message() << "width " << width << ", graphs " << c.shape.graphs
                                        << ", rows " << c.shape.rows);
      Data data(of_kind(c), seed);
      expect_right(data);
    }
}

// Enough rows that every block has many tiles, which plain loops would take too long for.
TEST_P(FusedMlpCuda, RepeatedRowsMultiplyTheGradients) {
  LACUNA_NEEDS_GPU();
  constexpr int64_t kRows = 64, kTimes = 2500;
  for (const int64_t width : widths()) {
    SCOPED_TRACE(::testing::Message() << "width " << width);
    const uint64_t seed = test_seed();
    const Data once(of_kind({{1, kRows, width}}), seed);
    Data often(of_kind({{1, kRows * kTimes, width}}), seed);
    for (size_t i = 0; i < often.u.size(); ++i) {
      often.u[i] = once.u[i % once.u.size()];
      often.grad_y[i] = once.grad_y[i % once.u.size()];
    }
    const OnDevice one(once), many(often);
    for (size_t k = 0; k < one.gradients.size(); ++k) {
      std::vector<double> wanted;
      for (const float v : one.gradients[k]) wanted.push_back(double(v) * double(kTimes));
      EXPECT_LT(distance(many.gradients[k], wanted), 1e-4) << k;
    }
    for (size_t i = 0; i < often.u.size(); ++i) {
      ASSERT_EQ(many.y[i].bits, one.y[i % once.u.size()].bits) << i;
      ASSERT_EQ(many.grad_u[i].bits, one.grad_u[i % once.u.size()].bits) << i;
    }
  }
}

TEST_P(FusedMlpCuda, GivesTheSameBitsEveryTime) {
  LACUNA_NEEDS_GPU();
  for (const int64_t width : widths()) {
    const Data data(of_kind({{9, 5000, width, true}}), test_seed());
    const OnDevice first(data), second(data);
    EXPECT_EQ(first.gradients, second.gradients);
    for (size_t i = 0; i < first.grad_u.size(); ++i)
      ASSERT_EQ(first.grad_u[i].bits, second.grad_u[i].bits);
  }
}

TEST_P(FusedMlpCuda, KeepsANanInItsRowAndTakesLargeAndTinyValues) {
  LACUNA_NEEDS_GPU();
  for (const int64_t width : widths()) {
    Data data(of_kind({{2, 70, width}}), test_seed());
    const auto row = size_t(width);
    data.u[5 * row + 3] = BFloat16(NAN);
    data.u[6 * row + 3] = BFloat16(INFINITY);
    for (size_t i = 0; i < row; ++i) {
      data.u[7 * row + i] = BFloat16(7e4f);
      data.u[8 * row + i] = BFloat16(1e30f);
      data.u[9 * row + i] = BFloat16(1e-30f);
    }
    const OnDevice got(data);
    for (size_t r = 0; r < 140; ++r)
      for (size_t i = 0; i < row; ++i)
        EXPECT_EQ(std::isnan(float(got.y[r * row + i])), r == 5 || r == 6) << r << " " << i;
    EXPECT_TRUE(std::isnan(got.gradients[0][0]));  // of the first graph: found, not hidden
    EXPECT_FALSE(std::isnan(got.gradients[0][row * row]));
  }
}

}  // namespace
}  // namespace lacuna
