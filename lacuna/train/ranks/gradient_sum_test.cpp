#include "lacuna/train/ranks/gradient_sum.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lacuna/core/testing.h"
#include "lacuna/torch/recompute.h"

namespace lacuna {
namespace {

// Another rank that has the same gradients: a sum doubles.
class Twin : public Group {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t world() const override { return 2; }
  void sum(at::TensorList tensors) override {
    for (const at::Tensor& tensor : tensors) tensor.mul_(2);
  }
  void start_sum(const at::Tensor& tensor) override { under_way.push_back(tensor); }
  void finish_sum(const at::Tensor& tensor) override { tensor.mul_(2); }
  void broadcast(at::TensorList) override {}
  void barrier() override {}

  std::vector<at::Tensor> under_way;
};

// Four weights in a chain; where in_parts, the gradient of the second comes in three parts.
struct Chain {
  Chain() {
    at::manual_seed(test_seed());
    for (int i = 0; i < 4; ++i) {
      weights.push_back(at::randn({6, 6}, at::kDouble).requires_grad_());
      weights.back().mutable_grad() = at::zeros({6, 6}, at::kDouble);
    }
    x = at::randn({1, 9, 6}, at::kDouble);
  }
  at::Tensor loss(bool in_parts) const {
    const auto second = [&](const at::Tensor& y) { return at::matmul(y, weights[1]).tanh()[0]; };
    const at::Tensor h = at::matmul(x, weights[0]);  // [1, 9, 6]
    const at::Tensor g = in_parts ? recompute_rows(second, h, 4) : second(h);
    return at::matmul(at::matmul(g, weights[2]).tanh(), weights[3]).square().sum();
  }
  std::vector<at::Tensor> gradients(bool in_parts) {
    for (const at::Tensor& weight : weights) weight.mutable_grad().zero_();
    loss(in_parts).backward();
    std::vector<at::Tensor> found;
    for (const at::Tensor& weight : weights) found.push_back(weight.grad().clone());
    return found;
  }

  std::vector<at::Tensor> weights;
  at::Tensor x;
};

class GradientSumOf : public ::testing::TestWithParam<bool> {};

TEST_P(GradientSumOf, IsTheSumInEveryStep) {
  const bool in_parts = GetParam();
  Chain chain;
  const std::vector<at::Tensor> own = chain.gradients(in_parts);
  Twin twin;
  GradientSum sum(chain.weights, twin, /*bytes=*/1);  // a bucket a weight
  for (int step = 0; step < 3; ++step) {
    twin.under_way.clear();
    for (const at::Tensor& weight : chain.weights) weight.mutable_grad().zero_();
    sum.begin();
    const at::Tensor loss = chain.loss(in_parts);
    loss.backward();
    // All four set out before the pass had ended; one that comes in parts waits from then on.
    EXPECT_EQ(twin.under_way.size(), in_parts && step > 0 ? 3 : 4);
    const at::Tensor also = loss.detach().clone();
    sum.finish(also);
    EXPECT_TRUE(at::allclose(also, 2 * loss.detach(), 1e-14));
    for (size_t i = 0; i < own.size(); ++i)
      EXPECT_TRUE(at::allclose(chain.weights[i].grad(), 2 * own[i], 1e-12, 1e-12))
          << "weight " << i << " in step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Passes, GradientSumOf, ::testing::Values(false, true));

TEST(GradientSum, ForgetsAPassThatWasBrokenOff) {
  Chain chain;
  const std::vector<at::Tensor> own = chain.gradients(false);
  Twin twin;
  GradientSum sum(chain.weights, twin, /*bytes=*/1);
  sum.begin();
  chain.loss(false).backward();
  sum.abandon();
  for (const at::Tensor& weight : chain.weights) weight.mutable_grad().zero_();
  sum.begin();
  chain.loss(false).backward();
  sum.finish(at::zeros({}, at::kDouble));
  for (size_t i = 0; i < own.size(); ++i)
    EXPECT_TRUE(at::allclose(chain.weights[i].grad(), 2 * own[i], 1e-12, 1e-12));
}

TEST(GradientSum, LeavesNoHooks) {
  Chain chain;
  Twin twin;
  { const GradientSum sum(chain.weights, twin, /*bytes=*/1); }
  chain.loss(false).backward();
  EXPECT_TRUE(twin.under_way.empty());
}

}  // namespace
}  // namespace lacuna
