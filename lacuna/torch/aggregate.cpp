// torch.ops.lacuna.aggregate and aggregate_shared: ops/aggregate/aggregate.h and aggregate_shared.h
// on tensors. They differ in the shape of x alone.
#include "lacuna/torch/aggregate.h"
#include "lacuna/ops/aggregate/aggregate_shared.h"
#if LACUNA_HAVE_CUDA
#include "lacuna/ops/aggregate/aggregate_cuda.h"
#include "lacuna/ops/aggregate/aggregate_shared_cuda.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna::torch_ops {
namespace {

// ---- the arguments of both; x [N, B, H] or, shared, [N, H]
template <bool kShared>
Tensor meta(at::TensorList graph, at::IntArrayRef size_list, const Tensor& x, const Tensor& removed,
            const Tensor& ptr, std::string_view reduce, bool sum_types,
            const OptionalTensor& values, const OptionalTensor& eps) {
  const GraphSizes sizes(size_list);
  check_graph(graph, x.device());
  check_removed_shapes(removed, ptr, x.device());
  const c10::SymInt batch = ptr.sym_size(0) - 1;
  check_x(sizes, x, batch, kShared);
  check_parameters(sizes, options_of(reduce, sum_types), x, values, eps);
  return make_out(sizes, sum_types, x, batch);
}

template <bool kShared>
Gradients meta_backward(at::TensorList graph, at::IntArrayRef size_list, const Tensor& grad,
                        const OptionalTensor& x, const Tensor& removed, const Tensor& ptr,
                        std::string_view reduce, bool sum_types, const OptionalTensor& values,
                        const OptionalTensor& eps, bool need_values, bool need_eps) {
  const GraphSizes sizes(size_list);
  const AggregateOptions options = options_of(reduce, sum_types);
  check_graph(graph, grad.device());
  check_removed_shapes(removed, ptr, grad.device());
  check_parameters(sizes, options, grad, values, eps);
  return make_gradients(sizes, options, grad, x, ptr.sym_size(0) - 1, kShared, need_values,
                        need_eps);
}

template <bool kShared>
Tensor cpu(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x, const Tensor& removed,
           const Tensor& ptr, std::string_view reduce, bool sum_types, const OptionalTensor& values,
           const OptionalTensor& eps) {
  const Tensor out = meta<kShared>(graph, sizes, x, removed, ptr, reduce, sum_types, values, eps);
  const GraphPlan plan = plan_of(graph, GraphSizes(sizes));
  const Tensor x_ = x.contiguous(), removed_ = removed.contiguous(), ptr_ = ptr.contiguous();
  const OptionalTensor values_ = contiguous(values), eps_ = contiguous(eps);
  with_real(x.scalar_type(), [&]<class Real>(Real) {
    const auto run = kShared ? aggregate_shared<Real> : aggregate<Real>;
    run(plan, options_of(reduce, sum_types), x.size(-1), data<Real>(x_),
        removed_view(removed_, ptr_), data<Parameter<Real>>(values_), data<Parameter<Real>>(eps_),
        mutable_data<Real>(out));
  });
  return out;
}

template <bool kShared>
Gradients cpu_backward(at::TensorList graph, at::IntArrayRef sizes, const Tensor& grad,
                       const OptionalTensor& x, const Tensor& removed, const Tensor& ptr,
                       std::string_view reduce, bool sum_types, const OptionalTensor& values,
                       const OptionalTensor& eps, bool need_values, bool need_eps) {
  const Gradients out = meta_backward<kShared>(graph, sizes, grad, x, removed, ptr, reduce,
                                               sum_types, values, eps, need_values, need_eps);
  const Tensor &grad_x = std::get<0>(out), &grad_values = std::get<1>(out),
               &grad_eps = std::get<2>(out);
  const GraphPlan plan = plan_of(graph, GraphSizes(sizes));
  const Tensor grad_ = grad.contiguous(), removed_ = removed.contiguous(), ptr_ = ptr.contiguous();
  const OptionalTensor x_ = contiguous(x), values_ = contiguous(values), eps_ = contiguous(eps);
  with_real(grad.scalar_type(), [&]<class Real>(Real) {
    using Param = Parameter<Real>;
    const auto run = kShared ? aggregate_shared_backward<Real> : aggregate_backward<Real>;
    run(plan, options_of(reduce, sum_types), grad.size(-1), data<Real>(grad_), data<Real>(x_),
        removed_view(removed_, ptr_), data<Param>(values_), data<Param>(eps_),
        mutable_data<Real>(grad_x), data_if<Param>(need_eps, grad_eps),
        data_if<Param>(need_values, grad_values));
  });
  return out;
}

#if LACUNA_HAVE_CUDA
template <bool kShared>
Tensor cuda(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x, const Tensor& removed,
            const Tensor& ptr, std::string_view reduce, bool sum_types,
            const OptionalTensor& values, const OptionalTensor& eps) {
  const Tensor out = meta<kShared>(graph, sizes, x, removed, ptr, reduce, sum_types, values, eps);
  const DeviceGraph device(graph, sizes);
  const Tensor x_ = x.contiguous(), removed_ = removed.contiguous(), ptr_ = ptr.contiguous();
  const OptionalTensor values_ = contiguous(values), eps_ = contiguous(eps);
  const CudaAggregateOptions options = {reduce_from_name(reduce), sum_types};
  Launch launch(x.device());
  with_real(x.scalar_type(), [&]<class Real>(Real) {
    const auto bytes =
        kShared ? aggregate_shared_cuda_workspace<Real> : aggregate_cuda_workspace<Real>;
    const auto run = kShared ? aggregate_shared_cuda<Real> : aggregate_cuda<Real>;
    void* workspace = launch.workspace(bytes(device.view, options, ptr.numel() - 1, x.size(-1)));
    run(device.view, options, x.size(-1), data<Real>(x_), cuda_removed(removed_, ptr_),
        data<Parameter<Real>>(values_), data<Parameter<Real>>(eps_), mutable_data<Real>(out),
        workspace, launch.error(), launch.stream());
  });
  return out;
}

template <bool kShared>
Gradients cuda_backward(at::TensorList graph, at::IntArrayRef sizes, const Tensor& grad,
                        const OptionalTensor& x, const Tensor& removed, const Tensor& ptr,
                        std::string_view reduce, bool sum_types, const OptionalTensor& values,
                        const OptionalTensor& eps, bool need_values, bool need_eps) {
  const Gradients out = meta_backward<kShared>(graph, sizes, grad, x, removed, ptr, reduce,
                                               sum_types, values, eps, need_values, need_eps);
  const Tensor &grad_x = std::get<0>(out), &grad_values = std::get<1>(out),
               &grad_eps = std::get<2>(out);
  const DeviceGraph device(graph, sizes);
  const Tensor grad_ = grad.contiguous(), removed_ = removed.contiguous(), ptr_ = ptr.contiguous();
  const OptionalTensor x_ = contiguous(x), values_ = contiguous(values), eps_ = contiguous(eps);
  const CudaAggregateOptions options = {reduce_from_name(reduce), sum_types};
  Launch launch(grad.device());
  with_real(grad.scalar_type(), [&]<class Real>(Real) {
    using Param = Parameter<Real>;
    const auto bytes =
        kShared ? aggregate_shared_cuda_workspace<Real> : aggregate_cuda_workspace<Real>;
    const auto run = kShared ? aggregate_shared_backward_cuda<Real> : aggregate_backward_cuda<Real>;
    void* workspace = launch.workspace(bytes(device.view, options, ptr.numel() - 1, grad.size(-1)));
    run(device.view, options, grad.size(-1), data<Real>(grad_), data<Real>(x_),
        cuda_removed(removed_, ptr_), data<Param>(values_), data<Param>(eps_),
        mutable_data<Real>(grad_x), data_if<Param>(need_eps, grad_eps),
        data_if<Param>(need_values, grad_values), workspace, launch.error(), launch.stream());
  });
  return out;
}
#endif

// ---- autograd and autocast
template <bool kShared>
Tensor call(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x, const Tensor& removed,
            const Tensor& ptr, std::string_view reduce, bool sum_types,
            const OptionalTensor& values, const OptionalTensor& eps) {
  static const auto op = find_operator<decltype(cpu<kShared>)>(kShared ? "lacuna::aggregate_shared"
                                                                       : "lacuna::aggregate");
  return op.call(graph, sizes, x, removed, ptr, reduce, sum_types, values, eps);
}

template <bool kShared>
struct Indices {
  Tensor first, second;  // removed, ptr
  std::vector<int64_t> numbers;

  Tensor forward(const Fixed& fixed, const Tensor& x, const OptionalTensor& values,
                 const OptionalTensor& eps) const {
    return call<kShared>(fixed.graph, fixed.sizes, x, first, second, fixed.reduce, fixed.sum_types,
                         values, eps);
  }
  Gradients backward(const Fixed& fixed, const Tensor& grad, const OptionalTensor& x,
                     const OptionalTensor& values, const OptionalTensor& eps, bool need_values,
                     bool need_eps) const {
    static const auto op = find_operator<decltype(cpu_backward<kShared>)>(
        kShared ? "lacuna::aggregate_shared_backward" : "lacuna::aggregate_backward");
    return op.call(fixed.graph, fixed.sizes, grad, x, first, second, fixed.reduce, fixed.sum_types,
                   values, eps, need_values, need_eps);
  }
};

template <bool kShared>
Tensor autograd(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x, const Tensor& removed,
                const Tensor& ptr, std::string_view reduce, bool sum_types,
                const OptionalTensor& values, const OptionalTensor& eps) {
  const Fixed fixed = {graph.vec(), sizes.vec(), std::string(reduce), sum_types};
  return AggregateFunction<Indices<kShared>>::apply(fixed, Indices<kShared>{removed, ptr, {}}, x,
                                                    values, eps);
}

template <bool kShared, c10::DeviceType device>
Tensor autocast(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x, const Tensor& removed,
                const Tensor& ptr, std::string_view reduce, bool sum_types,
                const OptionalTensor& values, const OptionalTensor& eps) {
  const auto guard = without_autocast<device>();
  return call<kShared>(graph, sizes, autocast_real<device>(x), removed, ptr, reduce, sum_types,
                       values, eps);
}

}  // namespace

TORCH_LIBRARY_IMPL(lacuna, CPU, m) {
  m.impl("aggregate", cpu<false>);
  m.impl("aggregate_backward", cpu_backward<false>);
  m.impl("aggregate_shared", cpu<true>);
  m.impl("aggregate_shared_backward", cpu_backward<true>);
}
#if LACUNA_HAVE_CUDA
TORCH_LIBRARY_IMPL(lacuna, CUDA, m) {
  m.impl("aggregate", cuda<false>);
  m.impl("aggregate_backward", cuda_backward<false>);
  m.impl("aggregate_shared", cuda<true>);
  m.impl("aggregate_shared_backward", cuda_backward<true>);
}
#endif
TORCH_LIBRARY_IMPL(lacuna, Meta, m) {
  m.impl("aggregate", meta<false>);
  m.impl("aggregate_backward", meta_backward<false>);
  m.impl("aggregate_shared", meta<true>);
  m.impl("aggregate_shared_backward", meta_backward<true>);
}
TORCH_LIBRARY_IMPL(lacuna, Autograd, m) {
  m.impl("aggregate", autograd<false>);
  m.impl("aggregate_shared", autograd<true>);
  m.impl("aggregate_backward", torch::autograd::autogradNotImplementedFallback());
  m.impl("aggregate_shared_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(lacuna, AutocastCPU, m) {
  m.impl("aggregate", autocast<false, c10::kCPU>);
  m.impl("aggregate_shared", autocast<true, c10::kCPU>);
}
TORCH_LIBRARY_IMPL(lacuna, AutocastCUDA, m) {
  m.impl("aggregate", autocast<false, c10::kCUDA>);
  m.impl("aggregate_shared", autocast<true, c10::kCUDA>);
}

}  // namespace lacuna::torch_ops
