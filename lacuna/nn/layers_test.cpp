// The rows of ops/dense on the CPU, as layers use them, against what torch makes of the same in
// f64.
#include "lacuna/nn/layers.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "lacuna/core/testing.h"
#include "lacuna/nn/heads.h"

namespace lacuna {
namespace {

struct Precision {
  at::ScalarType dtype;
  double rows, parameters;  // how far results may be off, of their norm
};
// What was seen is at most a tenth of it.
const Precision kPrecisions[] = {
    {at::kDouble, 1e-12, 1e-12}, {at::kFloat, 1e-4, 1e-4}, {at::kBFloat16, 2e-2, 2e-2}};

void expect_near(const at::Tensor& got, const at::Tensor& wanted, double bound, const char* what) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  const double apart = (got.to(at::kDouble) - wanted).norm().item<double>();
  EXPECT_LE(apart, bound * (wanted.norm().item<double>() + 1e-3)) << what;
}

std::vector<at::Tensor> all_of(const torch::nn::Module& module) { return module.parameters(); }

// Away from 0 and 1; the same numbers in every dtype.
void shake(torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : module.parameters()) parameter.add_(at::randn_like(parameter), 0.3);
}

// y and the gradients of u and of the parameters, with torch alone. grad_y [G, rows, H].
std::vector<at::Tensor> plain_mlp(GraphMlp& mlp, const at::Tensor& u, const at::Tensor& grad_y) {
  mlp.zero_grad();
  const auto named = mlp.named_parameters();
  const at::Tensor leaf = u.detach().requires_grad_();
  auto v = leaf;
  for (const char* dense : {"dense0", "dense1", "dense2", "dense3"}) {
    if (std::string(dense) != "dense0") v = at::gelu(v);
    v = at::matmul(v, named[std::string(dense) + ".weight"]) + named[std::string(dense) + ".bias"];
  }
  const auto normed = at::layer_norm(v, {v.size(2)}, {}, {}, 1e-5);
  const auto y = at::gelu(normed * named["norm.weight"] + named["norm.bias"]);
  torch::autograd::backward({y}, {grad_y});
  std::vector<at::Tensor> results = {y.detach(), leaf.grad()};
  for (const auto& parameter : all_of(mlp)) results.push_back(parameter.grad().clone());
  return results;
}

// Rows that are not in use, [G, rows, 1]
at::Tensor in_use(const at::Tensor& used, int64_t rows) {
  return at::arange(rows).unsqueeze(0).lt(used.unsqueeze(1)).unsqueeze(2);
}

void expect_mlp(int64_t rows, int64_t width, const Precision& precision) {
  SCOPED_TRACE(::testing::Message() << rows << " rows, width " << width << ", " << precision.dtype);
  constexpr int64_t kGraphs = 3;
  const auto wide = precision.dtype == at::kDouble ? at::kDouble : at::kFloat;
  GraphMlp mlp(kGraphs, width, NormKind::layer), exact(kGraphs, width, NormKind::layer);
  shake(mlp);
  exact.to(at::kDouble);
  const auto ours = all_of(mlp), theirs = all_of(exact);
  for (size_t i = 0; i < ours.size(); ++i) theirs[i].detach().copy_(ours[i].detach());
  mlp.to(wide);

  const auto used = at::tensor({rows, rows / 2, int64_t(0)}, at::kInt);
  const auto is_used = in_use(used, rows);
  const auto u = at::randn({kGraphs, rows, width}).to(precision.dtype);
  const auto grad_y = at::randn({kGraphs, rows, width}).to(precision.dtype);
  // Whatever stands in rows that are not in use is not read.
  const auto poisoned = u.masked_fill(is_used.logical_not(), NAN).requires_grad_();
  const auto y = mlp.forward(poisoned, used);
  torch::autograd::backward({y}, {grad_y});
  std::vector<at::Tensor> got = {y.detach(), poisoned.grad()};
  for (size_t i = 0; i < 2; ++i) got[i] = got[i].masked_fill(is_used.logical_not(), 0);
  for (const auto& parameter : all_of(mlp)) got.push_back(parameter.grad());

  auto wanted = plain_mlp(exact, u.to(at::kDouble), (grad_y * is_used).to(at::kDouble));
  wanted[0] = wanted[0] * is_used;
  const auto names = mlp.named_parameters().keys();
  for (size_t i = 0; i < wanted.size(); ++i)
    expect_near(got[i], wanted[i], i < 2 ? precision.rows : precision.parameters,
                i < 2 ? (i ? "gradient of u" : "y") : names[i - 2].c_str());
}

TEST(GraphMlp, RowsOnTheCpuAreWhatTorchGives) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  at::manual_seed(seed);
  for (const Precision& precision : kPrecisions) {
    for (const int64_t rows : {0, 1, 15, 16, 17, 95, 96, 97, 700}) expect_mlp(rows, 16, precision);
    for (const int64_t width : {1, 7, 31, 32, 33, 64, 100}) expect_mlp(40, width, precision);
  }
}

TEST(GraphMlp, ARowAndASumHaveTheSameBitsForEveryNumberOfThreads) {
  at::manual_seed(test_seed());
  GraphMlp mlp(2, 24, NormKind::layer);
  shake(mlp);
  const auto u = at::randn({2, 7000, 24}), grad_y = at::randn({2, 7000, 24});
  const int before = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> results;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    mlp.zero_grad();
    const auto leaf = u.detach().requires_grad_();
    const auto y = mlp.forward(leaf);
    torch::autograd::backward({y}, {grad_y});
    results.push_back({y.detach(), leaf.grad()});
    for (const auto& parameter : all_of(mlp)) results.back().push_back(parameter.grad().clone());
  }
  at::set_num_threads(before);
  for (size_t i = 0; i < results[0].size(); ++i)
    for (const auto& other : results) EXPECT_TRUE(other[i].equal(results[0][i])) << i;
  const auto some = mlp.forward(u.narrow(1, 3001, 5).contiguous());
  EXPECT_TRUE(some.detach().equal(results[0][0].narrow(1, 3001, 5)));
}

// As GELU of torch where numbers are extreme, a NaN of one row not being one of another.
TEST(GraphMlp, ExtremeNumbersStayInTheirRows) {
  at::manual_seed(1);
  GraphMlp mlp(1, 8, NormKind::layer);
  auto u = at::randn({1, 6, 8});
  u[0][1] *= 1e-30;
  u[0][2] *= 7e4;
  u[0][3][0] = NAN;
  u[0][4][0] = INFINITY;
  const auto y = mlp.forward(u).detach();
  const auto finite = y.isfinite().all(2)[0];
  for (const int64_t row : {0, 1, 2, 5}) EXPECT_TRUE(finite[row].item<bool>()) << row;
  for (const int64_t row : {3, 4}) EXPECT_FALSE(finite[row].item<bool>()) << row;
  mlp.to(at::kDouble);
  const auto exact = plain_mlp(mlp, u.to(at::kDouble), at::zeros({1, 6, 8}, at::kDouble))[0];
  for (const int64_t row : {0, 1, 2, 5}) expect_near(y[0][row], exact[0][row], 1e-4, "y");
}

// With gradients torch does it, without our own rows do.
TEST(Pool, PredictsWhatItTrains) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  at::manual_seed(seed);
  for (const int64_t width : {2, 16, 34, 64})
    for (const int64_t genes : {1, 96, 97, 300}) {
      SCOPED_TRACE(::testing::Message() << genes << " genes, width " << width);
      constexpr int64_t kBatch = 4;
      Pool pool(width);
      shake(pool);
      const auto x = at::randn({genes, kBatch, width}).to(at::kBFloat16);  // exact in every dtype
      auto keep = at::rand({genes, kBatch}).lt(0.8);
      keep.select(1, 0).fill_(false);  // nobody is kept
      keep.select(1, 1).fill_(true);
      pool.to(at::kDouble);
      const auto wanted = pool.forward(x.to(at::kDouble), keep).detach();
      EXPECT_EQ(wanted[0].abs().max().item<double>(), 0);
      const at::NoGradGuard no_grad;
      expect_near(pool.forward(x.to(at::kDouble), keep), wanted, 1e-12, "f64");
      pool.to(at::kFloat);
      const auto in_f32 = pool.forward(x.to(at::kFloat), keep);
      expect_near(in_f32, wanted, 1e-4, "f32");
      EXPECT_TRUE(pool.forward(x, keep).equal(in_f32)) << "bf16 rows are computed in f32";
      EXPECT_EQ(in_f32[0].abs().max().item<double>(), 0);
      const auto alone = pool.forward(x.to(at::kFloat).narrow(1, 2, 1), keep.narrow(1, 2, 1));
      EXPECT_TRUE(alone[0].equal(in_f32[2]));
    }
}

TEST(Dense, PredictsWhatItTrainsAndARowByItself) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  at::manual_seed(seed);
  for (const int64_t in : {1, 16, 33})
    for (const int64_t out : {1, 2, 24, 64})
      for (const int64_t rows : {0, 1, 15, 16, 17, 97, 300})
        for (const Precision& precision : kPrecisions) {
          SCOPED_TRACE(::testing::Message() << rows << " rows, " << in << " x " << out);
          Dense dense(in, out);
          shake(dense);
          const auto x = at::randn({rows, in}).to(precision.dtype);
          dense.to(precision.dtype == at::kDouble ? at::kDouble : at::kFloat);
          const at::NoGradGuard no_grad;
          const auto exact = x.to(at::kDouble), weight = dense.weight.to(at::kDouble),
                     bias = dense.bias.to(at::kDouble);
          const auto size = at::matmul(exact.abs(), weight.abs()) + bias.abs();  // of the terms
          const auto y = dense.forward(x);
          const auto apart = (y.to(at::kDouble) - at::matmul(exact, weight) - bias).abs();
          EXPECT_TRUE(apart.le(precision.rows * size).all().item<bool>());
          for (int64_t row = 0; row < rows; row += 7)
            EXPECT_TRUE(dense.forward(x.narrow(0, row, 1))[0].equal(y[row])) << row;
        }
}

}  // namespace
}  // namespace lacuna
