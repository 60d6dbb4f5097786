// What the aggregation operators (aggregate, aggregate_shared, aggregate_masked) have in common:
// options, checks, the shapes of results, gradients, autocast. Only for their .cpp files.
//
// An operator differs from the others in its Form: what says which nodes or edges a sample keeps
// (removed and ptr, or masks), and the operators it calls.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

#include "lacuna/torch/common.h"

namespace lacuna::torch_ops {

using Gradients = std::tuple<Tensor, Tensor, Tensor>;  // of x, values, eps

// ---- checks and shapes, for real and meta tensors alike
inline AggregateOptions options_of(std::string_view reduce, bool sum_types) {
  return {
      .reduce = reduce_from_name(reduce), .sum_types = sum_types, .threads = at::get_num_threads()};
}

inline void check_parameters(const GraphSizes& sizes, const AggregateOptions& options,
                             const Tensor& like, const OptionalTensor& values,
                             const OptionalTensor& eps) {
  const auto dtype = parameter_dtype(like.scalar_type());
  if (options.reduce == Reduce::max && options.sum_types)
    throw Error("sum_types cannot go with reduce 'max'; take the types one by one");
  if (given(values)) {
    if (options.reduce != Reduce::sum)
      throw Error("values cannot go with reduce '{}', only with 'sum'", name(options.reduce));
    check_device("values", *values, like.device());
    check_dtype("values", *values, dtype);
    check_dim("values", *values, 1, "[E]");
    check_size("values", *values, 0, sizes.edges, "[E]");
  }
  if (given(eps)) {
    check_device("eps", *eps, like.device());
    check_dtype("eps", *eps, dtype);
    check_dim("eps", *eps, 1, "[T]");
    check_size("eps", *eps, 0, sizes.types, "[T]");
  }
}

// x is [N, B, H], or [N, H] where the samples share it.
inline void check_x(const GraphSizes& sizes, const Tensor& x, const c10::SymInt& batch,
                    bool shared = false) {
  const char* shape = shared ? "[N, H]" : "[N, B, H]";
  check_real("x", x);
  check_dim("x", x, shared ? 2 : 3, shape);
  check_size("x", x, 0, sizes.nodes, shape);
  if (!shared) check_size("x", x, 1, batch, shape);
  if (x.sym_size(-1) < 1)
    throw Error("x has shape {}, but a width of 1 or more is needed", text(x.sym_sizes()));
}

// [T, N, B, H], or [N, B, H] where types are summed; as x otherwise.
inline Tensor make_out(const GraphSizes& sizes, bool sum_types, const Tensor& x,
                       const c10::SymInt& batch) {
  c10::SymDimVector shape = {sizes.nodes, batch, x.sym_size(-1)};
  if (!sum_types) shape.insert(shape.begin(), sizes.types);
  return at::empty_symint(shape, x.options());
}

// The tensors that a backward writes, after its checks; an empty one where no gradient is asked
// for.
inline Gradients make_gradients(const GraphSizes& sizes, const AggregateOptions& options,
                                const Tensor& grad, const OptionalTensor& x,
                                const c10::SymInt& batch, bool shared, bool need_values,
                                bool need_eps) {
  const bool summed = options.sum_types;
  const char* shape = summed ? "[N, B, H]" : "[T, N, B, H]";
  check_real("grad", grad);
  check_dim("grad", grad, summed ? 3 : 4, shape);
  if (!summed) check_size("grad", grad, 0, sizes.types, shape);
  check_size("grad", grad, summed ? 0 : 1, sizes.nodes, shape);
  check_size("grad", grad, summed ? 1 : 2, batch, shape);
  const c10::SymInt width = grad.sym_size(-1);
  if (given(x)) {
    check_device("x", *x, grad.device());
    check_dtype("x", *x, grad.scalar_type());
    check_x(sizes, *x, batch, shared);
    check_size("x", *x, shared ? 1 : 2, width, shared ? "[N, H]" : "[N, B, H]");
  } else if (need_values || need_eps || options.reduce == Reduce::max) {
    throw Error("x is missing, but gradients of values, of eps and of reduce 'max' read it");
  }
  c10::SymDimVector x_shape = {sizes.nodes, width};
  if (!shared) x_shape.insert(x_shape.begin() + 1, batch);
  const auto parameters = grad.options().dtype(parameter_dtype(grad.scalar_type()));
  return {at::empty_symint(x_shape, grad.options()),
          at::empty({need_values ? sizes.edges : 0}, parameters),
          at::empty({need_eps ? sizes.types : 0}, parameters)};
}

template <class T>
T* data_if(bool needed, const Tensor& tensor) {
  return needed ? mutable_data<T>(tensor) : nullptr;
}

// ---- autograd
template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What an aggregation has besides its differentiable arguments and its Form.
struct Fixed {
  std::vector<Tensor> graph;
  std::vector<int64_t> sizes;
  std::string reduce;
  bool sum_types;
};

// Form is an aggregate of two tensors and a list of numbers (first, second, numbers), which are
// saved for the backward pass, with
//   Tensor forward(fixed, x, values, eps) const
//   Gradients backward(fixed, grad, x, values, eps, need_values, need_eps) const
template <class Form>
struct AggregateFunction : torch::autograd::Function<AggregateFunction<Form>> {
  static Tensor forward(AutogradContext* context, const Fixed& fixed, const Form& form,
                        const Tensor& x, const OptionalTensor& values, const OptionalTensor& eps) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto trained = [](const OptionalTensor& t) { return given(t) && t->requires_grad(); };
    const bool keeps_x = fixed.reduce == "max" || trained(values) || trained(eps);
    variable_list saved = {keeps_x ? x : Tensor(), values.value_or(Tensor()),
                           eps.value_or(Tensor()), form.first, form.second};
    saved.insert(saved.end(), fixed.graph.begin(), fixed.graph.end());
    context->save_for_backward(std::move(saved));
    auto& data = context->saved_data;
    data["sizes"] = fixed.sizes;
    data["reduce"] = fixed.reduce;
    data["sum_types"] = fixed.sum_types;
    data["numbers"] = form.numbers;
    data["need_values"] = trained(values);
    data["need_eps"] = trained(eps);
    return form.forward(fixed, x, values, eps);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const auto optional = [&](size_t i) {
      return saved[i].defined() ? OptionalTensor(saved[i]) : std::nullopt;
    };
    auto& data = context->saved_data;
    const Fixed fixed = {{saved.begin() + 5, saved.end()},
                         data["sizes"].toIntVector(),
                         data["reduce"].toStringRef(),
                         data["sum_types"].toBool()};
    const Form form = {saved[3], saved[4], data["numbers"].toIntVector()};
    const bool need_values = data["need_values"].toBool(), need_eps = data["need_eps"].toBool();
    auto [grad_x, grad_values, grad_eps] = form.backward(fixed, grads[0], optional(0), optional(1),
                                                         optional(2), need_values, need_eps);
    return {Tensor(), Tensor(), grad_x, need_values ? grad_values : Tensor(),
            need_eps ? grad_eps : Tensor()};
  }
};

// ---- autocast: x goes to bf16 where that is autocast's choice, and to f32 where that is f16,
// which no operator here computes in. values and eps stay as they are; f64 is left alone.
template <c10::DeviceType device>
Tensor autocast_real(const Tensor& x) {
  const auto chosen = at::autocast::get_autocast_dtype(device);
  return at::autocast::cached_cast(chosen == at::kBFloat16 ? at::kBFloat16 : at::kFloat, x, device);
}

template <c10::DeviceType device>
c10::impl::ExcludeDispatchKeyGuard without_autocast() {
  return c10::impl::ExcludeDispatchKeyGuard(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
}

}  // namespace lacuna::torch_ops
