#include "lacuna/torch/fused_mlp.h"

#include <ATen/ATen.h>

#include "lacuna/core/error.h"
#if LACUNA_HAVE_CUDA
#include <torch/csrc/autograd/custom_function.h>

#include "lacuna/ops/dense/fused_mlp.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna {

#if LACUNA_HAVE_CUDA
namespace {

using namespace torch_ops;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr size_t kParameters = 2 * kMlpLinears + 2;  // weights, biases, the norm's two

template <class Real, class Pointer>
FusedMlpParameters<Real> fused_parameters(const variable_list& tensors, const Pointer& pointer) {
  FusedMlpParameters<Real> result;
  for (int l = 0; l < kMlpLinears; ++l) {
    result.weight[l] = pointer(tensors[size_t(l)]);
    result.bias[l] = pointer(tensors[size_t(kMlpLinears + l)]);
  }
  result.norm_weight = pointer(tensors[2 * kMlpLinears]);
  result.norm_bias = pointer(tensors[2 * kMlpLinears + 1]);
  return result;
}

FusedMlpShape fused_shape(const Tensor& u, std::optional<double> share, const Tensor& used) {
  return {u.size(0),
          u.size(1),
          u.size(2),
          share.has_value(),
          float(share.value_or(1)),
          used.defined() ? data<int32_t>(used) : nullptr};
}

struct FusedMlp : torch::autograd::Function<FusedMlp> {
  static Tensor forward(AutogradContext* context, const Tensor& u_, std::optional<double> share,
                        const OptionalTensor& used_, at::TensorList given) {
    const Tensor u = u_.contiguous();
    variable_list parameters;
    for (const Tensor& tensor : given) parameters.push_back(tensor.contiguous());
    const Tensor used = used_.value_or(Tensor());
    const FusedMlpShape shape = fused_shape(u, share, used);
    const Launch launch(u.device());
    const Tensor packed =
        at::empty({int64_t(fused_mlp_packed_bytes(shape))}, u.options().dtype(at::kByte));
    const auto read = [](const Tensor& tensor) { return data<float>(tensor); };
    fused_mlp_pack(shape, fused_parameters<const float>(parameters, read),
                   packed.mutable_data_ptr(), launch.stream());
    const Tensor y = share ? at::empty({u.size(1), u.size(2)}, u.options()) : at::empty_like(u);
    fused_mlp(shape, packed.const_data_ptr(), data<BFloat16>(u), mutable_data<BFloat16>(y),
              launch.stream());
    context->save_for_backward({u, packed, used});
    context->saved_data["share"] = share;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &u = saved[0], &packed = saved[1], grad_y = grads[0].contiguous();
    const FusedMlpShape shape =
        fused_shape(u, context->saved_data["share"].to<std::optional<double>>(), saved[2]);
    const Tensor grad_u = at::empty_like(u);
    const auto options = u.options().dtype(at::kFloat);
    variable_list gradients;
    for (size_t i = 0; i < kParameters; ++i)
      gradients.push_back(
          at::empty({shape.graphs, i < kMlpLinears ? shape.width : 1, shape.width}, options));
    Launch launch(u.device());
    void* workspace = launch.workspace(fused_mlp_backward_workspace(shape));
    const auto write = [](const Tensor& tensor) { return mutable_data<float>(tensor); };
    fused_mlp_backward(shape, packed.const_data_ptr(), data<BFloat16>(u), data<BFloat16>(grad_y),
                       mutable_data<BFloat16>(grad_u), fused_parameters<float>(gradients, write),
                       workspace, launch.stream());
    variable_list result = {grad_u, Tensor(), Tensor()};
    result.insert(result.end(), gradients.begin(), gradients.end());
    return result;
  }
};

}  // namespace

bool can_fuse_mlp(const at::Tensor& u) {
  if (!u.is_cuda() || u.scalar_type() != at::kBFloat16) return false;
  const c10::DeviceGuard guard(u.device());
  return fused_mlp_fits(u.size(-1));
}

at::Tensor fused_mlp(const at::Tensor& u, const MlpParameters& parameters,
                     std::optional<double> share, const at::Tensor& used) {
  variable_list tensors(parameters.weight.begin(), parameters.weight.end());
  tensors.insert(tensors.end(), parameters.bias.begin(), parameters.bias.end());
  tensors.push_back(parameters.norm_weight);
  tensors.push_back(parameters.norm_bias);
  LACUNA_ASSERT(tensors.size() == kParameters);
  return FusedMlp::apply(u, share, used.defined() ? OptionalTensor(used) : std::nullopt,
                         at::TensorList(tensors));
}
#else
bool can_fuse_mlp(const at::Tensor&) { return false; }
at::Tensor fused_mlp(const at::Tensor&, const MlpParameters&, std::optional<double>,
                     const at::Tensor&) {
  throw Error("this build has no CUDA, and so no fused MLP; ask can_fuse_mlp() first");
}
#endif

}  // namespace lacuna
