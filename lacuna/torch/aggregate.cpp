// torch.ops.lacuna.aggregate, aggregate_shared and aggregate_masked: ops/aggregate/aggregate.h on
// tensors. They are one operator with three argument lists: aggregate_shared has another shape of
// x, aggregate_masked is told by masks instead of removed nodes which edges a sample keeps.
#include "lacuna/ops/aggregate/aggregate.h"

#include <ATen/Parallel.h>

#include <tuple>

#include "lacuna/torch/operators.h"
#if LACUNA_HAVE_CUDA
#include "lacuna/ops/aggregate/aggregate_cuda.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna::torch_ops {
namespace {

TORCH_LIBRARY_FRAGMENT(lacuna, m) {
  // x [N, B, H] -> [T, N, B, H], or [N, B, H] with sum_types
  m.def(
      "aggregate(Tensor[] graph, int[] sizes, Tensor x, Tensor removed, Tensor ptr, "
      "str reduce='sum', bool sum_types=False, Tensor? values=None, Tensor? eps=None) -> Tensor");
  m.def(
      "aggregate_backward(Tensor[] graph, int[] sizes, Tensor grad, Tensor? x, Tensor removed, "
      "Tensor ptr, str reduce, bool sum_types, Tensor? values, Tensor? eps, bool need_values, "
      "bool need_eps) -> (Tensor grad_x, Tensor grad_values, Tensor grad_eps)");
  // x [N, H], the same for all samples
  m.def(
      "aggregate_shared(Tensor[] graph, int[] sizes, Tensor x, Tensor removed, Tensor ptr, "
      "str reduce='sum', bool sum_types=False, Tensor? values=None, Tensor? eps=None) -> Tensor");
  m.def(
      "aggregate_shared_backward(Tensor[] graph, int[] sizes, Tensor grad, Tensor? x, "
      "Tensor removed, Tensor ptr, str reduce, bool sum_types, Tensor? values, Tensor? eps, "
      "bool need_values, bool need_eps) -> (Tensor grad_x, Tensor grad_values, Tensor grad_eps)");
  // masks u8 [B, stride]; offsets: where the mask of each type starts in a record
  m.def(
      "aggregate_masked(Tensor[] graph, int[] sizes, Tensor x, Tensor masks, int[] offsets, "
      "str reduce='sum', bool sum_types=False, Tensor? values=None, Tensor? eps=None) -> Tensor");
  m.def(
      "aggregate_masked_backward(Tensor[] graph, int[] sizes, Tensor grad, Tensor? x, "
      "Tensor masks, int[] offsets, str reduce, bool sum_types, Tensor? values, Tensor? eps, "
      "bool need_values, bool need_eps) -> (Tensor grad_x, Tensor grad_values, Tensor grad_eps)");
}

using Gradients = std::tuple<Tensor, Tensor, Tensor>;  // of x, values, eps

// All arguments but x. `removed` and `ptr`, or `masks` and `offsets`.
struct Arguments {
  at::TensorList graph;
  at::IntArrayRef sizes;
  std::string_view reduce;
  bool sum_types;
  OptionalTensor values, eps;
  bool shared;
  Tensor removed, ptr;
  Tensor masks = {};
  at::IntArrayRef offsets = {};

  bool masked() const { return masks.defined(); }
  c10::SymInt batch() const { return masked() ? masks.sym_size(0) : ptr.sym_size(0) - 1; }
  const char* x_shape() const { return shared ? "[N, H]" : "[N, B, H]"; }
};

// ---- checks and shapes, for real and meta tensors alike
void check_keep(const Arguments& in, const GraphSizes& sizes, c10::Device device) {
  check_graph(in.graph, device);
  if (!in.masked()) return check_removed_shapes(in.removed, in.ptr, device);
  check_device("masks", in.masks, device);
  check_dtype("masks", in.masks, at::kByte);
  check_dim("masks", in.masks, 2, "[B, stride]");
  if (int64_t(in.offsets.size()) != sizes.types)
    throw Error("offsets holds {} numbers, but the graph has {} types", in.offsets.size(),
                sizes.types);
}

void check_x(const Arguments& in, const GraphSizes& sizes, const Tensor& x) {
  check_real("x", x);
  check_dim("x", x, in.shared ? 2 : 3, in.x_shape());
  check_size("x", x, 0, sizes.nodes, in.x_shape());
  if (!in.shared) check_size("x", x, 1, in.batch(), in.x_shape());
  if (x.sym_size(-1) < 1)
    throw Error("x has shape {}, but a width of 1 or more is needed", text(x.sym_sizes()));
}

void check_parameters(const Arguments& in, const GraphSizes& sizes, const Tensor& like) {
  check_reduce(reduce_from_name(in.reduce), in.sum_types, in.shared, in.masked(), given(in.values));
  const auto check_parameter = [&](const char* name, const OptionalTensor& parameter, int64_t size,
                                   const char* shape) {
    if (!given(parameter)) return;
    check_device(name, *parameter, like.device());
    check_dtype(name, *parameter, parameter_dtype(like.scalar_type()));
    check_dim(name, *parameter, 1, shape);
    check_size(name, *parameter, 0, size, shape);
  };
  check_parameter("values", in.values, sizes.edges, "[E]");
  check_parameter("eps", in.eps, sizes.types, "[T]");
}

// [T, N, B, H], or [N, B, H] where types are summed; as x otherwise.
Tensor meta(const Arguments& in, const Tensor& x) {
  const GraphSizes sizes(in.sizes);
  check_keep(in, sizes, x.device());
  check_x(in, sizes, x);
  check_parameters(in, sizes, x);
  c10::SymDimVector shape = {sizes.nodes, in.batch(), x.sym_size(-1)};
  if (!in.sum_types) shape.insert(shape.begin(), sizes.types);
  return at::empty_symint(shape, x.options());
}

// An empty tensor where no gradient is asked for.
Gradients meta_backward(const Arguments& in, const Tensor& grad, const OptionalTensor& x,
                        bool need_values, bool need_eps) {
  const GraphSizes sizes(in.sizes);
  check_keep(in, sizes, grad.device());
  check_parameters(in, sizes, grad);
  const char* shape = in.sum_types ? "[N, B, H]" : "[T, N, B, H]";
  check_real("grad", grad);
  check_dim("grad", grad, in.sum_types ? 3 : 4, shape);
  if (!in.sum_types) check_size("grad", grad, 0, sizes.types, shape);
  check_size("grad", grad, in.sum_types ? 0 : 1, sizes.nodes, shape);
  check_size("grad", grad, in.sum_types ? 1 : 2, in.batch(), shape);
  const c10::SymInt width = grad.sym_size(-1);
  if (given(x)) {
    check_device("x", *x, grad.device());
    check_dtype("x", *x, grad.scalar_type());
    check_x(in, sizes, *x);
    check_size("x", *x, in.shared ? 1 : 2, width, in.x_shape());
  } else if (need_values || need_eps || in.reduce == "max") {
    throw Error("x is missing, but gradients of values, of eps and of reduce 'max' read it");
  }
  c10::SymDimVector x_shape = {sizes.nodes, width};
  if (!in.shared) x_shape.insert(x_shape.begin() + 1, in.batch());
  const auto parameters = grad.options().dtype(parameter_dtype(grad.scalar_type()));
  return {at::empty_symint(x_shape, grad.options()),
          at::empty({need_values ? sizes.edges : 0}, parameters),
          at::empty({need_eps ? sizes.types : 0}, parameters)};
}

// ---- from tensors to a call
// Holds what a call points to.
class Call {
 public:
  Call(const Arguments& in, const OptionalTensor& x, int64_t width)
      : in_(in),
        width_(width),
        removed_(in.masked() ? Tensor() : in.removed.contiguous()),
        ptr_(in.masked() ? Tensor() : in.ptr.contiguous()),
        masks_(in.masked() ? in.masks.contiguous() : Tensor()),
        offsets_(in.offsets.begin(), in.offsets.end()),
        x_(contiguous(x)),
        values_(contiguous(in.values)),
        eps_(contiguous(in.eps)) {}

  template <class Real>
  AggregateCall<Real> of() const {
    return {.reduce = reduce_from_name(in_.reduce),
            .sum_types = in_.sum_types,
            .shared = in_.shared,
            .keep = in_.masked() ? Keep(MaskView{span_of<uint8_t>(masks_), uint64_t(masks_.size(1)),
                                                 offsets_})
                                 : Keep(removed_view(removed_, ptr_)),
            .width = width_,
            .x = data<Real>(x_),
            .values = data<Parameter<Real>>(values_),
            .eps = data<Parameter<Real>>(eps_),
            .threads = at::get_num_threads()};
  }

 private:
  const Arguments& in_;
  int64_t width_;
  Tensor removed_, ptr_, masks_;
  std::vector<uint64_t> offsets_;
  OptionalTensor x_, values_, eps_;
};

// `out`: of meta_backward(); an empty gradient was not asked for.
template <class Real>
AggregateGradients<Real> gradients_of(const Tensor& grad, const Gradients& out, bool need_values,
                                      bool need_eps) {
  using Param = Parameter<Real>;
  return {.out = data<Real>(grad),
          .x = mutable_data<Real>(std::get<0>(out)),
          .eps = need_eps ? mutable_data<Param>(std::get<2>(out)) : nullptr,
          .values = need_values ? mutable_data<Param>(std::get<1>(out)) : nullptr};
}

Tensor cpu(const Arguments& in, const Tensor& x) {
  const Tensor out = meta(in, x);
  const GraphPlan plan = plan_of(in.graph, GraphSizes(in.sizes));
  const Call call(in, x, x.size(-1));
  with_real(x.scalar_type(),
            [&]<class Real>(Real) { aggregate(plan, call.of<Real>(), mutable_data<Real>(out)); });
  return out;
}

Gradients cpu_backward(const Arguments& in, const Tensor& grad, const OptionalTensor& x,
                       bool need_values, bool need_eps) {
  const Gradients out = meta_backward(in, grad, x, need_values, need_eps);
  const GraphPlan plan = plan_of(in.graph, GraphSizes(in.sizes));
  const Call call(in, x, grad.size(-1));
  const Tensor grad_ = grad.contiguous();
  with_real(grad.scalar_type(), [&]<class Real>(Real) {
    aggregate_backward(plan, call.of<Real>(),
                       gradients_of<Real>(grad_, out, need_values, need_eps));
  });
  return out;
}

#if LACUNA_HAVE_CUDA
Tensor cuda(const Arguments& in, const Tensor& x) {
  const Tensor out = meta(in, x);
  const DeviceGraph graph(in.graph, in.sizes);
  const Call tensors(in, x, x.size(-1));
  Launch launch(x.device());
  with_real(x.scalar_type(), [&]<class Real>(Real) {
    const auto call = tensors.of<Real>();
    aggregate_cuda(graph.view, call, mutable_data<Real>(out),
                   launch.with_workspace(aggregate_cuda_workspace(graph.view, call)));
  });
  return out;
}

Gradients cuda_backward(const Arguments& in, const Tensor& grad, const OptionalTensor& x,
                        bool need_values, bool need_eps) {
  const Gradients out = meta_backward(in, grad, x, need_values, need_eps);
  const DeviceGraph graph(in.graph, in.sizes);
  const Call tensors(in, x, grad.size(-1));
  const Tensor grad_ = grad.contiguous();
  Launch launch(grad.device());
  with_real(grad.scalar_type(), [&]<class Real>(Real) {
    const auto call = tensors.of<Real>();
    aggregate_backward_cuda(graph.view, call, gradients_of<Real>(grad_, out, need_values, need_eps),
                            launch.with_workspace(aggregate_cuda_workspace(graph.view, call)));
  });
  return out;
}
#endif

// ---- the argument lists, each written once: forward<run> is the operator that `run` computes,
// call() goes to it through the dispatcher
template <bool kShared>
struct ByRemoved {
  template <auto run>
  static Tensor forward(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x,
                        const Tensor& removed, const Tensor& ptr, std::string_view reduce,
                        bool sum_types, const OptionalTensor& values, const OptionalTensor& eps) {
    return run({graph, sizes, reduce, sum_types, values, eps, kShared, removed, ptr}, x);
  }
  template <auto run>
  static Gradients backward(at::TensorList graph, at::IntArrayRef sizes, const Tensor& grad,
                            const OptionalTensor& x, const Tensor& removed, const Tensor& ptr,
                            std::string_view reduce, bool sum_types, const OptionalTensor& values,
                            const OptionalTensor& eps, bool need_values, bool need_eps) {
    return run({graph, sizes, reduce, sum_types, values, eps, kShared, removed, ptr}, grad, x,
               need_values, need_eps);
  }
  static Tensor call(const Arguments& in, const Tensor& x) {
    static const auto op = find_operator<decltype(forward<meta>)>(
        kShared ? "lacuna::aggregate_shared" : "lacuna::aggregate");
    return op.call(in.graph, in.sizes, x, in.removed, in.ptr, in.reduce, in.sum_types, in.values,
                   in.eps);
  }
  static Gradients call_backward(const Arguments& in, const Tensor& grad, const OptionalTensor& x,
                                 bool need_values, bool need_eps) {
    static const auto op = find_operator<decltype(backward<meta_backward>)>(
        kShared ? "lacuna::aggregate_shared_backward" : "lacuna::aggregate_backward");
    return op.call(in.graph, in.sizes, grad, x, in.removed, in.ptr, in.reduce, in.sum_types,
                   in.values, in.eps, need_values, need_eps);
  }
};

struct ByMasks {
  template <auto run>
  static Tensor forward(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x,
                        const Tensor& masks, at::IntArrayRef offsets, std::string_view reduce,
                        bool sum_types, const OptionalTensor& values, const OptionalTensor& eps) {
    return run({graph, sizes, reduce, sum_types, values, eps, false, {}, {}, masks, offsets}, x);
  }
  template <auto run>
  static Gradients backward(at::TensorList graph, at::IntArrayRef sizes, const Tensor& grad,
                            const OptionalTensor& x, const Tensor& masks, at::IntArrayRef offsets,
                            std::string_view reduce, bool sum_types, const OptionalTensor& values,
                            const OptionalTensor& eps, bool need_values, bool need_eps) {
    return run({graph, sizes, reduce, sum_types, values, eps, false, {}, {}, masks, offsets}, grad,
               x, need_values, need_eps);
  }
  static Tensor call(const Arguments& in, const Tensor& x) {
    static const auto op = find_operator<decltype(forward<meta>)>("lacuna::aggregate_masked");
    return op.call(in.graph, in.sizes, x, in.masks, in.offsets, in.reduce, in.sum_types, in.values,
                   in.eps);
  }
  static Gradients call_backward(const Arguments& in, const Tensor& grad, const OptionalTensor& x,
                                 bool need_values, bool need_eps) {
    static const auto op =
        find_operator<decltype(backward<meta_backward>)>("lacuna::aggregate_masked_backward");
    return op.call(in.graph, in.sizes, grad, x, in.masks, in.offsets, in.reduce, in.sum_types,
                   in.values, in.eps, need_values, need_eps);
  }
};

// ---- autograd and autocast
template <class Op>
struct AggregateFunction : torch::autograd::Function<AggregateFunction<Op>> {
  // values and eps are in.values and in.eps: torch looks for what needs a gradient among the
  // arguments themselves.
  static Tensor forward(AutogradContext* context, const Arguments& in, const Tensor& x,
                        const OptionalTensor& values, const OptionalTensor& eps) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto trained = [](const OptionalTensor& t) { return given(t) && t->requires_grad(); };
    const bool keeps_x = in.reduce == "max" || trained(values) || trained(eps);
    variable_list saved = {keeps_x ? x : Tensor(),
                           values.value_or(Tensor()),
                           eps.value_or(Tensor()),
                           in.removed,
                           in.ptr,
                           in.masks};
    saved.insert(saved.end(), in.graph.begin(), in.graph.end());
    context->save_for_backward(std::move(saved));
    auto& data = context->saved_data;
    data["sizes"] = in.sizes.vec();
    data["reduce"] = std::string(in.reduce);
    data["sum_types"] = in.sum_types;
    data["shared"] = in.shared;
    data["offsets"] = in.offsets.vec();
    data["need_values"] = trained(values);
    data["need_eps"] = trained(eps);
    return Op::call(in, x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const auto optional = [&](size_t i) {
      return saved[i].defined() ? OptionalTensor(saved[i]) : std::nullopt;
    };
    auto& data = context->saved_data;
    const auto sizes = data["sizes"].toIntVector(), offsets = data["offsets"].toIntVector();
    const Arguments in = {at::TensorList(saved).slice(6),
                          sizes,
                          data["reduce"].toStringRef(),
                          data["sum_types"].toBool(),
                          optional(1),
                          optional(2),
                          data["shared"].toBool(),
                          saved[3],
                          saved[4],
                          saved[5],
                          offsets};
    const bool need_values = data["need_values"].toBool(), need_eps = data["need_eps"].toBool();
    auto [grad_x, grad_values, grad_eps] =
        Op::call_backward(in, grads[0], optional(0), need_values, need_eps);
    return {Tensor(), grad_x, need_values ? grad_values : Tensor(), need_eps ? grad_eps : Tensor()};
  }
};

template <class Op>
Tensor autograd(const Arguments& in, const Tensor& x) {
  return AggregateFunction<Op>::apply(in, x, in.values, in.eps);
}

template <class Op, c10::DeviceType device>
Tensor autocast(const Arguments& in, const Tensor& x) {
  const auto guard = without_autocast<device>();
  return Op::call(in, autocast_real<device>(x));
}

template <auto run, auto run_backward>
void implement(torch::Library& m) {
  m.impl("aggregate", ByRemoved<false>::forward<run>);
  m.impl("aggregate_backward", ByRemoved<false>::backward<run_backward>);
  m.impl("aggregate_shared", ByRemoved<true>::forward<run>);
  m.impl("aggregate_shared_backward", ByRemoved<true>::backward<run_backward>);
  m.impl("aggregate_masked", ByMasks::forward<run>);
  m.impl("aggregate_masked_backward", ByMasks::backward<run_backward>);
}

template <c10::DeviceType device>
void implement_autocast(torch::Library& m) {
  m.impl("aggregate", ByRemoved<false>::forward<autocast<ByRemoved<false>, device>>);
  m.impl("aggregate_shared", ByRemoved<true>::forward<autocast<ByRemoved<true>, device>>);
  m.impl("aggregate_masked", ByMasks::forward<autocast<ByMasks, device>>);
}

}  // namespace

TORCH_LIBRARY_IMPL(lacuna, CPU, m) { implement<cpu, cpu_backward>(m); }
#if LACUNA_HAVE_CUDA
TORCH_LIBRARY_IMPL(lacuna, CUDA, m) { implement<cuda, cuda_backward>(m); }
#endif
TORCH_LIBRARY_IMPL(lacuna, Meta, m) { implement<meta, meta_backward>(m); }
TORCH_LIBRARY_IMPL(lacuna, Autograd, m) {
  m.impl("aggregate", ByRemoved<false>::forward<autograd<ByRemoved<false>>>);
  m.impl("aggregate_shared", ByRemoved<true>::forward<autograd<ByRemoved<true>>>);
  m.impl("aggregate_masked", ByMasks::forward<autograd<ByMasks>>);
  for (const char* name :
       {"aggregate_backward", "aggregate_shared_backward", "aggregate_masked_backward"})
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(lacuna, AutocastCPU, m) { implement_autocast<c10::kCPU>(m); }
TORCH_LIBRARY_IMPL(lacuna, AutocastCUDA, m) { implement_autocast<c10::kCUDA>(m); }

}  // namespace lacuna::torch_ops
