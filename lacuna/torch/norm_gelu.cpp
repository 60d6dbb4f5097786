#include "lacuna/torch/norm_gelu.h"

#include <ATen/ATen.h>

#include "lacuna/torch/stop_point.h"
#if LACUNA_HAVE_CUDA
#include <torch/csrc/autograd/custom_function.h>

#include "lacuna/ops/dense/norm_gelu_cuda.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna {
namespace {

constexpr double kEps = 1e-5;

at::Tensor by_torch(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto dtype = x.scalar_type();
  const auto normed = at::layer_norm(x, {x.size(-1)}, {}, {}, kEps);
  stop_point(normed);
  const auto shifted = at::addcmul(bias.to(dtype), normed, weight.to(dtype));
  stop_point(shifted);
  return at::gelu(shifted);
}

#if LACUNA_HAVE_CUDA
using namespace torch_ops;

// Calls body(Real()) for f32 or bf16.
template <class Body>
void with_float(at::ScalarType dtype, const Body& body) {
  dtype == at::kFloat ? body(float()) : body(BFloat16());
}

struct NormGelu : torch::autograd::Function<NormGelu> {
  static NormGeluShape shape_of(const Tensor& x) { return {x.size(0), x.size(1), x.size(2)}; }

  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x_,
                        const Tensor& weight_, const Tensor& bias_) {
    const Tensor x = x_.contiguous(), weight = weight_.contiguous(), bias = bias_.contiguous();
    context->save_for_backward({x, weight, bias});
    const Tensor y = at::empty_like(x);
    const Launch launch(x.device());
    with_float(x.scalar_type(), [&]<class Real>(Real) {
      norm_gelu_cuda<Real>(shape_of(x), data<Real>(x), data<float>(weight), data<float>(bias),
                           mutable_data<Real>(y), launch.stream());
    });
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const Tensor grad = grads[0].contiguous();
    const Tensor grad_x = at::empty_like(x), grad_weight = at::empty_like(weight),
                 grad_bias = at::empty_like(bias);
    Launch launch(x.device());
    void* workspace = launch.workspace(norm_gelu_cuda_workspace(shape_of(x)));
    with_float(x.scalar_type(), [&]<class Real>(Real) {
      norm_gelu_backward_cuda<Real>(shape_of(x), data<Real>(x), data<float>(weight),
                                    data<float>(bias), data<Real>(grad), mutable_data<Real>(grad_x),
                                    mutable_data<float>(grad_weight),
                                    mutable_data<float>(grad_bias), workspace, launch.stream());
    });
    return {grad_x, grad_weight, grad_bias};
  }
};

bool fits(const Tensor& x, const Tensor& weight) {
  const auto dtype = x.scalar_type();
  return x.is_cuda() && (dtype == at::kFloat || dtype == at::kBFloat16) &&
         weight.scalar_type() == at::kFloat && norm_gelu_cuda_fits(x.size(-1));
}
#endif

}  // namespace

at::Tensor norm_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
#if LACUNA_HAVE_CUDA
  if (fits(x, weight)) return NormGelu::apply(x, weight, bias);
#endif
  return by_torch(x, weight, bias);
}

}  // namespace lacuna
