// norm_gelu on a GPU against plain loops in double.
#include "lacuna/ops/dense/norm_gelu_cuda.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"
#include "lacuna/ops/cuda/cuda_test_support.h"

namespace lacuna {
namespace {

using namespace testing;

struct Result {
  std::vector<double> y, grad_x, grad_weight, grad_bias;
};

double below(double t) { return 0.5 * std::erfc(-t / std::sqrt(2.0)); }
double density(double t) { return std::exp(-0.5 * t * t) / std::sqrt(2 * M_PI); }

// Row by row, as the formulas stand in the header.
Result plain(const NormGeluShape& s, const std::vector<double>& x, const std::vector<double>& w,
             const std::vector<double>& b, const std::vector<double>& grad) {
  Result r = {x, x, std::vector<double>(w.size(), 0), std::vector<double>(w.size(), 0)};
  const auto width = size_t(s.width);
  for (size_t row = 0; row < size_t(s.graphs * s.rows); ++row) {
    const size_t at = row * width, graph = row / size_t(s.rows) * width;
    double mean = 0, var = 0, sum = 0, product = 0;
    for (size_t i = 0; i < width; ++i) mean += x[at + i] / double(width);
    for (size_t i = 0; i < width; ++i)
      var += (x[at + i] - mean) * (x[at + i] - mean) / double(width);
    const double scale = 1 / std::sqrt(var + double(kNormEps));
    std::vector<double> unit(width), d(width);
    for (size_t i = 0; i < width; ++i) {
      unit[i] = (x[at + i] - mean) * scale;
      const double t = unit[i] * w[graph + i] + b[graph + i];
      r.y[at + i] = t * below(t);
      const double dt = grad[at + i] * (below(t) + t * density(t));
      r.grad_weight[graph + i] += dt * unit[i];
      r.grad_bias[graph + i] += dt;
      d[i] = dt * w[graph + i];
      sum += d[i] / double(width);
      product += d[i] * unit[i] / double(width);
    }
    for (size_t i = 0; i < width; ++i) r.grad_x[at + i] = scale * (d[i] - sum - unit[i] * product);
  }
  return r;
}

template <class Real>
std::vector<Real> draw(size_t count, uint64_t seed, uint64_t stream, double spread, double mean) {
  Random random(seed, stream);
  std::vector<Real> values(count);
  for (Real& v : values) v = Real(float(mean + spread * random.normal()));
  return values;
}

template <class T>
std::vector<double> widen(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T& v : values) result.push_back(double(float(v)));
  return result;
}

template <class T>
double distance(const std::vector<T>& got, const std::vector<double>& want) {
  double apart = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = double(float(got[i])) - want[i];
    apart += d * d;
    size += want[i] * want[i];
  }
  return std::sqrt(apart / size);
}

template <class Real>
void check(const NormGeluShape& shape, double tolerance) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  SCOPED_TRACE(shape.width);
  const auto count = size_t(shape.graphs * shape.rows * shape.width);
  const auto weights = size_t(shape.graphs * shape.width);
  const auto x = draw<Real>(count, seed, 0, 2, 0.5), grad = draw<Real>(count, seed, 1, 1, 0);
  const auto w = draw<float>(weights, seed, 2, 0.3, 1), b = draw<float>(weights, seed, 3, 0.3, 0);
  const Result want = plain(shape, widen(x), widen(w), widen(b), widen(grad));

  const DeviceArray<Real> dx(x), dgrad(grad);
  const DeviceArray<float> dw(w), db(b);
  const DeviceArray<Real> y(count), grad_x(count);
  const DeviceArray<float> grad_w(weights), grad_b(weights);
  const DeviceArray<std::byte> workspace(norm_gelu_cuda_workspace(shape));
  norm_gelu_cuda<Real>(shape, dx.data(), dw.data(), db.data(), y.data(), nullptr);
  norm_gelu_backward_cuda<Real>(shape, dx.data(), dw.data(), db.data(), dgrad.data(), grad_x.data(),
                                grad_w.data(), grad_b.data(), workspace.data(), nullptr);
  EXPECT_LT(distance(y.host(), want.y), tolerance);
  EXPECT_LT(distance(grad_x.host(), want.grad_x), tolerance);
  EXPECT_LT(distance(grad_w.host(), want.grad_weight), 1e-5);
  EXPECT_LT(distance(grad_b.host(), want.grad_bias), 1e-5);
}

TEST(NormGeluCuda, AgreesWithPlainLoops) {
  LACUNA_NEEDS_GPU();
  for (const int64_t width : {8, 16, 32, 64, 128, 256}) {
    check<float>({3, 101, width}, 1e-5);
    check<BFloat16>({3, 101, width}, 4e-3);
  }
  check<float>({1, 1, 64}, 1e-5);
  check<float>({2, 40000, 64}, 1e-5);  // more rows than the blocks of a graph take at once
}

TEST(NormGeluCuda, AWidthThatDoesNotFitIsRefused) {
  EXPECT_FALSE(norm_gelu_cuda_fits(72));
  EXPECT_FALSE(norm_gelu_cuda_fits(4));
  EXPECT_FALSE(norm_gelu_cuda_fits(512));
}

}  // namespace
}  // namespace lacuna
