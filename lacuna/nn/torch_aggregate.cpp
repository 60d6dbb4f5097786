// torch.ops.lacuna.aggregate: lacuna/ops/aggregate.h on tensors, with its gradient.
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "lacuna/nn/torch_common.h"

namespace lacuna::torch_ops {
namespace {

using Gradients = std::tuple<Tensor, Tensor, Tensor>;  // of x, values, eps

// ---- checks and shapes, for real and meta tensors alike
AggregateOptions options_of(std::string_view reduce, bool sum_types) {
  return {
      .reduce = reduce_from_name(reduce), .sum_types = sum_types, .threads = at::get_num_threads()};
}

void check_parameters(const GraphSizes& sizes, const AggregateOptions& options, at::ScalarType real,
                      c10::Device device, const OptionalTensor& values, const OptionalTensor& eps) {
  if (options.reduce == Reduce::max && options.sum_types)
    throw Error("sum_types cannot go with reduce 'max'");
  if (given(values)) {
    if (options.reduce != Reduce::sum)
      throw Error("values cannot go with reduce '{}', only with 'sum'", name(options.reduce));
    check_device("values", *values, device);
    check_dtype("values", *values, parameter_dtype(real));
    check_dim("values", *values, 1, "[E]");
    check_size("values", *values, 0, sizes.edges, "[E]");
  }
  if (given(eps)) {
    check_device("eps", *eps, device);
    check_dtype("eps", *eps, parameter_dtype(real));
    check_dim("eps", *eps, 1, "[T]");
    check_size("eps", *eps, 0, sizes.types, "[T]");
  }
}

void check_x(const GraphSizes& sizes, const Tensor& x, const c10::SymInt& batch) {
  check_real("x", x);
  check_dim("x", x, 3, "[N, B, H]");
  check_size("x", x, 0, sizes.nodes, "[N, B, H]");
  check_size("x", x, 1, batch, "[N, B, H]");
}

c10::SymDimVector out_shape(const GraphSizes& sizes, bool sum_types, const c10::SymInt& batch,
                            const c10::SymInt& width) {
  if (sum_types) return {sizes.nodes, batch, width};
  return {sizes.types, sizes.nodes, batch, width};
}

void check_grad(const GraphSizes& sizes, bool sum_types, const Tensor& grad,
                const c10::SymInt& batch) {
  const char* shape = sum_types ? "[N, B, H]" : "[T, N, B, H]";
  check_real("grad", grad);
  check_dim("grad", grad, sum_types ? 3 : 4, shape);
  if (!sum_types) check_size("grad", grad, 0, sizes.types, shape);
  check_size("grad", grad, sum_types ? 0 : 1, sizes.nodes, shape);
  check_size("grad", grad, sum_types ? 1 : 2, batch, shape);
}

// The tensors that a backward writes; an empty one where no gradient is asked for.
Gradients make_gradients(const GraphSizes& sizes, const Tensor& grad, c10::SymIntArrayRef x_shape,
                         bool need_values, bool need_eps) {
  const auto options = grad.options();
  const auto parameters = options.dtype(parameter_dtype(grad.scalar_type()));
  return {at::empty_symint(x_shape, options),
          at::empty({need_values ? sizes.edges : 0}, parameters),
          at::empty({need_eps ? sizes.types : 0}, parameters)};
}

// ---- aggregate
Tensor make_out(at::TensorList graph, at::IntArrayRef size_list, const Tensor& x,
                const Tensor& removed, const Tensor& ptr, std::string_view reduce, bool sum_types,
                const OptionalTensor& values, const OptionalTensor& eps) {
  const GraphSizes sizes(size_list);
  const AggregateOptions options = options_of(reduce, sum_types);
  check_graph(graph, x.device());
  check_removed_shapes(removed, ptr, x.device());
  const c10::SymInt batch = ptr.sym_size(0) - 1;
  check_x(sizes, x, batch);
  check_parameters(sizes, options, x.scalar_type(), x.device(), values, eps);
  return at::empty_symint(out_shape(sizes, sum_types, batch, x.sym_size(2)), x.options());
}

Tensor aggregate_cpu(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x,
                     const Tensor& removed, const Tensor& ptr, std::string_view reduce,
                     bool sum_types, const OptionalTensor& values, const OptionalTensor& eps) {
  const Tensor out = make_out(graph, sizes, x, removed, ptr, reduce, sum_types, values, eps);
  const GraphPlan plan = plan_of(graph, GraphSizes(sizes));
  const Tensor x_ = x.contiguous(), removed_ = removed.contiguous(), ptr_ = ptr.contiguous();
  const OptionalTensor values_ = contiguous(values), eps_ = contiguous(eps);
  with_real(x.scalar_type(), [&]<class Real>(Real) {
    aggregate<Real>(plan, options_of(reduce, sum_types), x.size(2), data<Real>(x_),
                    removed_view(removed_, ptr_), data<Parameter<Real>>(values_),
                    data<Parameter<Real>>(eps_), mutable_data<Real>(out));
  });
  return out;
}

Gradients make_gradients_of(at::TensorList graph, at::IntArrayRef size_list, const Tensor& grad,
                            const OptionalTensor& x, const Tensor& removed, const Tensor& ptr,
                            std::string_view reduce, bool sum_types, const OptionalTensor& values,
                            const OptionalTensor& eps, bool need_values, bool need_eps) {
  const GraphSizes sizes(size_list);
  const AggregateOptions options = options_of(reduce, sum_types);
  check_graph(graph, grad.device());
  check_removed_shapes(removed, ptr, grad.device());
  const c10::SymInt batch = ptr.sym_size(0) - 1;
  check_grad(sizes, sum_types, grad, batch);
  check_parameters(sizes, options, grad.scalar_type(), grad.device(), values, eps);
  const c10::SymInt width = grad.sym_size(-1);
  const c10::SymDimVector x_shape = {sizes.nodes, batch, width};
  if (given(x)) {
    check_device("x", *x, grad.device());
    check_dtype("x", *x, grad.scalar_type());
    check_x(sizes, *x, batch);
    check_size("x", *x, 2, width, "[N, B, H]");
  } else if (need_values || need_eps || options.reduce == Reduce::max) {
    throw Error("x is missing, but gradients of values, of eps and of reduce 'max' read it");
  }
  return make_gradients(sizes, grad, x_shape, need_values, need_eps);
}

Gradients aggregate_backward_cpu(at::TensorList graph, at::IntArrayRef sizes, const Tensor& grad,
                                 const OptionalTensor& x, const Tensor& removed, const Tensor& ptr,
                                 std::string_view reduce, bool sum_types,
                                 const OptionalTensor& values, const OptionalTensor& eps,
                                 bool need_values, bool need_eps) {
  const Gradients out = make_gradients_of(graph, sizes, grad, x, removed, ptr, reduce, sum_types,
                                          values, eps, need_values, need_eps);
  const auto& [grad_x, grad_values, grad_eps] = out;
  const GraphPlan plan = plan_of(graph, GraphSizes(sizes));
  const Tensor grad_ = grad.contiguous(), removed_ = removed.contiguous(), ptr_ = ptr.contiguous();
  const OptionalTensor x_ = contiguous(x), values_ = contiguous(values), eps_ = contiguous(eps);
  with_real(grad.scalar_type(), [&, grad_x = grad_x, grad_values = grad_values,
                                 grad_eps = grad_eps]<class Real>(Real) {
    using Param = Parameter<Real>;
    aggregate_backward<Real>(plan, options_of(reduce, sum_types), grad.size(-1), data<Real>(grad_),
                             data<Real>(x_), removed_view(removed_, ptr_), data<Param>(values_),
                             data<Param>(eps_), mutable_data<Real>(grad_x),
                             need_eps ? mutable_data<Param>(grad_eps) : nullptr,
                             need_values ? mutable_data<Param>(grad_values) : nullptr);
  });
  return out;
}

// ---- autograd
template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

Tensor call_aggregate(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x,
                      const Tensor& removed, const Tensor& ptr, std::string_view reduce,
                      bool sum_types, const OptionalTensor& values, const OptionalTensor& eps) {
  static const auto op = find_operator<decltype(aggregate_cpu)>("lacuna::aggregate");
  return op.call(graph, sizes, x, removed, ptr, reduce, sum_types, values, eps);
}

bool needs_gradient(const OptionalTensor& tensor) {
  return given(tensor) && tensor->requires_grad();
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What an aggregation has besides its differentiable arguments.
struct Fixed {
  std::vector<Tensor> graph;
  std::vector<int64_t> sizes;
  Tensor removed, ptr;
  std::string reduce;
  bool sum_types;
};

struct AggregateFunction : torch::autograd::Function<AggregateFunction> {
  static Tensor forward(AutogradContext* context, const Fixed& fixed, const Tensor& x,
                        const OptionalTensor& values, const OptionalTensor& eps) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const bool keeps_x = fixed.reduce == "max" || needs_gradient(values) || needs_gradient(eps);
    variable_list saved = {keeps_x ? x : Tensor(), values.value_or(Tensor()),
                           eps.value_or(Tensor()), fixed.removed, fixed.ptr};
    saved.insert(saved.end(), fixed.graph.begin(), fixed.graph.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["sizes"] = fixed.sizes;
    context->saved_data["reduce"] = fixed.reduce;
    context->saved_data["sum_types"] = fixed.sum_types;
    context->saved_data["need_values"] = needs_gradient(values);
    context->saved_data["need_eps"] = needs_gradient(eps);
    return call_aggregate(fixed.graph, fixed.sizes, x, fixed.removed, fixed.ptr, fixed.reduce,
                          fixed.sum_types, values, eps);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    static const auto op =
        find_operator<decltype(aggregate_backward_cpu)>("lacuna::aggregate_backward");
    const variable_list saved = context->get_saved_variables();
    const auto optional = [&](size_t i) {
      return saved[i].defined() ? OptionalTensor(saved[i]) : std::nullopt;
    };
    auto& fixed = context->saved_data;
    const bool need_values = fixed["need_values"].toBool(), need_eps = fixed["need_eps"].toBool();
    auto [grad_x, grad_values, grad_eps] =
        op.call(at::TensorList(saved).slice(5), fixed["sizes"].toIntVector(), grads[0], optional(0),
                saved[3], saved[4], fixed["reduce"].toStringView(), fixed["sum_types"].toBool(),
                optional(1), optional(2), need_values, need_eps);
    return {Tensor(), grad_x, need_values ? grad_values : Tensor(), need_eps ? grad_eps : Tensor()};
  }
};

Tensor aggregate_autograd(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x,
                          const Tensor& removed, const Tensor& ptr, std::string_view reduce,
                          bool sum_types, const OptionalTensor& values, const OptionalTensor& eps) {
  const Fixed fixed = {graph.vec(), sizes.vec(), removed, ptr, std::string(reduce), sum_types};
  return AggregateFunction::apply(fixed, x, values, eps);
}

// ---- autocast: x goes to bf16 where that is autocast's choice, and to f32 where that is f16,
// which no operator here computes in. values and eps stay as they are; f64 is left alone.
template <c10::DeviceType device>
Tensor autocast_real(const Tensor& x) {
  const auto chosen = at::autocast::get_autocast_dtype(device);
  return at::autocast::cached_cast(chosen == at::kBFloat16 ? at::kBFloat16 : at::kFloat, x, device);
}

template <c10::DeviceType device>
Tensor aggregate_autocast(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x,
                          const Tensor& removed, const Tensor& ptr, std::string_view reduce,
                          bool sum_types, const OptionalTensor& values, const OptionalTensor& eps) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  return call_aggregate(graph, sizes, autocast_real<device>(x), removed, ptr, reduce, sum_types,
                        values, eps);
}

}  // namespace
}  // namespace lacuna::torch_ops

TORCH_LIBRARY_IMPL(lacuna, CPU, m) {
  m.impl("aggregate", lacuna::torch_ops::aggregate_cpu);
  m.impl("aggregate_backward", lacuna::torch_ops::aggregate_backward_cpu);
}
TORCH_LIBRARY_IMPL(lacuna, Meta, m) {
  m.impl("aggregate", lacuna::torch_ops::make_out);
  m.impl("aggregate_backward", lacuna::torch_ops::make_gradients_of);
}
TORCH_LIBRARY_IMPL(lacuna, Autograd, m) {
  m.impl("aggregate", lacuna::torch_ops::aggregate_autograd);
  m.impl("aggregate_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(lacuna, AutocastCPU, m) {
  m.impl("aggregate", lacuna::torch_ops::aggregate_autocast<c10::kCPU>);
}
TORCH_LIBRARY_IMPL(lacuna, AutocastCUDA, m) {
  m.impl("aggregate", lacuna::torch_ops::aggregate_autocast<c10::kCUDA>);
}
