#include "lacuna/torch/row_mlp.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "lacuna/ops/dense/row_linear.h"
#include "lacuna/ops/dense/row_mlp.h"
#include "lacuna/ops/dense/row_pool.h"
#include "lacuna/torch/operators.h"

namespace lacuna {
namespace {

using namespace torch_ops;

// Weights, biases, the norm's two.
template <class Param, class Pointer>
RowMlpParameters<Param> row_parameters(const variable_list& tensors, const Pointer& pointer) {
  RowMlpParameters<Param> result;
  for (size_t l = 0; l < kRowLinears; ++l) {
    result.weight[l] = pointer(tensors[l]);
    result.bias[l] = pointer(tensors[kRowLinears + l]);
  }
  result.scale = pointer(tensors[2 * kRowLinears]);
  result.shift = pointer(tensors[2 * kRowLinears + 1]);
  return result;
}

template <class Real>
RowMlpCall<Real> row_call(const Tensor& u, const Tensor& used, const variable_list& parameters) {
  using Param = Parameter<Real>;
  return {.graphs = u.size(0),
          .rows = u.size(1),
          .width = u.size(2),
          .used = used.defined() ? data<int32_t>(used) : nullptr,
          .parameters = row_parameters<const Param>(
              parameters, [](const Tensor& tensor) { return data<Param>(tensor); }),
          .u = data<Real>(u),
          .threads = at::get_num_threads()};
}

struct RowMlpFunction : torch::autograd::Function<RowMlpFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& u_, const OptionalTensor& used_,
                        at::TensorList given) {
    const Tensor u = u_.contiguous(), used = used_.value_or(Tensor());
    variable_list parameters;
    for (const Tensor& tensor : given) parameters.push_back(tensor.contiguous());
    const Tensor y = at::empty_like(u);
    with_real(u.scalar_type(), [&]<class Real>(Real) {
      lacuna::row_mlp(row_call<Real>(u, used, parameters), mutable_data<Real>(y));
    });
    parameters.insert(parameters.end(), {u, used});
    context->save_for_backward(std::move(parameters));
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    auto parameters = context->get_saved_variables();
    const Tensor used = parameters.back(), u = parameters[parameters.size() - 2];
    parameters.resize(parameters.size() - 2);
    const Tensor grad_y = grads[0].contiguous(), grad_u = at::empty_like(u);
    variable_list gradients;
    for (const Tensor& tensor : parameters) gradients.push_back(at::empty_like(tensor));
    with_real(u.scalar_type(), [&]<class Real>(Real) {
      using Param = Parameter<Real>;
      const auto write = [](const Tensor& tensor) { return mutable_data<Param>(tensor); };
      row_mlp_backward(row_call<Real>(u, used, parameters), data<Real>(grad_y),
                       mutable_data<Real>(grad_u), row_parameters<Param>(gradients, write));
    });
    variable_list result = {grad_u, Tensor()};
    result.insert(result.end(), gradients.begin(), gradients.end());
    return result;
  }
};

}  // namespace

at::Tensor row_linear(const at::Tensor& x_, const at::Tensor& weight_, const at::Tensor& bias_) {
  const Tensor x = x_.contiguous(), weight = weight_.contiguous(), bias = bias_.contiguous();
  const Tensor y = at::empty({x.size(0), weight.size(1)}, x.options());
  with_real(x.scalar_type(), [&]<class Real>(Real) {
    using Param = Parameter<Real>;
    lacuna::row_linear<Real>({.rows = x.size(0),
                              .in = x.size(1),
                              .out = weight.size(1),
                              .x = data<Real>(x),
                              .weight = data<Param>(weight),
                              .bias = data<Param>(bias),
                              .threads = at::get_num_threads()},
                             mutable_data<Real>(y));
  });
  return y;
}

at::Tensor row_mlp(const at::Tensor& u, const MlpParameters& parameters, const at::Tensor& used) {
  variable_list tensors(parameters.weight.begin(), parameters.weight.end());
  tensors.insert(tensors.end(), parameters.bias.begin(), parameters.bias.end());
  tensors.insert(tensors.end(), {parameters.norm_weight, parameters.norm_bias});
  return RowMlpFunction::apply(u, used.defined() ? OptionalTensor(used) : std::nullopt,
                               at::TensorList(tensors));
}

at::Tensor row_pool(const at::Tensor& x_, const at::Tensor& keep_,
                    const PoolParameters& parameters) {
  const Tensor x = x_.contiguous(), keep = keep_.contiguous();
  const Tensor out =
      at::empty({x.size(1), x.size(2)}, x.options().dtype(parameter_dtype(x.scalar_type())));
  with_real(x.scalar_type(), [&]<class Real>(Real) {
    using Param = Parameter<Real>;
    const RowPoolCall<Real> call = {.nodes = x.size(0),
                                    .samples = x.size(1),
                                    .width = x.size(2),
                                    .hidden = parameters.gate_hidden_weight.size(1),
                                    .x = data<Real>(x),
                                    .keep = data<bool>(keep),
                                    .hidden_weight = data<Param>(parameters.gate_hidden_weight),
                                    .hidden_bias = data<Param>(parameters.gate_hidden_bias),
                                    .gate_weight = data<Param>(parameters.gate_weight),
                                    .gate_bias = data<Param>(parameters.gate_bias),
                                    .value_weight = data<Param>(parameters.value_weight),
                                    .value_bias = data<Param>(parameters.value_bias),
                                    .threads = at::get_num_threads()};
    lacuna::row_pool(call, mutable_data<Param>(out));
  });
  return out;
}

}  // namespace lacuna
