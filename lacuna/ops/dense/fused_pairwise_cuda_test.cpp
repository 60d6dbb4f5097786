// fused_pairwise on a GPU against plain loops in double.
#include "lacuna/ops/dense/fused_pairwise.h"

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
constexpr size_t kWidth = 64, kHidden = kPairwiseHidden;

// In the order of FusedPairwiseParameters.
enum { kU, kB, kW, kD, kV, kC, kScore, kE, kNormWeight, kNormBias, kCount };
const char* const kNames[kCount] = {"hidden weight", "hidden bias", "out weight",   "out bias",
                                    "scorer weight", "scorer bias", "score weight", "score bias",
                                    "norm weight",   "norm bias"};
template <class Real>
using Lists = std::vector<std::vector<Real>>;

template <class Real, class Arrays>
FusedPairwiseParameters<Real> parameters_of(const Arrays& a) {
  return {a[0].data(), a[1].data(), a[2].data(), a[3].data(), a[4].data(),
          a[5].data(), a[6].data(), a[7].data(), a[8].data(), a[9].data()};
}

struct Case {
  int64_t graphs, rows;
  bool normed = true;
  int64_t used = -1;  // -1: all

  FusedPairwiseShape shape() const { return {graphs, rows, int64_t(kWidth), normed}; }
  size_t rows_used() const { return size_t(used < 0 ? rows : used); }
};

struct Result {
  std::vector<double> x, grad_y;
  Lists<double> gradients;
  // Gradients of the scorer are sums of differences that cancel, to nothing by chance where rows
  // are few, and bf16 is off by a part of what is subtracted. The squares of all of that, summed.
  std::vector<double> squares = std::vector<double>(kCount, 0);

  // How far off `got` is, in units of the larger of the gradient and of what it is made of.
  double off(size_t which, const std::vector<float>& got) const {
    double size = 0;
    for (const double v : gradients[which]) size += v * v;
    const double parts = std::max(size, squares[which]);
    return distance(got, gradients[which]) * (parts > 0 ? std::sqrt(size / parts) : 1);
  }
};

struct Data {
  Case made_for;
  Lists<float> parameters;
  std::vector<BFloat16> y, grad_x;

  Data(const Case& c, uint64_t seed) : made_for(c), parameters(kCount) {
    Random random(seed, 9);
    const auto pairs = size_t(c.shape().pairs());
    const auto draw = [&](int which, size_t count, double mean, double spread) {
      for (size_t i = 0; i < count; ++i)
        parameters[size_t(which)].push_back(float(mean + spread * random.normal()));
    };
    draw(kU, pairs * 2 * kWidth * kHidden, 0, 0.25);
    draw(kB, pairs * kHidden, 0, 0.1);
    draw(kW, pairs * kHidden * kWidth, 0, 0.177);
    draw(kD, pairs * kWidth, 0, 0.1);
    draw(kV, kWidth * kHidden, 0, 0.25);
    draw(kC, kHidden, 0, 0.1);
    draw(kScore, kHidden, 0, 0.3);
    draw(kE, 1, 0, 1);
    draw(kNormWeight, kWidth, 1, 0.1);
    draw(kNormBias, kWidth, 0, 0.1);
    for (int64_t i = 0; i < c.graphs * c.rows * int64_t(kWidth); ++i)
      y.push_back(BFloat16(float(gelu_of(random.normal()))));
    for (int64_t i = 0; i < c.rows * int64_t(kWidth); ++i)
      grad_x.push_back(BFloat16(float(random.normal())));
    // What is not in use must not matter.
    for (int64_t g = 0; g < c.graphs; ++g)
      for (size_t i = c.rows_used() * kWidth; i < size_t(c.rows) * kWidth; ++i)
        y[size_t(g * c.rows) * kWidth + i] = grad_x[i] = BFloat16(NAN);
  }

  double at(int which, size_t i) const { return double(parameters[size_t(which)][i]); }

  // What is kept of an option on the way forward.
  struct Option {
    std::vector<double> before, hidden, out, score_before;  // U.. + b, its gelu, o, V o + c
    double score = 0, share = 0;
  };

  // o -> its score.
  void score(Option& option) const {
    option.score_before.assign(kHidden, 0);
    option.score = at(kE, 0);
    for (size_t j = 0; j < kHidden; ++j) {
      double sum = at(kC, j);
      for (size_t m = 0; m < kWidth; ++m) sum += option.out[m] * at(kV, m * kHidden + j);
      option.score_before[j] = sum;
      option.score += gelu_of(sum) * at(kScore, j);
    }
  }

  // One row, forward and back. y [G] rows; adds to the gradients of the parameters.
  void plain_row(const std::vector<const BFloat16*>& from, const BFloat16* grad, double* x,
                 const std::vector<double*>& grad_y, Lists<double>& to,
                 std::vector<double>& squares) const {
    const size_t graphs = from.size();
    std::vector<Option> options;
    std::vector<std::pair<size_t, size_t>> who;
    for (size_t i = 0; i < graphs; ++i)
      for (size_t j = i; j < graphs; ++j) {
        const size_t pair = who.size();
        who.push_back({i, j});
        Option o;
        for (size_t k = 0; k < kHidden; ++k) {
          double sum = at(kB, pair * kHidden + k);
          for (size_t m = 0; m < 2 * kWidth; ++m)
            sum += double(float(from[m < kWidth ? i : j][m % kWidth])) *
                   at(kU, (pair * 2 * kWidth + m) * kHidden + k);
          o.before.push_back(sum);
          o.hidden.push_back(gelu_of(sum));
        }
        for (size_t m = 0; m < kWidth; ++m) {
          double sum = at(kD, pair * kWidth + m);
          for (size_t k = 0; k < kHidden; ++k)
            sum += o.hidden[k] * at(kW, (pair * kHidden + k) * kWidth + m);
          o.out.push_back(sum);
        }
        score(o);
        options.push_back(o);
      }
    Option mean;
    for (size_t m = 0; m < kWidth; ++m) {
      double sum = 0;
      for (const BFloat16* y_g : from) sum += double(float(y_g[m])) / double(graphs);
      mean.out.push_back(sum);
    }
    score(mean);
    options.push_back(mean);
    double most = -1e300, total = 0;
    for (const Option& o : options) most = std::max(most, o.score);
    for (Option& o : options) total += o.share = std::exp(o.score - most);
    std::vector<double> z(kWidth, 0), dz(kWidth);
    for (Option& o : options) {
      o.share /= total;
      for (size_t m = 0; m < kWidth; ++m) z[m] += o.share * o.out[m];
    }
    norm(z, grad, x, dz, to);
    // Back.
    double product = 0;
    for (size_t m = 0; m < kWidth; ++m) product += dz[m] * z[m];
    for (size_t n = 0; n < options.size(); ++n) {
      const Option& o = options[n];
      double dp = -product;
      for (size_t m = 0; m < kWidth; ++m) dp += dz[m] * o.out[m];
      const double ds = o.share * dp,
                   parts = o.share * (std::abs(dp + product) + std::abs(product));
      std::vector<double> d_out(kWidth);
      for (size_t m = 0; m < kWidth; ++m) d_out[m] = o.share * dz[m];
      for (size_t j = 0; j < kHidden; ++j) {
        to[kScore][j] += ds * gelu_of(o.score_before[j]);
        const double da = ds * at(kScore, j) * gelu_slope_of(o.score_before[j]);
        to[kC][j] += da;
        const double size = parts * at(kScore, j) * gelu_slope_of(o.score_before[j]);
        squares[kScore] += std::pow(parts * gelu_of(o.score_before[j]), 2);
        squares[kC] += size * size;
        for (size_t m = 0; m < kWidth; ++m) {
          squares[kV] += std::pow(size * o.out[m], 2);
          to[kV][m * kHidden + j] += da * o.out[m];
          d_out[m] += da * at(kV, m * kHidden + j);
        }
      }
      if (n == who.size()) {
        for (double* out : grad_y)
          for (size_t m = 0; m < kWidth; ++m) out[m] += d_out[m] / double(graphs);
        break;
      }
      for (size_t m = 0; m < kWidth; ++m) to[kD][n * kWidth + m] += d_out[m];
      for (size_t k = 0; k < kHidden; ++k) {
        double d = 0;
        for (size_t m = 0; m < kWidth; ++m) {
          to[kW][(n * kHidden + k) * kWidth + m] += o.hidden[k] * d_out[m];
          d += d_out[m] * at(kW, (n * kHidden + k) * kWidth + m);
        }
        d *= gelu_slope_of(o.before[k]);
        to[kB][n * kHidden + k] += d;
        for (size_t m = 0; m < 2 * kWidth; ++m) {
          const size_t graph = m < kWidth ? who[n].first : who[n].second;
          const size_t weight = (n * 2 * kWidth + m) * kHidden + k;
          to[kU][weight] += d * double(float(from[graph][m % kWidth]));
          grad_y[graph][m % kWidth] += d * at(kU, weight);
        }
      }
    }
  }

  void norm(const std::vector<double>& z, const BFloat16* grad, double* x, std::vector<double>& dz,
            Lists<double>& to) const {
    double mean = 0, var = 0, sum = 0, product = 0;
    for (const double v : z) mean += v / kWidth;
    for (const double v : z) var += (v - mean) * (v - mean) / kWidth;
    const double scale = 1 / std::sqrt(var + kEps);
    for (size_t m = 0; m < kWidth; ++m) {
      const double g = double(float(grad[m])), unit = (z[m] - mean) * scale;
      x[m] = made_for.normed ? unit * at(kNormWeight, m) + at(kNormBias, m) : z[m];
      dz[m] = made_for.normed ? g * at(kNormWeight, m) : g;
      to[kNormWeight][m] += g * unit;
      to[kNormBias][m] += g;
      sum += dz[m] / kWidth;
      product += dz[m] * unit / kWidth;
    }
    if (!made_for.normed) return;
    for (size_t m = 0; m < kWidth; ++m)
      dz[m] = scale * (dz[m] - sum - (z[m] - mean) * scale * product);
  }

  Result plainly() const {
    Result r;
    r.x.assign(grad_x.size(), 0);
    r.grad_y.assign(y.size(), 0);
    for (const auto& values : parameters) r.gradients.emplace_back(values.size(), 0);
    for (size_t row = 0; row < made_for.rows_used(); ++row) {
      std::vector<const BFloat16*> from;
      std::vector<double*> to;
      for (int64_t g = 0; g < made_for.graphs; ++g) {
        const size_t at = (size_t(g * made_for.rows) + row) * kWidth;
        from.push_back(&y[at]);
        to.push_back(&r.grad_y[at]);
      }
      plain_row(from, &grad_x[row * kWidth], &r.x[row * kWidth], to, r.gradients, r.squares);
    }
    return r;
  }
};

// The same on the device; what is not written comes back as it was poisoned.
struct OnDevice {
  std::vector<BFloat16> x, grad_y;
  Lists<float> gradients;

  explicit OnDevice(const Data& data) {
    FusedPairwiseShape shape = data.made_for.shape();
    const DeviceArray<int32_t> used(std::vector<int32_t>{int32_t(data.made_for.used)});
    if (data.made_for.used >= 0) shape.used = used.data();
    const DeviceArray<BFloat16> y(data.y), grad_x(data.grad_x), out(data.grad_x.size()),
        sum(data.grad_x.size()), mean(data.grad_x.size()), grad_y_out(data.y.size());
    const DeviceArray<float> log_sum(size_t(shape.rows));
    const DeviceArray<std::byte> packed(fused_pairwise_packed_bytes(shape)),
        workspace(fused_pairwise_backward_workspace(shape));
    std::vector<DeviceArray<float>> parameters, grads;
    for (const auto& values : data.parameters) parameters.emplace_back(values);
    for (const auto& p : parameters) grads.emplace_back(p.size());
    const auto from = parameters_of<const float>(parameters);
    fused_pairwise_pack(shape, from, packed.data(), nullptr);
    fused_pairwise(shape, packed.data(), y.data(), out.data(),
                   {sum.data(), mean.data(), log_sum.data()}, nullptr);
    fused_pairwise_backward(
        shape, packed.data(), from, y.data(), {sum.data(), mean.data(), log_sum.data()},
        grad_x.data(), grad_y_out.data(), parameters_of<float>(grads), workspace.data(), nullptr);
    x = out.host();
    grad_y = grad_y_out.host();
    for (const auto& g : grads) gradients.push_back(g.host());
    // Without keeping anything, x is the same.
    const DeviceArray<BFloat16> again(data.grad_x.size());
    fused_pairwise(shape, packed.data(), y.data(), again.data(), {}, nullptr);
    const auto second = again.host();
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i].bits, second[i].bits) << i;
  }
};

// bf16 is off by up to 1 / 256 in y's products, in h and in the folded weights. Gradients by way of
// the scores are differences of such numbers.
constexpr double kMostOff = 0.06;

void expect_right(const Data& data) {
  const Result wanted = data.plainly();
  OnDevice got(data);
  const Case& c = data.made_for;
  for (size_t i = c.rows_used() * kWidth; i < size_t(c.rows) * kWidth; ++i) {
    EXPECT_EQ(got.x[i].bits, 0xffff);
    got.x[i] = BFloat16(0.0f);
    for (int64_t g = 0; g < c.graphs; ++g) {
      BFloat16& v = got.grad_y[size_t(g * c.rows) * kWidth + i];
      EXPECT_EQ(v.bits, 0xffff);
      v = BFloat16(0.0f);
    }
  }
  EXPECT_LT(distance(got.x, wanted.x), kMostOff / 2);
  EXPECT_LT(distance(got.grad_y, wanted.grad_y), kMostOff);
  for (size_t i = 0; i < (c.normed ? size_t(kCount) : size_t(kNormWeight)); ++i)
    EXPECT_LT(wanted.off(i, got.gradients[i]), kMostOff) << kNames[i];
  EXPECT_EQ(got.gradients[kE][0], 0.0f);
}

TEST(FusedPairwiseCuda, AgreesWithPlainLoops) {
  LACUNA_NEEDS_GPU();
  if (!fused_pairwise_fits(9, kWidth)) GTEST_SKIP() << "no kernel for this GPU";
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const Case& c : {Case{2, 1}, Case{2, 130}, Case{3, 63}, Case{4, 64, false}, Case{5, 65},
                        Case{9, 130}, Case{9, 1, false}, Case{10, 65}, Case{12, 130}, Case{18, 20},
                        Case{9, 130, true, 65}, Case{3, 200, false, 1}, Case{4, 70, true, 0}}) {
    SCOPED_TRACE(::testing::Message()
                 << "graphs " << c.graphs << ", rows " << c.rows << ", used " << c.used);
    expect_right(Data(c, seed));
  }
}

TEST(FusedPairwiseCuda, SaysWhatFits) {
  LACUNA_NEEDS_GPU();
  EXPECT_FALSE(fused_pairwise_fits(1, kWidth));
  EXPECT_FALSE(fused_pairwise_fits(19, kWidth));
  EXPECT_FALSE(fused_pairwise_fits(9, 32));
}

TEST(FusedPairwiseCuda, GivesTheSameBitsEveryTime) {
  LACUNA_NEEDS_GPU();
  if (!fused_pairwise_fits(9, kWidth)) GTEST_SKIP() << "no kernel for this GPU";
  for (const int64_t graphs : {3, 9, 12}) {
    const Data data({graphs, 20000}, test_seed());
    const OnDevice first(data), second(data);
    EXPECT_EQ(first.gradients, second.gradients);
    for (size_t i = 0; i < first.grad_y.size(); ++i)
      ASSERT_EQ(first.grad_y[i].bits, second.grad_y[i].bits);
  }
}

TEST(FusedPairwiseCuda, ARowDoesNotDependOnItsNeighbours) {
  LACUNA_NEEDS_GPU();
  if (!fused_pairwise_fits(9, kWidth)) GTEST_SKIP() << "no kernel for this GPU";
  const Data data({9, 300}, test_seed());
  Data reversed = data;
  for (size_t g = 0; g < 9; ++g)
    for (size_t i = 0; i < 300 * kWidth; ++i)
      reversed.y[(g * 300 + 299 - i / kWidth) * kWidth + i % kWidth] = data.y[g * 300 * kWidth + i];
  const OnDevice got(data), other(reversed);
  for (size_t i = 0; i < 300 * kWidth; ++i)
    ASSERT_EQ(got.x[i].bits, other.x[(299 - i / kWidth) * kWidth + i % kWidth].bits) << i / kWidth;
}

TEST(FusedPairwiseCuda, KeepsANanInItsRowAndTakesLargeAndTinyValues) {
  LACUNA_NEEDS_GPU();
  if (!fused_pairwise_fits(9, kWidth)) GTEST_SKIP() << "no kernel for this GPU";
  Data data({9, 70}, test_seed());
  data.y[(3 * 70 + 5) * kWidth + 3] = BFloat16(NAN);
  data.y[6 * kWidth] = BFloat16(INFINITY);
  for (size_t g = 0; g < 9; ++g)
    for (size_t m = 0; m < kWidth; ++m) {
      data.y[(g * 70 + 7) * kWidth + m] = BFloat16(7e4f);
      data.y[(g * 70 + 8) * kWidth + m] = BFloat16(-7e4f);
      data.y[(g * 70 + 9) * kWidth + m] = BFloat16(1e-30f);
      data.y[(g * 70 + 10) * kWidth + m] = BFloat16(g == 2 ? 1e15f : 1.0f);
    }
  const OnDevice got(data);
  for (size_t row = 0; row < 70; ++row)
    for (size_t m = 0; m < kWidth; ++m) {
      EXPECT_EQ(std::isnan(float(got.x[row * kWidth + m])), row == 5 || row == 6) << row;
      for (size_t g = 0; g < 9; ++g)
        EXPECT_EQ(std::isnan(float(got.grad_y[(g * 70 + row) * kWidth + m])), row == 5 || row == 6)
            << row << " of graph " << g;
    }
  EXPECT_TRUE(std::isnan(got.gradients[kV][0]));  // found, not hidden
}

}  // namespace
}  // namespace lacuna
