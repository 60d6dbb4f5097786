// fused_attention on a GPU against plain loops in double.
#include "lacuna/ops/dense/fused_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/ops/cuda/cuda_test_support.h"
#include "lacuna/ops/dense/testing.h"

namespace lacuna {
namespace {

using namespace testing;

constexpr size_t kHeads = 4;
// In the order in which lists of parameters have them here.
enum { kPosition, kQuery, kKey, kValue, kQueryBias, kKeyBias, kValueBias, kCount };
const char* const kNames[kCount] = {"position",   "query weight", "key weight", "value weight",
                                    "query bias", "key bias",     "value bias"};

template <class Real, class Arrays>
FusedAttentionParameters<Real> parameters_of(const Arrays& a) {
  return {a[kPosition].data(),
          {a[kQuery].data(), a[kKey].data(), a[kValue].data()},
          {a[kQueryBias].data(), a[kKeyBias].data(), a[kValueBias].data()}};
}

using Matrix = std::vector<std::vector<double>>;
struct Result {
  std::vector<double> z, grad_y;
  Matrix gradients = Matrix(kCount);
};
double exactly(double v) { return v; }
double as_bf16(double v) { return double(float(BFloat16(float(v)))); }

struct Case {
  int64_t graphs, rows, width, used = -1;  // -1: all
  int shared_limit = 0;

  size_t rows_used() const { return size_t(used < 0 ? rows : used); }
};

struct Data {
  Case made_for;
  std::vector<std::vector<float>> parameters{kCount};
  std::vector<BFloat16> y, grad_z;

  Data(const Case& c, uint64_t seed) : made_for(c) {
    Random random(seed, 11);
    const auto draw = [&](int which, int64_t count, double spread) {
      for (int64_t i = 0; i < count; ++i)
        parameters[size_t(which)].push_back(float(spread * random.normal()));
    };
    draw(kPosition, c.graphs * c.width, 0.3);
    for (const int linear : {kQuery, kKey, kValue}) {
      draw(linear, c.width * c.width, 1.2 / std::sqrt(double(c.width)));
      for (float& w : parameters[size_t(linear)]) w = float(BFloat16(w));  // as they are rounded
      draw(linear + kQueryBias - kQuery, c.width, 0.1);
    }
    for (int64_t i = 0; i < c.graphs * c.rows * c.width; ++i)
      y.push_back(BFloat16(float(gelu_of(random.normal()))));
    for (int64_t i = 0; i < c.rows * c.width; ++i)
      grad_z.push_back(BFloat16(float(random.normal())));
    // What is not in use must not matter.
    const auto width = size_t(c.width);
    for (size_t g = 0; g < size_t(c.graphs); ++g)
      for (size_t i = c.rows_used() * width; i < size_t(c.rows) * width; ++i)
        y[g * size_t(c.rows) * width + i] = grad_z[i] = BFloat16(NAN);
  }

  // x [G][in] W + b
  Matrix linear(const Matrix& x, int which, double (*round)(double)) const {
    const auto width = size_t(made_for.width);
    const auto &w = parameters[size_t(which)], &b = parameters[size_t(which + kQueryBias - kQuery)];
    Matrix out(x.size(), std::vector<double>(width));
    for (size_t g = 0; g < x.size(); ++g)
      for (size_t o = 0; o < width; ++o) {
        double sum = round(double(b[o]));
        for (size_t i = 0; i < width; ++i) sum += x[g][i] * double(w[i * width + o]);
        out[g][o] = round(sum);
      }
    return out;
  }

  // round: of everything that plain PyTorch would write to memory.
  void row(size_t r, double (*round)(double), Result& to) const {
    const auto graphs = size_t(made_for.graphs), width = size_t(made_for.width),
               rows = size_t(made_for.rows), of_head = width / kHeads;
    const double scale = 1 / std::sqrt(double(of_head));
    Matrix t(graphs, std::vector<double>(width));
    for (size_t g = 0; g < graphs; ++g)
      for (size_t i = 0; i < width; ++i)
        t[g][i] = round(double(float(y[(g * rows + r) * width + i])) +
                        round(double(parameters[kPosition][g * width + i])));
    const Matrix q = linear(t, kQuery, round), k = linear(t, kKey, round),
                 v = linear(t, kValue, round);
    Matrix grads[3] = {Matrix(graphs, std::vector<double>(width)),
                       Matrix(graphs, std::vector<double>(width)),
                       Matrix(graphs, std::vector<double>(width))};
    for (size_t h = 0; h < kHeads; ++h) {
      const size_t first = h * of_head;
      const auto dot = [&](const std::vector<double>& a, const std::vector<double>& b) {
        double sum = 0;
        for (size_t c = first; c < first + of_head; ++c) sum += a[c] * b[c];
        return sum;
      };
      Matrix a(graphs, std::vector<double>(graphs)), ds = a;
      for (size_t i = 0; i < graphs; ++i) {
        double most = -INFINITY, sum = 0;
        for (size_t j = 0; j < graphs; ++j) {
          a[i][j] = round(round(dot(q[i], k[j])) * scale);
          most = std::max(most, a[i][j]);
        }
        for (double& s : a[i]) sum += s = std::exp(s - most);
        for (double& s : a[i]) s = round(s / sum);
      }
      std::vector<double> grad(width);  // of what every token has seen
      for (size_t c = first; c < first + of_head; ++c) {
        double mean = 0;
        for (size_t i = 0; i < graphs; ++i) {
          double seen = 0;
          for (size_t j = 0; j < graphs; ++j) seen += a[i][j] * v[j][c];
          mean += round(seen) / double(graphs);
        }
        to.z[r * width + c] = round(mean);
        grad[c] = round(double(float(grad_z[r * width + c])) / double(graphs));
      }
      for (size_t i = 0; i < graphs; ++i) {
        std::vector<double> da(graphs);
        double mean = 0;
        for (size_t j = 0; j < graphs; ++j) {
          da[j] = round(dot(grad, v[j]));
          mean += a[i][j] * da[j];
        }
        for (size_t j = 0; j < graphs; ++j)
          ds[i][j] = round(round(a[i][j] * (da[j] - mean)) * scale);
      }
      for (size_t i = 0; i < graphs; ++i)
        for (size_t c = first; c < first + of_head; ++c) {
          double dq = 0, dk = 0, dv = 0;
          for (size_t j = 0; j < graphs; ++j) {
            dq += ds[i][j] * k[j][c];
            dk += ds[j][i] * q[j][c];
            dv += a[j][i] * grad[c];
          }
          grads[0][i][c] = round(dq), grads[1][i][c] = round(dk), grads[2][i][c] = round(dv);
        }
    }
    for (size_t g = 0; g < graphs; ++g)
      for (size_t i = 0; i < width; ++i) {
        double dt = 0;
        for (size_t l = 0; l < 3; ++l) {
          double sum = 0;
          for (size_t o = 0; o < width; ++o) {
            sum += grads[l][g][o] * double(parameters[kQuery + l][i * width + o]);
            to.gradients[kQuery + l][i * width + o] += t[g][i] * grads[l][g][o];
          }
          dt = round(dt + round(sum));
          to.gradients[kQueryBias + l][i] += grads[l][g][i];
        }
        to.grad_y[(g * rows + r) * width + i] = dt;
        to.gradients[kPosition][g * width + i] += dt;
      }
  }

  Result plainly(double (*round)(double) = exactly) const {
    Result r;
    r.z.assign(grad_z.size(), 0);
    r.grad_y.assign(y.size(), 0);
    for (size_t i = 0; i < kCount; ++i) r.gradients[i].assign(parameters[i].size(), 0);
    for (size_t i = 0; i < made_for.rows_used(); ++i) row(i, round, r);
    for (auto& list : r.gradients)
      for (double& v : list) v = round(v);
    return r;
  }
};

struct OnDevice {
  std::vector<BFloat16> z, grad_y;
  std::vector<std::vector<float>> gradients;

  explicit OnDevice(const Data& data) {
    const Case& c = data.made_for;
    const DeviceArray<int32_t> used(std::vector<int32_t>{int32_t(c.used)});
    const FusedAttentionShape shape = {c.graphs, c.rows, c.width,
                                       c.used < 0 ? nullptr : used.data(), c.shared_limit};
    const DeviceArray<BFloat16> y(data.y), grad_z(data.grad_z), out(data.grad_z.size()),
        grad(data.y.size());
    const DeviceArray<std::byte> packed(fused_attention_packed_bytes(shape)),
        workspace(fused_attention_backward_workspace(shape));
    std::vector<DeviceArray<float>> parameters, grads;
    for (const auto& values : data.parameters) {
      parameters.emplace_back(values);
      grads.emplace_back(values.size());
    }
    fused_attention_pack(shape, parameters_of<const float>(parameters), packed.data(), nullptr);
    fused_attention(shape, packed.data(), y.data(), out.data(), nullptr);
    fused_attention_backward(shape, packed.data(), y.data(), grad_z.data(), grad.data(),
                             parameters_of<float>(grads), workspace.data(), nullptr);
    z = out.host();
    grad_y = grad.host();
    for (const auto& g : grads) gradients.push_back(g.host());
  }
};

// What a device has, and what those of compute capability 8.0, and of 8.6 and 8.9, have.
class FusedAttentionCuda : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(SharedKilobytes, FusedAttentionCuda, ::testing::Values(0, 163, 99));

constexpr int64_t kWidths[] = {32, 64, 128};
// A product of bf16 numbers is off by up to 1 / 256; over three of them that adds up.
constexpr double kMostOff = 0.03;

// ratio: how much larger than those of plain PyTorch in bf16 errors may be; 0: not compared.
void expect_right(const Data& data, double ratio) {
  const Result wanted = data.plainly(), rounded = ratio > 0 ? data.plainly(as_bf16) : Result();
  const OnDevice got(data);
  const auto expect = [&](const auto& mine, const std::vector<double>& exact,
                          const std::vector<double>& theirs, const char* name) {
    const double off = distance(mine, exact);
    EXPECT_LT(off, kMostOff) << name;
    if (ratio > 0) {
      EXPECT_LT(off, ratio * distance(theirs, exact)) << name;
    }
  };
  expect(got.z, wanted.z, rounded.z, "z");
  expect(got.grad_y, wanted.grad_y, rounded.grad_y, "y");
  for (size_t i = 0; i < kCount; ++i)
    if (i == kKeyBias)
      for (const float v : got.gradients[i]) EXPECT_EQ(v, 0);
    else if (data.made_for.graphs == 1 && (i == kQuery || i == kKey || i == kQueryBias))
      for (const float v : got.gradients[i]) EXPECT_NEAR(v, 0, 1e-3);  // one token: a is 1
    else
      expect(got.gradients[i], wanted.gradients[i], rounded.gradients[i], kNames[i]);
}

TEST_P(FusedAttentionCuda, AgreesWithPlainLoops) {
  LACUNA_NEEDS_GPU();
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const int64_t width : kWidths)
    for (const Case& c :
         {Case{9, 0, width}, Case{9, 1, width}, Case{1, 9, width}, Case{2, 8, width},
          Case{8, 17, width}, Case{9, 33, width, 19}, Case{9, 20, width, 0}, Case{16, 21, width}}) {
      SCOPED_TRACE(::testing::Message() << "width " << width << ", graphs " << c.graphs << ", rows "
                                        << c.rows << ", used " << c.used);
      Case limited = c;
      limited.shared_limit = GetParam() * 1024;
      expect_right(Data(limited, seed), 0);
    }
}

TEST_P(FusedAttentionCuda, ErrorsAreNoLargerThanThoseOfPlainBf16) {
  LACUNA_NEEDS_GPU();
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const int64_t width : kWidths) {
    SCOPED_TRACE(::testing::Message() << "width " << width);
    expect_right(Data({9, 150, width, -1, GetParam() * 1024}, seed), 1.2);
  }
}

// Enough rows that every block has many tiles, which plain loops would take too long for.
TEST_P(FusedAttentionCuda, RepeatedRowsMultiplyTheGradientsWithTheSameBitsEveryTime) {
  LACUNA_NEEDS_GPU();
  constexpr int64_t kRows = 64, kTimes = 100;
  for (const int64_t width : kWidths) {
    SCOPED_TRACE(::testing::Message() << "width " << width);
    const Data once({9, kRows, width, -1, GetParam() * 1024}, test_seed());
    Data often({9, kRows * kTimes, width, -1, GetParam() * 1024}, test_seed());
    often.parameters = once.parameters;
    const auto row = size_t(width), rows = size_t(kRows), all = rows * size_t(kTimes);
    for (size_t i = 0; i < all * row; ++i) often.grad_z[i] = once.grad_z[i % (rows * row)];
    for (size_t g = 0; g < 9; ++g)
      for (size_t i = 0; i < all * row; ++i)
        often.y[g * all * row + i] = once.y[g * rows * row + i % (rows * row)];
    const OnDevice one(once), many(often), again(often);
    EXPECT_EQ(many.gradients, again.gradients);
    for (size_t k = 0; k < kCount; ++k) {
      std::vector<double> wanted;
      for (const float v : one.gradients[k]) wanted.push_back(double(v) * double(kTimes));
      EXPECT_LT(distance(many.gradients[k], wanted), 1e-4) << kNames[k];
    }
    for (size_t i = 0; i < often.grad_z.size(); ++i)
      ASSERT_EQ(many.z[i].bits, one.z[i % (rows * row)].bits) << i;
    for (size_t i = 0; i < often.y.size(); ++i) {
      ASSERT_EQ(many.grad_y[i].bits, again.grad_y[i].bits) << i;
      const size_t g = i / (all * row), at = i % (all * row) % (rows * row);
      ASSERT_EQ(many.grad_y[i].bits, one.grad_y[g * rows * row + at].bits) << i;
    }
  }
}

TEST_P(FusedAttentionCuda, KeepsANanInItsRowAndTakesLargeAndTinyValues) {
  LACUNA_NEEDS_GPU();
  for (const int64_t width : kWidths) {
    Data data({9, 30, width, -1, GetParam() * 1024}, test_seed());
    const auto row = size_t(width), graph = 30 * row;
    data.y[3 * graph + 5 * row + 3] = BFloat16(NAN);
    data.y[8 * graph + 6 * row + 1] = BFloat16(INFINITY);
    for (size_t g = 0; g < 9; ++g)
      for (size_t i = 0; i < row; ++i) {
        data.y[g * graph + 7 * row + i] = BFloat16(7e4f);
        data.y[g * graph + 8 * row + i] = BFloat16(float(g) * 1e14f);
        data.y[g * graph + 9 * row + i] = BFloat16(1e-30f);
      }
    const OnDevice got(data);
    for (size_t r = 0; r < 30; ++r)
      for (size_t i = 0; i < row; ++i)
        EXPECT_EQ(std::isnan(float(got.z[r * row + i])), r == 5 || r == 6) << r << " " << i;
    for (size_t i = 0; i < got.grad_y.size(); ++i) {
      const size_t r = i % graph / row;
      EXPECT_EQ(std::isnan(float(got.grad_y[i])), r == 5 || r == 6) << r << " " << i;
    }
    EXPECT_TRUE(std::isnan(got.gradients[kQuery][0]));  // found, not hidden
  }
}

}  // namespace
}  // namespace lacuna
