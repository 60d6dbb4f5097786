#include "lacuna/torch/cone.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "lacuna/torch/operators.h"
#if LACUNA_HAVE_CUDA
#include "lacuna/ops/cone/cone_cuda.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna {
namespace {

using namespace torch_ops;

ConeLists lists_of(const Cone& cone) {
  return {mutable_data<int32_t>(cone.place), mutable_data<int32_t>(cone.row),
          mutable_data<int32_t>(cone.used)};
}
GraphPlan plan_of_cone(const Cone& cone) {
  return plan_of(cone.graph, GraphSizes(cone.graph_sizes));
}

// Calls on_cpu(Real()) or on_cuda(Real(), graph, launch) by where x is.
template <class OnCpu, class OnCuda>
void run_cone([[maybe_unused]] const Cone& cone, const Tensor& x, [[maybe_unused]] int64_t width,
              const OnCpu& on_cpu, [[maybe_unused]] const OnCuda& on_cuda) {
  if (x.is_cpu()) return with_real(x.scalar_type(), on_cpu);
#if LACUNA_HAVE_CUDA
  const DeviceGraph graph(cone.graph, cone.graph_sizes);
  Launch launch(x.device());
  const CudaLaunch there = launch.with_workspace(cone_cuda_workspace(cone.shape, width));
  with_real(x.scalar_type(), [&](auto real) { on_cuda(real, graph.view, there); });
#else
  throw Error("this build has no CUDA, but the tensors are on {}", text(x.device()));
#endif
}

struct ConeGin : torch::autograd::Function<ConeGin> {
  static Tensor forward(AutogradContext* context, const Cone& cone, const Tensor& x_,
                        const Tensor& eps_) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor x = x_.contiguous(), eps = eps_.contiguous();
    const int64_t width = x.size(1);
    const Tensor u = at::empty({cone.shape.types, cone.shape.rows(), width}, x.options());
    run_cone(
        cone, x, width,
        [&]<class Real>(Real) {
          cone_aggregate<Real>(plan_of_cone(cone), cone.shape, lists_of(cone), width, data<Real>(x),
                               data<Parameter<Real>>(eps), mutable_data<Real>(u),
                               at::get_num_threads());
        },
        [&]<class Real>(Real, [[maybe_unused]] const auto& graph,
                        [[maybe_unused]] const auto& launch) {
#if LACUNA_HAVE_CUDA
          cone_aggregate_cuda<Real>(graph, cone.shape, lists_of(cone), width, data<Real>(x),
                                    data<Parameter<Real>>(eps), mutable_data<Real>(u), launch);
#endif
        });
    context->save_for_backward({x, eps});
    context->saved_data["cone"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(cone));
    return u;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &eps = saved[1], grad_u = grads[0].contiguous();
    const Cone& cone = Kept::of(context);
    const int64_t width = x.size(1);
    const Tensor grad_x = at::empty_like(x), grad_eps = at::empty_like(eps);
    run_cone(
        cone, x, width,
        [&]<class Real>(Real) {
          cone_aggregate_backward<Real>(
              plan_of_cone(cone), cone.shape, lists_of(cone), width, data<Real>(x),
              data<Parameter<Real>>(eps), data<Real>(grad_u), mutable_data<Real>(grad_x),
              mutable_data<Parameter<Real>>(grad_eps), at::get_num_threads());
        },
        [&]<class Real>(Real, [[maybe_unused]] const auto& graph,
                        [[maybe_unused]] const auto& launch) {
#if LACUNA_HAVE_CUDA
          cone_aggregate_backward_cuda<Real>(graph, cone.shape, lists_of(cone), width,
                                             data<Real>(x), data<Parameter<Real>>(eps),
                                             data<Real>(grad_u), mutable_data<Real>(grad_x),
                                             mutable_data<Parameter<Real>>(grad_eps), launch);
#endif
        });
    return {Tensor(), grad_x, grad_eps};
  }

  // A cone that a pending backward pass holds on to.
  struct Kept : torch::CustomClassHolder {
    explicit Kept(const Cone& c) : cone(c) {}
    static const Cone& of(AutogradContext* context) {
      return static_cast<const Kept&>(*context->saved_data["cone"].toCapsule()).cone;
    }
    Cone cone;
  };
};

struct ConeSumFunction : torch::autograd::Function<ConeSumFunction> {
  static Tensor forward(AutogradContext* context, const Cone& cone, const Tensor& y_,
                        double share) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor y = y_.contiguous();
    const int64_t width = y.size(2);
    const Tensor out = at::empty({cone.shape.nodes, cone.shape.batch + 1, width}, y.options());
    run_cone(
        cone, y, width,
        [&]<class Real>(Real) {
          lacuna::cone_sum<Real>(cone.shape, lists_of(cone), width, float(share), data<Real>(y),
                                 mutable_data<Real>(out), at::get_num_threads());
        },
        [&]<class Real>(Real, const auto&, [[maybe_unused]] const auto& launch) {
#if LACUNA_HAVE_CUDA
          cone_sum_cuda<Real>(cone.shape, lists_of(cone), width, float(share), data<Real>(y),
                              mutable_data<Real>(out), launch);
#endif
        });
    context->saved_data["cone"] =
        c10::IValue::make_capsule(c10::make_intrusive<ConeGin::Kept>(cone));
    context->saved_data["share"] = share;
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const Tensor grad = grads[0].contiguous();
    const Cone& cone = ConeGin::Kept::of(context);
    const auto share = float(context->saved_data["share"].toDouble());
    const int64_t width = grad.size(2);
    const Tensor grad_y = at::empty({cone.shape.types, cone.shape.rows(), width}, grad.options());
    run_cone(
        cone, grad, width,
        [&]<class Real>(Real) {
          cone_sum_backward<Real>(cone.shape, lists_of(cone), width, share, data<Real>(grad),
                                  mutable_data<Real>(grad_y), at::get_num_threads());
        },
        [&]<class Real>(Real, const auto&, [[maybe_unused]] const auto& launch) {
#if LACUNA_HAVE_CUDA
          cone_sum_backward_cuda<Real>(cone.shape, lists_of(cone), width, share, data<Real>(grad),
                                       mutable_data<Real>(grad_y), launch);
#endif
        });
    return {Tensor(), grad_y, Tensor()};
  }
};

}  // namespace

int64_t cone_capacity_of(const std::vector<at::Tensor>& graph, const std::vector<int64_t>& sizes,
                         const at::Tensor& removed, const at::Tensor& ptr) {
  const GraphPlan plan = plan_of(graph, GraphSizes(sizes));
  return cone_capacity(plan, removed_view(removed, ptr));
}

Cone make_cone(const std::vector<at::Tensor>& graph, const std::vector<int64_t>& sizes,
               const at::Tensor& removed_, const at::Tensor& ptr_, int64_t capacity) {
  const GraphSizes counts(sizes);
  const Tensor removed = removed_.contiguous(), ptr = ptr_.contiguous();
  Cone cone = {.shape = {counts.nodes, counts.types, ptr.numel() - 1, capacity},
               .place = at::empty({counts.types, counts.nodes, ptr.numel() - 1}, ptr.options()),
               .row = at::empty({counts.types, capacity}, ptr.options()),
               .used = at::empty({counts.types}, ptr.options()),
               .graph = graph,
               .graph_sizes = sizes};
  if (ptr.is_cpu()) {
    cone_lists(plan_of_cone(cone), removed_view(removed, ptr), cone.shape, lists_of(cone),
               at::get_num_threads());
    return cone;
  }
#if LACUNA_HAVE_CUDA
  const DeviceGraph on_device(cone.graph, cone.graph_sizes);
  Launch launch(ptr.device());
  cone_lists_cuda(on_device.view, torch_ops::cuda_removed(removed, ptr), cone.shape, lists_of(cone),
                  launch.with_workspace(cone_cuda_workspace(cone.shape, 0)));
  return cone;
#else
  throw Error("this build has no CUDA, but the tensors are on {}", text(ptr.device()));
#endif
}

at::Tensor cone_gin(const Cone& cone, const at::Tensor& x, const at::Tensor& eps) {
  return ConeGin::apply(cone, x, eps);
}

at::Tensor cone_sum(const Cone& cone, const at::Tensor& y, double share) {
  return ConeSumFunction::apply(cone, y, share);
}

}  // namespace lacuna
