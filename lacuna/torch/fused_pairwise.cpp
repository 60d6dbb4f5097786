#include "lacuna/torch/fused_pairwise.h"

#include <ATen/ATen.h>

#include "lacuna/core/error.h"
#if LACUNA_HAVE_CUDA
#include <torch/csrc/autograd/custom_function.h>

#include "lacuna/ops/dense/fused_pairwise.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna {

#if LACUNA_HAVE_CUDA
namespace {

using namespace torch_ops;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr size_t kPairwiseParameters = 10, kPairwiseWithoutNorm = 8;

template <class Real, class Pointer>
FusedPairwiseParameters<Real> pairwise_parameters(const variable_list& tensors,
                                                  const Pointer& pointer) {
  const auto at = [&](size_t i) { return i < tensors.size() ? pointer(tensors[i]) : nullptr; };
  return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9)};
}
FusedPairwiseParameters<const float> pairwise_to_read(const variable_list& tensors) {
  return pairwise_parameters<const float>(tensors, [](const Tensor& t) { return data<float>(t); });
}

FusedPairwiseShape pairwise_shape(const Tensor& y, size_t parameters, const Tensor& used) {
  return {y.size(0), y.size(1), y.size(2), parameters == kPairwiseParameters,
          used.defined() ? data<int32_t>(used) : nullptr};
}

struct FusedPairwise : torch::autograd::Function<FusedPairwise> {
  // keeps: whether there may be a backward pass.
  static Tensor forward(AutogradContext* context, const Tensor& y_, bool keeps,
                        const OptionalTensor& used_, at::TensorList given) {
    const Tensor y = y_.contiguous();
    variable_list parameters;
    for (const Tensor& tensor : given) parameters.push_back(tensor.contiguous());
    const Tensor used = used_.value_or(Tensor());
    const FusedPairwiseShape shape = pairwise_shape(y, parameters.size(), used);
    const Launch launch(y.device());
    const Tensor packed =
        at::empty({int64_t(fused_pairwise_packed_bytes(shape))}, y.options().dtype(at::kByte));
    fused_pairwise_pack(shape, pairwise_to_read(parameters), packed.mutable_data_ptr(),
                        launch.stream());
    const Tensor x = at::empty({shape.rows, shape.width}, y.options());
    if (!keeps) {
      fused_pairwise(shape, packed.const_data_ptr(), data<BFloat16>(y), mutable_data<BFloat16>(x),
                     {}, launch.stream());
      return x;
    }
    // Without a norm x is the sum itself; but who has x may change it.
    const Tensor sum = at::empty_like(x), mean = at::empty_like(x);
    const Tensor log_sum = at::empty({shape.rows}, y.options().dtype(at::kFloat));
    fused_pairwise(
        shape, packed.const_data_ptr(), data<BFloat16>(y), mutable_data<BFloat16>(x),
        {mutable_data<BFloat16>(sum), mutable_data<BFloat16>(mean), mutable_data<float>(log_sum)},
        launch.stream());
    variable_list saved = {y, packed, sum, mean, log_sum, used};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(saved);
    return x;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &y = saved[0], &packed = saved[1], &sum = saved[2], &mean = saved[3],
                 &log_sum = saved[4], grad_x = grads[0].contiguous();
    const variable_list parameters(saved.begin() + 6, saved.end());
    const FusedPairwiseShape shape = pairwise_shape(y, parameters.size(), saved[5]);
    const Tensor grad_y = at::empty_like(y);
    variable_list gradients;
    for (const Tensor& parameter : parameters) gradients.push_back(at::empty_like(parameter));
    Launch launch(y.device());
    void* workspace = launch.workspace(fused_pairwise_backward_workspace(shape));
    const auto write = [](const Tensor& tensor) { return mutable_data<float>(tensor); };
    fused_pairwise_backward(
        shape, packed.const_data_ptr(), pairwise_to_read(parameters), data<BFloat16>(y),
        {data<BFloat16>(sum), data<BFloat16>(mean), data<float>(log_sum)}, data<BFloat16>(grad_x),
        mutable_data<BFloat16>(grad_y), pairwise_parameters<float>(gradients, write), workspace,
        launch.stream());
    variable_list result = {grad_y, Tensor(), Tensor()};
    result.insert(result.end(), gradients.begin(), gradients.end());
    return result;
  }
};

}  // namespace

bool can_fuse_pairwise(const at::Tensor& y) {
  if (!y.is_cuda() || y.scalar_type() != at::kBFloat16) return false;
  const c10::DeviceGuard guard(y.device());
  return fused_pairwise_fits(y.size(0), y.size(2));
}

at::Tensor fused_pairwise(const at::Tensor& y, const PairwiseParameters& p,
                          const at::Tensor& used) {
  variable_list tensors = {p.hidden_weight, p.hidden_bias,         p.out_weight,
                           p.out_bias,      p.score_hidden_weight, p.score_hidden_bias,
                           p.score_weight,  p.score_bias};
  LACUNA_ASSERT(tensors.size() == kPairwiseWithoutNorm);
  if (p.norm_weight.defined()) {
    tensors.push_back(p.norm_weight);
    tensors.push_back(p.norm_bias);
  }
  return FusedPairwise::apply(y, at::GradMode::is_enabled(),
                              used.defined() ? OptionalTensor(used) : std::nullopt,
                              at::TensorList(tensors));
}
#else
bool can_fuse_pairwise(const at::Tensor&) { return false; }
at::Tensor fused_pairwise(const at::Tensor&, const PairwiseParameters&, const at::Tensor&) {
  throw Error("this build has no CUDA, and so no fused merge; ask can_fuse_pairwise() first");
}
#endif

}  // namespace lacuna
