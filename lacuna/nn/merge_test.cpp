#include "lacuna/nn/merge.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

double distance(const at::Tensor& got, const at::Tensor& exact) {
  const at::Tensor wide = exact.to(at::kDouble);
  return ((got.to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

// The result, and its gradients by y and by every parameter, for one gradient of the result.
std::vector<at::Tensor> results(Merge& merge, const at::Tensor& y, const at::Tensor& grad) {
  const at::Tensor leaf = y.detach().requires_grad_();
  std::vector<at::Tensor> leaves = merge.parameters();
  for (const at::Tensor& parameter : leaves) parameter.mutable_grad() = at::Tensor();
  const at::Tensor out = merge.forward(leaf);
  torch::autograd::backward({out}, {grad.to(out.scalar_type())});
  std::vector<at::Tensor> all = {out.detach(), leaf.grad()};
  for (const at::Tensor& parameter : leaves) all.push_back(parameter.grad());
  return all;
}

// In bf16 the first product of pairwise takes another form than in f32. Both are compared with the
// plain form in f64, and the savings must not cost precision.
TEST(Merge, PairwiseInBf16IsAsPreciseAsItsPlainForm) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  at::manual_seed(seed);
  constexpr int64_t kGraphs = 4, kRows = 700, kWidth = 16;  // more than a block of rows
  const auto make = [&](bool savings) {
    return make_merge("pairwise", kGraphs, kWidth, NormKind::layer, at::kCPU, savings);
  };
  const auto exact = make(false), plain = make(false), saving = make(true);
  for (size_t i = 0; i < exact->parameters().size(); ++i) {
    const at::NoGradGuard guard;
    exact->parameters()[i].normal_(0, 0.3);
    plain->parameters()[i].copy_(exact->parameters()[i]);
    saving->parameters()[i].copy_(exact->parameters()[i]);
  }
  exact->to(at::kDouble);
  const at::Tensor y = at::randn({kGraphs, kRows, kWidth}).to(at::kBFloat16);
  const at::Tensor grad = at::randn({kRows, kWidth}).to(at::kBFloat16);
  const auto expected = results(*exact, y.to(at::kDouble), grad);
  const auto by_plain = results(*plain, y, grad), by_saving = results(*saving, y, grad);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].numel() == 1) continue;  // a softmax does not see the score's bias
    // One draw's errors differ by chance, in 2 of 300 draws by more than twice.
    EXPECT_LT(distance(by_saving[i], expected[i]),
              std::max(0.02, 4 * distance(by_plain[i], expected[i])))
        << "of tensor " << i;
  }
}

}  // namespace
}  // namespace lacuna
