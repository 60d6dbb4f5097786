#include "lacuna/torch/fused_attention.h"

#include <ATen/ATen.h>

#include "lacuna/core/error.h"
#if LACUNA_HAVE_CUDA
#include <torch/csrc/autograd/custom_function.h>

#include "lacuna/ops/dense/fused_attention.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna {

#if LACUNA_HAVE_CUDA
namespace {

using namespace torch_ops;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// In this order: position, the weights of q, k and v, their biases, and the last Linear's two.
constexpr size_t kOutWeight = 1 + 2 * kAttentionLinears, kOutBias = kOutWeight + 1;

template <class Real, class Pointer>
FusedAttentionParameters<Real> attention_parameters(const variable_list& tensors,
                                                    const Pointer& pointer) {
  FusedAttentionParameters<Real> result;
  result.position = pointer(tensors[0]);
  for (size_t l = 0; l < kAttentionLinears; ++l) {
    result.weight[l] = pointer(tensors[1 + l]);
    result.bias[l] = pointer(tensors[1 + kAttentionLinears + l]);
  }
  return result;
}

FusedAttentionShape attention_shape(const Tensor& y, const Tensor& used) {
  return {y.size(0), y.size(1), y.size(2), used.defined() ? data<int32_t>(used) : nullptr};
}

struct FusedAttention : torch::autograd::Function<FusedAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& y_, const OptionalTensor& used_,
                        at::TensorList given) {
    const Tensor y = y_.contiguous(), used = used_.value_or(Tensor());
    variable_list parameters;
    for (const Tensor& tensor : given) parameters.push_back(tensor.contiguous());
    const FusedAttentionShape shape = attention_shape(y, used);
    const Launch launch(y.device());
    const Tensor packed =
        at::empty({int64_t(fused_attention_packed_bytes(shape))}, y.options().dtype(at::kByte));
    const auto read = [](const Tensor& tensor) { return data<float>(tensor); };
    fused_attention_pack(shape, attention_parameters<const float>(parameters, read),
                         packed.mutable_data_ptr(), launch.stream());
    // Rows that are not in use are left alone, and must be finite.
    const Tensor z = used.defined() ? at::zeros({shape.rows, shape.width}, y.options())
                                    : at::empty({shape.rows, shape.width}, y.options());
    fused_attention(shape, packed.const_data_ptr(), data<BFloat16>(y), mutable_data<BFloat16>(z),
                    launch.stream());
    const Tensor weight = parameters[kOutWeight].to(at::kBFloat16);
    context->save_for_backward({y, packed, used, z, weight});
    return at::addmm(parameters[kOutBias].to(at::kBFloat16), z, weight);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &y = saved[0], &packed = saved[1], &used = saved[2], &z = saved[3],
                 &weight = saved[4];
    Tensor grad_x = grads[0];
    if (used.defined()) {  // what stands in rows that are not in use is anything
      const Tensor row = at::arange(y.size(1), used.options()).unsqueeze(1);
      grad_x = at::where(row < used, grad_x, at::zeros({}, grad_x.options()));
    }
    const FusedAttentionShape shape = attention_shape(y, used);
    const Tensor grad_z = at::mm(grad_x, weight.t()), grad_y = at::empty_like(y);
    const auto options = y.options().dtype(at::kFloat);
    variable_list gradients = {at::empty({shape.graphs, shape.width}, options)};
    for (int l = 0; l < kAttentionLinears; ++l)
      gradients.push_back(at::empty({shape.width, shape.width}, options));
    for (int l = 0; l < kAttentionLinears; ++l)
      gradients.push_back(at::empty({shape.width}, options));
    Launch launch(y.device());
    void* workspace = launch.workspace(fused_attention_backward_workspace(shape));
    const auto write = [](const Tensor& tensor) { return mutable_data<float>(tensor); };
    fused_attention_backward(shape, packed.const_data_ptr(), data<BFloat16>(y),
                             data<BFloat16>(grad_z), mutable_data<BFloat16>(grad_y),
                             attention_parameters<float>(gradients, write), workspace,
                             launch.stream());
    variable_list result = {grad_y, Tensor()};
    result.insert(result.end(), gradients.begin(), gradients.end());
    result.push_back(at::mm(z.t(), grad_x).to(at::kFloat));
    result.push_back(grad_x.sum(0, /*keepdim=*/false, at::kFloat));
    return result;
  }
};

}  // namespace

bool can_fuse_attention(const at::Tensor& y) {
  if (!y.is_cuda() || y.scalar_type() != at::kBFloat16) return false;
  const c10::DeviceGuard guard(y.device());
  return fused_attention_fits(y.size(0), y.size(2));
}

at::Tensor fused_attention(const at::Tensor& y, const AttentionParameters& p,
                           const at::Tensor& used) {
  const variable_list tensors = {p.position,     p.query_weight, p.key_weight,
                                 p.value_weight, p.query_bias,   p.key_bias,
                                 p.value_bias,   p.out_weight,   p.out_bias};
  LACUNA_ASSERT(tensors.size() == kOutBias + 1);
  return FusedAttention::apply(y, used.defined() ? OptionalTensor(used) : std::nullopt,
                               at::TensorList(tensors));
}
#else
bool can_fuse_attention(const at::Tensor&) { return false; }
at::Tensor fused_attention(const at::Tensor&, const AttentionParameters&, const at::Tensor&) {
  throw Error("this build has no CUDA, and so no fused merge; ask can_fuse_attention() first");
}
#endif

}  // namespace lacuna
