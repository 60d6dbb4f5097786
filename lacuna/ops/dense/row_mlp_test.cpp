// The dense work on rows against plain loops in double, one row at a time. That every gradient is
// right is nn/layers_test.cpp's to say, which has torch.
#include "lacuna/ops/dense/row_mlp.h"

#include <gtest/gtest.h>

#include "lacuna/ops/closeness.h"
#include "lacuna/ops/dense/row_linear.h"
#include "lacuna/ops/dense/row_pool.h"
#include "lacuna/ops/dense/testing.h"

namespace lacuna {
namespace {

using namespace lacuna::testing;
using Row = std::vector<double>;

// x W + b; weight [in, out]
template <class Real>
Row plain_linear(const Row& x, const Real* weight, const Real* bias, int64_t out) {
  Row y(bias, bias + out);
  for (size_t k = 0; k < x.size(); ++k)
    for (int64_t h = 0; h < out; ++h) y[size_t(h)] += x[k] * double(weight[int64_t(k) * out + h]);
  return y;
}
Row plain_gelu(Row x) {
  for (double& number : x) number = gelu_of(number);
  return x;
}

// The largest difference, of the largest number.
double off(const Row& got, const Row& wanted) {
  double most = 0, size = 1e-3;
  for (size_t i = 0; i < wanted.size(); ++i) {
    most = std::max(most, std::abs(got[i] - wanted[i]));
    size = std::max(size, std::abs(wanted[i]));
  }
  return most / size;
}

template <class Real>
struct MlpSetting {
  using Param = Parameter<Real>;
  int64_t graphs = 3, rows, width;
  std::vector<int32_t> used;
  std::vector<Real> u, grad_y;
  std::vector<std::vector<Param>> parameters;  // weights, biases, scale, shift

  MlpSetting(uint64_t seed, int64_t rows_, int64_t width_)
      : rows(rows_),
        width(width_),
        used({int32_t(rows), int32_t(rows / 2), 0}),
        u(random_numbers<Real>(seed, 1, graphs * rows * width)),
        grad_y(random_numbers<Real>(seed, 2, graphs * rows * width)) {
    for (uint64_t i = 0; i < 2 * kRowLinears + 2; ++i) {
      parameters.push_back(
          random_numbers<Param>(seed, 10 + i, graphs * width * (i < kRowLinears ? width : 1)));
      if (i < kRowLinears)
        for (Param& number : parameters.back()) number /= Param(std::sqrt(double(width)));
    }
  }
  template <class P>
  static RowMlpParameters<P> pointers(auto& arrays) {
    RowMlpParameters<P> result;
    for (size_t l = 0; l < kRowLinears; ++l) {
      result.weight[l] = arrays[l].data();
      result.bias[l] = arrays[kRowLinears + l].data();
    }
    result.scale = arrays[2 * kRowLinears].data();
    result.shift = arrays[2 * kRowLinears + 1].data();
    return result;
  }
  RowMlpCall<Real> call(int threads) const {
    return {graphs, rows, width, used.data(), pointers<const Param>(parameters), u.data(), threads};
  }
  Row plain(int64_t g, int64_t r) const {
    Row row;
    for (int64_t h = 0; h < width; ++h)
      row.push_back(to_double(u[size_t((g * rows + r) * width + h)]));
    for (size_t l = 0; l < kRowLinears; ++l) {
      if (l > 0) row = plain_gelu(row);
      row = plain_linear(row, parameters[l].data() + g * width * width,
                         parameters[kRowLinears + l].data() + g * width, width);
    }
    double mean = 0, variance = 0;
    for (const double x : row) mean += x / double(width);
    for (const double x : row) variance += (x - mean) * (x - mean) / double(width);
    for (int64_t h = 0; h < width; ++h)
      row[size_t(h)] = (row[size_t(h)] - mean) / std::sqrt(variance + 1e-5) *
                           double(parameters[2 * kRowLinears][size_t(g * width + h)]) +
                       double(parameters[2 * kRowLinears + 1][size_t(g * width + h)]);
    return plain_gelu(row);
  }
  // u and the gradients, made with so many threads; rows that are not in use stay NaN.
  std::vector<std::vector<double>> results(int threads) const {
    auto y = poisoned<Real>(u.size()), grad_u = poisoned<Real>(u.size());
    std::vector<std::vector<Param>> gradients;
    for (const auto& array : parameters) gradients.push_back(poisoned<Param>(array.size()));
    row_mlp(call(threads), y.data());
    row_mlp_backward(call(threads), grad_y.data(), grad_u.data(), pointers<Param>(gradients));
    std::vector<std::vector<double>> all = {to_doubles(y), to_doubles(grad_u)};
    for (const auto& array : gradients) all.push_back(to_doubles(array));
    return all;
  }
};

template <class Real>
void expect_plain_rows(uint64_t seed, int64_t rows, int64_t width, double bound) {
  SCOPED_TRACE(::testing::Message() << rows << " rows, width " << width);
  const MlpSetting<Real> s(seed, rows, width);
  const auto results = s.results(1), with_three = s.results(3);
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_TRUE(same_bits(results[i], with_three[i])) << i;
  for (int64_t g = 0; g < s.graphs; ++g)
    for (int64_t r = 0; r < rows; ++r) {
      const bool is_used = r < s.used[size_t(g)];
      const auto from = [&](size_t i) { return results[i].data() + (g * rows + r) * width; };
      const Row y(from(0), from(0) + width);
      if (is_used) {
        EXPECT_LT(off(y, s.plain(g, r)), bound);
      }
      for (int64_t h = 0; h < width; ++h) {
        ASSERT_EQ(std::isnan(from(0)[h]), !is_used);
        ASSERT_EQ(std::isnan(from(1)[h]), !is_used);
      }
    }
  for (size_t i = 2; i < results.size(); ++i)
    for (const double number : results[i]) ASSERT_TRUE(std::isfinite(number)) << i;
}

TEST(RowMlp, RowsAreThoseOfPlainLoops) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const int64_t rows : {0, 1, 5, 6, 15, 16, 17, 97, 200})
    for (const int64_t width : {1, 7, 16, 33}) {
      expect_plain_rows<double>(seed, rows, width, 1e-11);
      expect_plain_rows<float>(seed, rows, width, 1e-3);
      expect_plain_rows<BFloat16>(seed, rows, width, 2e-2);
    }
}

// Along a random direction of u, and of every parameter in turn.
TEST(RowMlp, GradientsAreSlopes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  MlpSetting<double> s(seed, 20, 12);
  const auto results = s.results(2);
  const auto value = [&] {  // sum of grad_y y
    std::vector<double> y(s.u.size(), 0);
    row_mlp(s.call(1), y.data());
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += s.grad_y[i] * y[i];
    return sum;
  };
  for (size_t i = 1; i < results.size(); ++i) {
    std::vector<double>& moved = i == 1 ? s.u : s.parameters[i - 2];
    const auto before = moved, direction = random_numbers<double>(seed, 50 + i, moved.size());
    double slope = 0, size = 0, difference = 0;
    for (size_t k = 0; k < moved.size(); ++k) {
      const double gradient = std::isnan(results[i][k]) ? 0 : results[i][k];
      slope += gradient * direction[k];
      size += std::abs(gradient * direction[k]);
    }
    constexpr double kStep = 1e-5;
    for (const double sign : {1.0, -1.0}) {
      for (size_t k = 0; k < moved.size(); ++k) moved[k] = before[k] + sign * kStep * direction[k];
      difference += sign * value() / (2 * kStep);
    }
    moved = before;
    EXPECT_NEAR(difference, slope, 1e-5 * size + 1e-6) << i;
  }
}

TEST(RowPool, IsASoftmaxOverKeptGenes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const int64_t nodes : {1, 95, 96, 97, 200})
    for (const int64_t width : {2, 9, 32}) {
      const int64_t samples = 3, hidden = (width + 1) / 2;
      const auto numbers = [&](uint64_t stream, int64_t count) {
        return random_numbers<double>(seed, stream, count);
      };
      const auto x = numbers(1, nodes * samples * width), w1 = numbers(2, width * hidden),
                 b1 = numbers(3, hidden), w2 = numbers(4, hidden), b2 = numbers(5, 1),
                 w3 = numbers(6, width * width), b3 = numbers(7, width);
      std::unique_ptr<bool[]> keep(new bool[size_t(nodes * samples)]);
      Random random(seed, 8);
      for (int64_t i = 0; i < nodes * samples; ++i)
        keep[size_t(i)] = i % samples == 0 || (i % samples == 1 && random.below(4) > 0);
      std::vector<double> out(size_t(samples * width), NAN);
      row_pool<double>({nodes, samples, width, hidden, x.data(), keep.get(), w1.data(), b1.data(),
                        w2.data(), b2.data(), w3.data(), b3.data(), 2},
                       out.data());
      for (int64_t b = 0; b < samples; ++b) {
        Row sum(size_t(width), 0);
        double total = 0;
        for (int64_t n = 0; n < nodes; ++n) {
          if (!keep[size_t(n * samples + b)]) continue;
          const double* from = x.data() + (n * samples + b) * width;
          const Row row(from, from + width);
          const Row gate = plain_linear(plain_gelu(plain_linear(row, w1.data(), b1.data(), hidden)),
                                        w2.data(), b2.data(), 1);
          const Row value = plain_gelu(plain_linear(row, w3.data(), b3.data(), width));
          total += std::exp(gate[0]);
          for (int64_t h = 0; h < width; ++h)
            sum[size_t(h)] += std::exp(gate[0]) * value[size_t(h)];
        }
        for (int64_t h = 0; h < width; ++h) {
          const double wanted = total > 0 ? sum[size_t(h)] / total : 0;
          ASSERT_NEAR(out[size_t(b * width + h)], wanted, 1e-10) << b;
        }
      }
    }
}

TEST(RowLinear, RowsAreThoseOfPlainLoops) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  for (const int64_t rows : {0, 1, 96, 97})
    for (const int64_t in : {1, 20})
      for (const int64_t out : {1, 35}) {
        const auto x = random_numbers<double>(seed, 1, rows * in),
                   weight = random_numbers<double>(seed, 2, in * out),
                   bias = random_numbers<double>(seed, 3, out);
        std::vector<double> y(size_t(rows * out), NAN);
        row_linear<double>({rows, in, out, x.data(), weight.data(), bias.data(), 2}, y.data());
        for (int64_t r = 0; r < rows; ++r) {
          const Row row(x.data() + r * in, x.data() + (r + 1) * in);
          const Row wanted = plain_linear(row, weight.data(), bias.data(), out);
          for (int64_t h = 0; h < out; ++h)
            ASSERT_NEAR(y[size_t(r * out + h)], wanted[size_t(h)], 1e-11);
        }
      }
}

}  // namespace
}  // namespace lacuna
