#include "lacuna/torch/cone.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <functional>

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

// Calls on_cpu(Real()) or on_cuda(Real(), launch) by where x is; workspace: in bytes, on a GPU.
template <class OnCpu, class OnCuda>
void run_cone(const Tensor& x, [[maybe_unused]] uint64_t workspace, const OnCpu& on_cpu,
              [[maybe_unused]] const OnCuda& on_cuda) {
  if (x.is_cpu()) return with_real(x.scalar_type(), on_cpu);
#if LACUNA_HAVE_CUDA
  Launch launch(x.device());
  const CudaLaunch there = launch.with_workspace(workspace);
  with_real(x.scalar_type(), [&](auto real) { on_cuda(real, there); });
#else
  throw Error("this build has no CUDA, but the tensors are on {}", text(x.device()));
#endif
}

#if LACUNA_HAVE_CUDA
// Zeros behind the rows in use of rows [T, count, H], where anybody looks at them.
template <class Real>
void clear_rows(const Cone& cone, const Tensor& used, const Tensor& rows,
                const CudaLaunch& launch) {
  if (!cone.counted)
    cone_clear_cuda(rows.size(0), rows.size(1), rows.size(2), data<int32_t>(used),
                    used.numel() == 1, mutable_data<Real>(rows), launch);
}
#endif

// ---- all functions have one shape: rows in, and eps where sums read it; rows out
struct ConeFunction {
  std::function<Tensor(const Tensor& in, const Tensor& eps)> forward;
  // The gradients of both; in: undefined unless it is kept.
  std::function<std::pair<Tensor, Tensor>(const Tensor& in, const Tensor& eps, const Tensor& grad)>
      backward;
  bool keeps_input = false;
};

struct ConeAutograd : torch::autograd::Function<ConeAutograd> {
  // What a pending backward pass holds on to.
  struct Kept : torch::CustomClassHolder {
    explicit Kept(const ConeFunction& f) : function(f) {}
    ConeFunction function;
  };

  static Tensor forward(AutogradContext* context, const ConeFunction& function, const Tensor& in_,
                        const OptionalTensor& eps_) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const Tensor in = in_.contiguous(), eps = given(eps_) ? eps_->contiguous() : Tensor();
    context->save_for_backward({function.keeps_input ? in : Tensor(), eps});
    context->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(function));
    return function.forward(in, eps);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const auto kept = context->saved_data["kept"].toCapsule();
    auto [grad_in, grad_eps] = static_cast<const Kept&>(*kept).function.backward(
        saved[0], saved[1], grads[0].contiguous());
    return {Tensor(), grad_in, grad_eps};
  }
};

Tensor call_cone(const ConeFunction& function, const Tensor& in, const OptionalTensor& eps = {}) {
  return ConeAutograd::apply(function, in, eps);
}

// [T, rows, H]
Tensor empty_rows(const Cone& cone, int64_t width, const Tensor& like) {
  return at::empty({cone.shape.types, cone.shape.rows(), width}, like.options());
}

// Of a layer's sums and of their gradients, on a GPU.
uint64_t aggregate_workspace([[maybe_unused]] const Cone& cone, [[maybe_unused]] const Tensor& x) {
#if LACUNA_HAVE_CUDA
  return cone_aggregate_workspace(cone.shape, x.size(-1));
#else
  return 0;
#endif
}

// Masks as a call points to them.
struct ConeMaskView {
  std::vector<uint64_t> offsets;
  MaskView view;

  explicit ConeMaskView(const ConeMasks& masks)
      : offsets(masks.offsets.begin(), masks.offsets.end()) {
    if (masks.records.defined())
      view = {span_of<uint8_t>(masks.records), uint64_t(masks.records.size(1)), offsets};
  }
};

template <class Real>
ConeCall<Real> cone_call(const Cone& cone, const Tensor& x, const Tensor& eps,
                         const ConeMaskView& masks, const Tensor& values) {
  return {.shape = cone.shape,
          .lists = lists_of(cone),
          .removed = removed_view(cone.removed, cone.ptr),
          .masks = masks.view,
          .shared = x.dim() == 2,
          .width = x.size(-1),
          .x = data<Real>(x),
          .values = values.defined() ? data<Parameter<Real>>(values) : nullptr,
          .eps = data<Parameter<Real>>(eps),
          .threads = at::get_num_threads()};
}

// With lists still to be written.
Cone empty_cone(const std::vector<Tensor>& graph, const std::vector<int64_t>& sizes,
                const Tensor& removed, const Tensor& ptr, int64_t capacity, bool wild) {
  const GraphSizes counts(sizes);
  const int64_t batch = ptr.numel() - 1;
  return {.shape = {counts.nodes, counts.types, batch, capacity, wild},
          .place = at::empty({counts.types, counts.nodes, batch}, ptr.options()),
          .row = at::empty({counts.types, capacity}, ptr.options()),
          .used = at::empty({counts.types}, ptr.options()),
          .removed = removed.contiguous(),
          .ptr = ptr.contiguous(),
          .graph = graph,
          .graph_sizes = sizes,
          .either_place = {},
          .either_row = {},
          .either_used = {}};
}

// Makes room for the lists of all types together.
void add_either(Cone& cone, int64_t rows) {
  cone.either_place = at::empty({1, cone.shape.nodes, cone.shape.batch}, cone.ptr.options());
  cone.either_row = at::empty({1, rows}, cone.ptr.options());
  cone.either_used = at::empty({1}, cone.ptr.options());
}

}  // namespace

double Cone::listed_share() const {
  const double all = double(shape.types) * double(shape.nodes) * double(shape.batch);
  const double listed = used.sum().item<double>() - double(shape.types * shape.first());
  return all > 0 ? listed / all : 0;
}

Cone Cone::either() const {
  Cone one = *this;
  one.shape.types = 1;
  one.shape.capacity = either_row.size(1);
  one.place = either_place;
  one.row = either_row;
  one.used = either_used;
  return one;
}

std::vector<Cone> make_cones(const std::vector<at::Tensor>& graph,
                             const std::vector<int64_t>& sizes, const at::Tensor& removed,
                             const at::Tensor& ptr, size_t layers, bool wild) {
  const int threads = at::get_num_threads();
  const GraphPlan plan = plan_of(graph, GraphSizes(sizes));
  const Tensor index = removed.contiguous(), ends = ptr.contiguous();
  std::vector<Cone> cones;
  ConeMarks marks;
  for (size_t i = 0; i < layers; ++i) {
    marks = i == 0 ? mark_cone(plan, removed_view(index, ends), threads)
                   : mark_next(plan, marks, threads);
    const int64_t capacity = std::ranges::max(marks.counts());
    cones.push_back(empty_cone(graph, sizes, index, ends, capacity, wild));
    cone_lists(marks, cones[i].shape, lists_of(cones[i]), threads);
    const ConeMarks together = marks.either();
    add_either(cones[i], together.counts()[0]);
    const Cone either = cones[i].either();
    cone_lists(together, either.shape, lists_of(either), threads);
  }
  return cones;
}

std::vector<Cone> make_cones(const std::vector<at::Tensor>& graph,
                             const std::vector<int64_t>& sizes, const at::Tensor& removed,
                             const at::Tensor& ptr, const std::vector<ConeRoom>& rooms) {
  std::vector<Cone> cones;
  for (const ConeRoom& room : rooms) {
    cones.push_back(empty_cone(graph, sizes, removed, ptr, room.rows, /*wild=*/true));
    if (room.either > 0) add_either(cones.back(), room.either);
  }
  if (cones.empty()) return cones;
#if LACUNA_HAVE_CUDA
  std::vector<ConeLayer> layers;
  for (const Cone& cone : cones) {
    layers.push_back({cone.shape, lists_of(cone)});
    if (!cone.either_used.defined()) continue;
    layers.back().either = lists_of(cone.either());
    layers.back().either_capacity = cone.either_row.size(1);
  }
  const DeviceGraph on_device(graph, sizes);
  Launch launch(ptr.device());
  cone_lists_cuda(on_device.view, torch_ops::cuda_removed(cones[0].removed, cones[0].ptr), layers,
                  launch.with_workspace(cone_lists_workspace(cones[0].shape)));
  return cones;
#else
  throw Error("this build has no CUDA, but the tensors are on {}", text(ptr.device()));
#endif
}

at::Tensor cone_gin(const Cone& cone, const at::Tensor& x, const at::Tensor& eps,
                    const ConeMasks& masks, const at::Tensor& values) {
  LACUNA_ASSERT(!values.defined() || x.is_cpu());
  const auto forward = [cone, masks, values](const Tensor& in, const Tensor& factors) {
    const int64_t width = in.size(-1);
    const Tensor u = empty_rows(cone, width, in);
    run_cone(
        in, aggregate_workspace(cone, in),
        [&]<class Real>(Real) {
          const ConeMaskView view(masks);
          cone_aggregate(plan_of_cone(cone), cone_call<Real>(cone, in, factors, view, values),
                         mutable_data<Real>(u));
        },
        [&]<class Real>(Real, [[maybe_unused]] const auto& launch) {
#if LACUNA_HAVE_CUDA
          const DeviceGraph graph(cone.graph, cone.graph_sizes);
          cone_aggregate_cuda<Real>(graph.view, cone.shape, lists_of(cone), width, data<Real>(in),
                                    data<Parameter<Real>>(factors), mutable_data<Real>(u), launch);
          clear_rows<Real>(cone, cone.used, u, launch);
#endif
        });
    return u;
  };
  const auto backward = [cone, masks, values](const Tensor& in, const Tensor& factors,
                                              const Tensor& grad) {
    [[maybe_unused]] const int64_t width = in.size(-1);  // of the CUDA half
    const Tensor grad_in = at::empty_like(in), grad_factors = at::empty_like(factors);
    run_cone(
        in, aggregate_workspace(cone, in),
        [&]<class Real>(Real) {
          const ConeMaskView view(masks);
          cone_aggregate_backward(plan_of_cone(cone),
                                  cone_call<Real>(cone, in, factors, view, values),
                                  data<Real>(grad), mutable_data<Real>(grad_in),
                                  mutable_data<Parameter<Real>>(grad_factors));
        },
        [&]<class Real>(Real, [[maybe_unused]] const auto& launch) {
#if LACUNA_HAVE_CUDA
          const DeviceGraph graph(cone.graph, cone.graph_sizes);
          cone_aggregate_backward_cuda<Real>(graph.view, cone.shape, lists_of(cone), width,
                                             data<Real>(in), data<Parameter<Real>>(factors),
                                             data<Real>(grad), mutable_data<Real>(grad_in),
                                             mutable_data<Parameter<Real>>(grad_factors), launch);
#endif
        });
    return std::pair(grad_in, grad_factors);
  };
  return call_cone({forward, backward, /*keeps_input=*/true}, x, eps);
}

at::Tensor cone_sum(const Cone& cone, const at::Tensor& y, double share, const at::Tensor& wild_y) {
  const auto forward = [cone, share, wild_y](const Tensor& in, const Tensor&) {
    const int64_t width = in.size(2);
    const Tensor out = at::empty({cone.shape.nodes, cone.shape.batch + 1, width}, in.options());
    run_cone(
        in, 0,
        [&]<class Real>(Real) {
          const Real* wild = wild_y.defined() ? data<Real>(wild_y) : nullptr;
          lacuna::cone_sum<Real>(cone.shape, lists_of(cone), width, share, data<Real>(in), wild,
                                 mutable_data<Real>(out), at::get_num_threads());
        },
        [&]<class Real>(Real, [[maybe_unused]] const auto& launch) {
#if LACUNA_HAVE_CUDA
          cone_sum_cuda<Real>(cone.shape, lists_of(cone), width, share, data<Real>(in),
                              mutable_data<Real>(out), launch);
#endif
        });
    return out;
  };
  const auto backward = [cone, share](const Tensor&, const Tensor&, const Tensor& grad) {
    const int64_t width = grad.size(2);
    const Tensor grad_y = empty_rows(cone, width, grad);
    run_cone(
        grad, 0,
        [&]<class Real>(Real) {
          cone_sum_backward<Real>(cone.shape, lists_of(cone), width, share, data<Real>(grad),
                                  mutable_data<Real>(grad_y), at::get_num_threads());
        },
        [&]<class Real>(Real, [[maybe_unused]] const auto& launch) {
#if LACUNA_HAVE_CUDA
          cone_sum_backward_cuda<Real>(cone.shape, lists_of(cone), width, share, data<Real>(grad),
                                       mutable_data<Real>(grad_y), launch);
          clear_rows<Real>(cone, cone.used, grad_y, launch);
#endif
        });
    return std::pair(grad_y, Tensor());
  };
  return call_cone({forward, backward}, y);
}

at::Tensor cone_gather(const Cone& cone, const at::Tensor& y, const at::Tensor& wild_y) {
  const Cone either = cone.either();
  const int64_t rows = either.shape.capacity;
  const auto forward = [cone, either, rows, wild_y](const Tensor& in, const Tensor&) {
    const int64_t width = in.size(2);
    const Tensor out =
        at::empty({cone.shape.types, cone.shape.first() + rows, width}, in.options());
    run_cone(
        in, 0,
        [&]<class Real>(Real) {
          const Real* wild = wild_y.defined() ? data<Real>(wild_y) : nullptr;
          lacuna::cone_gather<Real>(cone.shape, lists_of(cone), lists_of(either), rows, width,
                                    data<Real>(in), wild, mutable_data<Real>(out),
                                    at::get_num_threads());
        },
        [&]<class Real>(Real, [[maybe_unused]] const auto& launch) {
#if LACUNA_HAVE_CUDA
          cone_gather_cuda<Real>(cone.shape, lists_of(cone), lists_of(either), rows, width,
                                 data<Real>(in), mutable_data<Real>(out), launch);
          clear_rows<Real>(cone, either.used, out, launch);
#endif
        });
    return out;
  };
  const auto backward = [cone, either, rows](const Tensor&, const Tensor&, const Tensor& grad) {
    const int64_t width = grad.size(2);
    const Tensor grad_y = empty_rows(cone, width, grad);
    run_cone(
        grad, 0,
        [&]<class Real>(Real) {
          cone_gather_backward<Real>(cone.shape, lists_of(cone), lists_of(either), rows, width,
                                     data<Real>(grad), mutable_data<Real>(grad_y),
                                     at::get_num_threads());
        },
        [&]<class Real>(Real, [[maybe_unused]] const auto& launch) {
#if LACUNA_HAVE_CUDA
          cone_gather_backward_cuda<Real>(cone.shape, lists_of(cone), lists_of(either), rows, width,
                                          data<Real>(grad), mutable_data<Real>(grad_y), launch);
          clear_rows<Real>(cone, cone.used, grad_y, launch);
#endif
        });
    return std::pair(grad_y, Tensor());
  };
  return call_cone({forward, backward}, y);
}

at::Tensor cone_take([[maybe_unused]] const Cone& cone, [[maybe_unused]] const at::Tensor& u) {
#if LACUNA_HAVE_CUDA
  const auto forward = [cone](const Tensor& in, const Tensor&) {
    const Tensor out = empty_rows(cone, in.size(3), in);
    Launch launch(in.device());
    with_real(in.scalar_type(), [&]<class Real>(Real) {
      const CudaLaunch there = launch.with_workspace(0);
      cone_take_cuda<Real>(cone.shape, lists_of(cone), in.size(3), data<Real>(in),
                           mutable_data<Real>(out), there);
      clear_rows<Real>(cone, cone.used, out, there);
    });
    return out;
  };
  const auto backward = [cone](const Tensor&, const Tensor&, const Tensor& grad) {
    const ConeShape& shape = cone.shape;
    const int64_t width = grad.size(2);
    const Tensor grad_u =
        at::empty({shape.types, shape.nodes, shape.batch + 1, width}, grad.options());
    Launch launch(grad.device());
    with_real(grad.scalar_type(), [&]<class Real>(Real) {
      cone_take_backward_cuda<Real>(shape, lists_of(cone), width, data<Real>(grad),
                                    mutable_data<Real>(grad_u), launch.with_workspace(0));
    });
    return std::pair(grad_u, Tensor());
  };
  return call_cone({forward, backward}, u);
#else
  throw Error("this build has no CUDA, but the tensors are on {}", text(u.device()));
#endif
}

}  // namespace lacuna
