#include "lacuna/ops/aggregate/aggregate_pass.h"

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

template <class Real>
int64_t out_elements(const AggregatePass<Real>& in) {
  return in.elements() * (in.options.sum_types ? 1 : int64_t(in.graph.type_count()));
}

// What both directions have in common.
template <class Real>
ColumnPass<Real> make_pass(const AggregatePass<Real>& in) {
  const int64_t nodes = in.graph.node_count();
  ColumnPass<Real> pass = {.sources = nodes,
                           .rows = nodes,
                           .batch = in.batch,
                           .width = in.width,
                           .index_bytes = in.graph.index_bytes()};
  pass.removed_sources = pass.removed_rows = in.removed;
  pass.mask_stride = in.masks.stride;
  pass.threads = in.options.threads;
  return pass;
}

template <class Real>
TypePass<Real> make_type(const AggregatePass<Real>& in, uint32_t t, const Real* source,
                         const CsrView& csr) {
  TypePass<Real> type = {.source = source, .csr = csr};
  if (in.values != nullptr) type.values = in.values + in.graph.first_edge(t);
  if (in.masks.records != nullptr) type.masks = in.masks.records + in.masks.offsets[t];
  if (in.eps != nullptr) type.self = 1 + in.eps[t];
  return type;
}

template <class Real>
const double* scale(const AggregatePass<Real>& in, uint32_t t) {
  return in.options.reduce == Reduce::sum ? nullptr : in.scales[t].data();
}

}  // namespace

void check_given(const void* pointer, const char* argument, int64_t elements) {
  if (pointer == nullptr && elements > 0)
    throw Error("{} is missing; it needs {} elements", argument, elements);
}

void check_options(const AggregateOptions& options, int64_t width, bool has_values) {
  if (width < 1) throw Error("width is {}; a row needs at least one channel", width);
  if (has_values && options.reduce != Reduce::sum)
    throw Error("values are given, but reduce is '{}'; edge values go with 'sum'",
                name(options.reduce));
  if (options.sum_types && options.reduce == Reduce::max)
    throw Error("sum_types does not go with reduce 'max'; take the types one by one");
}

template <class Real>
void check_forward(const AggregatePass<Real>& in, const Real* x, const Real* out) {
  check_given(x, "x", in.elements());
  check_given(out, "out", out_elements(in));
}

template <class Real>
void check_backward(const AggregatePass<Real>& in, const Real* grad_out, const Real* grad_x,
                    const Real* const* x) {
  check_given(grad_out, "grad_out", out_elements(in));
  check_given(grad_x, "grad_x", in.elements());
  if (x != nullptr) check_given(*x, "x", in.elements());
}

template <class Real>
ColumnPass<Real> forward_pass(const AggregatePass<Real>& in, const Real* x, Real* out) {
  ColumnPass<Real> pass = make_pass(in);
  pass.maximum = in.options.reduce == Reduce::max;
  pass.sum_types = in.options.sum_types;
  pass.out = out;
  for (uint32_t t = 0; t < in.graph.type_count(); ++t) {
    TypePass<Real> type = make_type(in, t, x, in.graph.by_target(t));
    type.load_scale = in.options.reduce == Reduce::gcn ? scale(in, t) : nullptr;
    type.store_scale = scale(in, t);
    pass.types.push_back(type);
  }
  return pass;
}

template <class Real>
ColumnPass<Real> backward_pass(const AggregatePass<Real>& in, const Real* grad_out, Real* grad_x) {
  ColumnPass<Real> pass = make_pass(in);
  pass.sum_types = true;
  pass.out = grad_x;
  for (uint32_t t = 0; t < in.graph.type_count(); ++t) {
    const Real* source = in.options.sum_types ? grad_out : grad_out + t * in.elements();
    TypePass<Real> type = make_type(in, t, source, in.graph.by_source(t));
    type.load_scale = scale(in, t);
    type.store_scale = in.options.reduce == Reduce::gcn ? scale(in, t) : nullptr;
    pass.types.push_back(type);
  }
  return pass;
}

#define LACUNA_INSTANTIATE(Real)                                                          \
  template void check_forward(const AggregatePass<Real>&, const Real*, const Real*);      \
  template void check_backward(const AggregatePass<Real>&, const Real*, const Real*,      \
                               const Real* const*);                                       \
  template ColumnPass<Real> forward_pass(const AggregatePass<Real>&, const Real*, Real*); \
  template ColumnPass<Real> backward_pass(const AggregatePass<Real>&, const Real*, Real*);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
