#include "lacuna/torch/fused_pool.h"

#include <ATen/ATen.h>

#include "lacuna/core/error.h"
#if LACUNA_HAVE_CUDA
#include <torch/csrc/autograd/custom_function.h>

#include "lacuna/ops/dense/fused_pool.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna {

#if LACUNA_HAVE_CUDA
namespace {

using namespace torch_ops;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedPool : torch::autograd::Function<FusedPool> {
  static FusedPoolShape shape_of(const Tensor& x) { return {x.size(0), x.size(1), x.size(2)}; }

  // given: in the order of PoolParameters
  static Tensor forward(AutogradContext* context, const Tensor& x_, const Tensor& keep_,
                        at::TensorList given) {
    const Tensor x = x_.contiguous(), keep = keep_.contiguous();
    variable_list parameters;
    for (const Tensor& tensor : given) parameters.push_back(tensor.contiguous());
    const auto f32 = x.options().dtype(at::kFloat);
    const Tensor packed =
        at::empty({int64_t(fused_pool_packed_bytes())}, x.options().dtype(at::kByte));
    const Tensor pooled = at::empty({x.size(1), x.size(2)}, f32),
                 logits = at::empty({x.size(1), x.size(0)}, f32), lse = at::empty({x.size(1)}, f32);
    Launch launch(x.device());
    const auto at = [&](size_t i) { return data<float>(parameters[i]); };
    fused_pool_pack({at(0), at(1), at(2), at(3), at(4), at(5)}, packed.mutable_data_ptr(),
                    launch.stream());
    void* workspace = launch.workspace(fused_pool_workspace(shape_of(x)));
    lacuna::fused_pool(shape_of(x), packed.const_data_ptr(), data<BFloat16>(x), data<uint8_t>(keep),
                       mutable_data<float>(pooled), mutable_data<float>(logits),
                       mutable_data<float>(lse), workspace, launch.stream());
    context->save_for_backward({x, keep, packed, logits, lse, pooled});
    return pooled;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &keep = saved[1], &packed = saved[2], &logits = saved[3],
                 &lse = saved[4], &pooled = saved[5], grad = grads[0].contiguous();
    const int64_t width = x.size(2), hidden = width / 2;
    const Tensor grad_x = at::empty_like(x);
    variable_list gradients;
    for (const std::vector<int64_t>& size :
         {std::vector<int64_t>{width, hidden}, {hidden}, {hidden, 1}, {1}, {width, width}, {width}})
      gradients.push_back(at::empty(size, grad.options()));
    Launch launch(x.device());
    void* workspace = launch.workspace(fused_pool_workspace(shape_of(x)));
    const auto at = [&](size_t i) { return mutable_data<float>(gradients[i]); };
    fused_pool_backward(shape_of(x), packed.const_data_ptr(), data<BFloat16>(x),
                        data<uint8_t>(keep), data<float>(pooled), data<float>(logits),
                        data<float>(lse), data<float>(grad), mutable_data<BFloat16>(grad_x),
                        {at(0), at(1), at(2), at(3), at(4), at(5)}, workspace, launch.stream());
    variable_list result = {grad_x, Tensor()};
    result.insert(result.end(), gradients.begin(), gradients.end());
    return result;
  }
};

}  // namespace

bool can_fuse_pool(const at::Tensor& x) {
  if (!x.is_cuda() || x.scalar_type() != at::kBFloat16) return false;
  const c10::DeviceGuard guard(x.device());
  return fused_pool_fits(x.size(-1));
}

at::Tensor fused_pool(const at::Tensor& x, const at::Tensor& keep,
                      const PoolParameters& parameters) {
  const variable_list tensors = {parameters.gate_hidden_weight, parameters.gate_hidden_bias,
                                 parameters.gate_weight,        parameters.gate_bias,
                                 parameters.value_weight,       parameters.value_bias};
  return FusedPool::apply(x, keep, at::TensorList(tensors));
}
#else
bool can_fuse_pool(const at::Tensor&) { return false; }
at::Tensor fused_pool(const at::Tensor&, const at::Tensor&, const PoolParameters&) {
  throw Error("this build has no CUDA, and so no fused pool; ask can_fuse_pool() first");
}
#endif

}  // namespace lacuna
