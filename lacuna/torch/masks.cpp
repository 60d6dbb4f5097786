// torch.ops.lacuna.masks and aggregate_masked: lacuna/ops/masks/masks.h and aggregate_masked.h on
// tensors.
//
//   table    a MaskTable as two int32 tensors, ptr and place, whose numbers are read as unsigned
//   counts   elements of each section of a record: nodes, then the edge types
//   records  u8 [B, stride], or with more rows
#include "lacuna/ops/masks/masks.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "lacuna/ops/aggregate/aggregate_masked.h"
#include "lacuna/torch/aggregate.h"
#if LACUNA_HAVE_CUDA
#include "lacuna/ops/aggregate/aggregate_masked_cuda.h"
#include "lacuna/ops/masks/masks_cuda.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna::torch_ops {
namespace {

// ---- making masks
std::vector<Tensor> mask_table(const Tensor& plan_bytes, at::IntArrayRef sizes) {
  const GraphPlan plan = plan_of(plan_bytes, GraphSizes(sizes));
  std::vector<int64_t> counts = {sizes[0]};
  counts.insert(counts.end(), sizes.begin() + 2, sizes.begin() + 2 + sizes[1]);
  const MaskTable table(plan, MaskLayout(counts, MaskForm::u8));
  const auto copy = [](const std::vector<uint32_t>& numbers) {
    const Tensor tensor = at::empty({int64_t(numbers.size())}, at::kInt);
    std::ranges::copy(numbers, mutable_data<uint32_t>(tensor));
    return tensor;
  };
  return {copy(table.ptr), copy(table.place)};
}

int64_t stride_of(at::IntArrayRef counts) {
  return int64_t(MaskLayout(counts, MaskForm::u8).stride());
}

void check_mask_arguments(at::TensorList table, at::IntArrayRef counts, const Tensor& removed,
                          const Tensor& ptr) {
  if (table.size() != 2) throw Error("table holds {} tensors, but two are needed", table.size());
  for (const Tensor& part : table) {
    check_device("table", part, removed.device(), "removed");
    check_dtype("table", part, at::kInt);
    check_dim("table", part, 1, "one axis");
  }
  if (counts.empty()) throw Error("counts is empty; a record has one section or more");
  check_removed_shapes(removed, ptr, removed.device());
}

void check_records(const Tensor& records, int64_t stride, const Tensor& ptr) {
  check_device("records", records, ptr.device(), "removed");
  check_dtype("records", records, at::kByte);
  check_dim("records", records, 2, "[B, stride]");
  check_size("records", records, 1, stride, "[B, stride]");
  if (records.sym_size(0) < ptr.sym_size(0) - 1)
    throw Error("records has room for {} samples, but the batch has {}", text(records.sym_size(0)),
                text(ptr.sym_size(0) - 1));
  if (!records.is_contiguous()) throw Error("records is not contiguous; write into a whole tensor");
}

Tensor masks_meta(at::TensorList table, at::IntArrayRef counts, const Tensor& removed,
                  const Tensor& ptr) {
  check_mask_arguments(table, counts, removed, ptr);
  return at::empty_symint({ptr.sym_size(0) - 1, stride_of(counts)},
                          removed.options().dtype(at::kByte));
}

void write_masks_meta(at::TensorList table, at::IntArrayRef counts, const Tensor& removed,
                      const Tensor& ptr, const Tensor& records) {
  check_mask_arguments(table, counts, removed, ptr);
  check_records(records, stride_of(counts), ptr);
}

void update_masks_meta(at::TensorList table, at::IntArrayRef counts, const Tensor& last_removed,
                       const Tensor& last_ptr, const Tensor& removed, const Tensor& ptr,
                       const Tensor& records) {
  write_masks_meta(table, counts, removed, ptr, records);
  check_removed_shapes(last_removed, last_ptr, removed.device());
  check_records(records, stride_of(counts), last_ptr);
}

// The arrays of a table in host memory; they must outlive the view.
MaskTableView view_of(const Tensor& ptr, const Tensor& place) {
  const MaskTableView view = {span_of<uint32_t>(ptr), span_of<uint32_t>(place)};
  if (view.ptr.empty() || view.ptr.back() != view.place.size())
    throw Error("table holds parts of two tables; pass those of one Graph");
  return view;
}

void write_masks_cpu(at::TensorList table, at::IntArrayRef counts, const Tensor& removed,
                     const Tensor& ptr, const Tensor& records) {
  write_masks_meta(table, counts, removed, ptr, records);
  const Tensor table_ptr = table[0].contiguous(), place = table[1].contiguous(),
               removed_ = removed.contiguous(), ptr_ = ptr.contiguous();
  write_masks(MaskLayout(counts, MaskForm::u8), view_of(table_ptr, place),
              removed_view(removed_, ptr_), mutable_data<uint8_t>(records), at::get_num_threads());
}

Tensor masks_cpu(at::TensorList table, at::IntArrayRef counts, const Tensor& removed,
                 const Tensor& ptr) {
  const Tensor records = masks_meta(table, counts, removed, ptr);
  write_masks_cpu(table, counts, removed, ptr, records);
  return records;
}

void update_masks_cpu(at::TensorList table, at::IntArrayRef counts, const Tensor& last_removed,
                      const Tensor& last_ptr, const Tensor& removed, const Tensor& ptr,
                      const Tensor& records) {
  update_masks_meta(table, counts, last_removed, last_ptr, removed, ptr, records);
  const Tensor table_ptr = table[0].contiguous(), place = table[1].contiguous(),
               last_removed_ = last_removed.contiguous(), last_ptr_ = last_ptr.contiguous(),
               removed_ = removed.contiguous(), ptr_ = ptr.contiguous();
  update_masks(uint64_t(records.size(1)), view_of(table_ptr, place),
               removed_view(last_removed_, last_ptr_), removed_view(removed_, ptr_),
               mutable_data<uint8_t>(records));
}

#if LACUNA_HAVE_CUDA
void write_masks_on_cuda(at::TensorList table, at::IntArrayRef counts, const Tensor& removed,
                         const Tensor& ptr, const Tensor& records) {
  write_masks_meta(table, counts, removed, ptr, records);
  const Tensor table_ptr = table[0].contiguous(), place = table[1].contiguous(),
               removed_ = removed.contiguous(), ptr_ = ptr.contiguous();
  Launch launch(removed.device());
  write_masks_cuda(
      MaskLayout(counts, MaskForm::u8),
      {data<uint32_t>(table_ptr), data<uint32_t>(place), uint32_t(table_ptr.numel() - 1)},
      cuda_removed(removed_, ptr_), mutable_data<uint8_t>(records), launch.error(),
      launch.stream());
}

Tensor masks_on_cuda(at::TensorList table, at::IntArrayRef counts, const Tensor& removed,
                     const Tensor& ptr) {
  const Tensor records = masks_meta(table, counts, removed, ptr);
  write_masks_on_cuda(table, counts, removed, ptr, records);
  return records;
}

// At a GPU's bandwidth whole records cost no more than finding out what changed. Rows that only the
// last batch had become the wild type's again.
void update_masks_on_cuda(at::TensorList table, at::IntArrayRef counts, const Tensor& last_removed,
                          const Tensor& last_ptr, const Tensor& removed, const Tensor& ptr,
                          const Tensor& records) {
  update_masks_meta(table, counts, last_removed, last_ptr, removed, ptr, records);
  write_masks_on_cuda(table, counts, removed, ptr, records);
  const int64_t batch = ptr.numel() - 1, rest = last_ptr.numel() - 1 - batch;
  if (rest > 0)
    write_masks_on_cuda(table, counts, removed, at::zeros({rest + 1}, ptr.options()),
                        records.slice(0, batch, batch + rest));
}
#endif

// ---- aggregating by masks; offsets[t] is where type t's mask starts in a record
void check_mask_records(const GraphSizes& sizes, const AggregateOptions& options,
                        const Tensor& masks, at::IntArrayRef offsets, c10::Device device) {
  if (options.reduce == Reduce::max)
    throw Error("reduce 'max' is not offered with masks; use aggregate");
  check_device("masks", masks, device);
  check_dtype("masks", masks, at::kByte);
  check_dim("masks", masks, 2, "[B, stride]");
  if (int64_t(offsets.size()) != sizes.types)
    throw Error("offsets holds {} numbers, but the graph has {} types", offsets.size(),
                sizes.types);
}

Tensor masked_meta(at::TensorList graph, at::IntArrayRef size_list, const Tensor& x,
                   const Tensor& masks, at::IntArrayRef offsets, std::string_view reduce,
                   bool sum_types, const OptionalTensor& values, const OptionalTensor& eps) {
  const GraphSizes sizes(size_list);
  const AggregateOptions options = options_of(reduce, sum_types);
  check_graph(graph, x.device());
  check_mask_records(sizes, options, masks, offsets, x.device());
  check_x(sizes, x, masks.sym_size(0));
  check_parameters(sizes, options, x, values, eps);
  return make_out(sizes, sum_types, x, masks.sym_size(0));
}

Gradients masked_meta_backward(at::TensorList graph, at::IntArrayRef size_list, const Tensor& grad,
                               const OptionalTensor& x, const Tensor& masks,
                               at::IntArrayRef offsets, std::string_view reduce, bool sum_types,
                               const OptionalTensor& values, const OptionalTensor& eps,
                               bool need_values, bool need_eps) {
  const GraphSizes sizes(size_list);
  const AggregateOptions options = options_of(reduce, sum_types);
  check_graph(graph, grad.device());
  check_mask_records(sizes, options, masks, offsets, grad.device());
  check_parameters(sizes, options, grad, values, eps);
  return make_gradients(sizes, options, grad, x, masks.sym_size(0), false, need_values, need_eps);
}

MaskView mask_view(const Tensor& masks, const std::vector<uint64_t>& offsets) {
  return {span_of<uint8_t>(masks), uint64_t(masks.size(1)), offsets};
}

Tensor masked_cpu(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x, const Tensor& masks,
                  at::IntArrayRef offsets, std::string_view reduce, bool sum_types,
                  const OptionalTensor& values, const OptionalTensor& eps) {
  const Tensor out = masked_meta(graph, sizes, x, masks, offsets, reduce, sum_types, values, eps);
  const GraphPlan plan = plan_of(graph, GraphSizes(sizes));
  const Tensor x_ = x.contiguous(), masks_ = masks.contiguous();
  const OptionalTensor values_ = contiguous(values), eps_ = contiguous(eps);
  const std::vector<uint64_t> offsets_(offsets.begin(), offsets.end());
  with_real(x.scalar_type(), [&]<class Real>(Real) {
    aggregate_masked<Real>(plan, options_of(reduce, sum_types), x.size(-1), data<Real>(x_),
                           mask_view(masks_, offsets_), data<Parameter<Real>>(values_),
                           data<Parameter<Real>>(eps_), mutable_data<Real>(out));
  });
  return out;
}

Gradients masked_cpu_backward(at::TensorList graph, at::IntArrayRef sizes, const Tensor& grad,
                              const OptionalTensor& x, const Tensor& masks, at::IntArrayRef offsets,
                              std::string_view reduce, bool sum_types, const OptionalTensor& values,
                              const OptionalTensor& eps, bool need_values, bool need_eps) {
  const Gradients out = masked_meta_backward(graph, sizes, grad, x, masks, offsets, reduce,
                                             sum_types, values, eps, need_values, need_eps);
  const Tensor &grad_x = std::get<0>(out), &grad_values = std::get<1>(out),
               &grad_eps = std::get<2>(out);
  const GraphPlan plan = plan_of(graph, GraphSizes(sizes));
  const Tensor grad_ = grad.contiguous(), masks_ = masks.contiguous();
  const OptionalTensor x_ = contiguous(x), values_ = contiguous(values), eps_ = contiguous(eps);
  const std::vector<uint64_t> offsets_(offsets.begin(), offsets.end());
  with_real(grad.scalar_type(), [&]<class Real>(Real) {
    using Param = Parameter<Real>;
    aggregate_masked_backward<Real>(plan, options_of(reduce, sum_types), grad.size(-1),
                                    data<Real>(grad_), data<Real>(x_), mask_view(masks_, offsets_),
                                    data<Param>(values_), data<Param>(eps_),
                                    mutable_data<Real>(grad_x), data_if<Param>(need_eps, grad_eps),
                                    data_if<Param>(need_values, grad_values));
  });
  return out;
}

#if LACUNA_HAVE_CUDA
Tensor masked_cuda(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x,
                   const Tensor& masks, at::IntArrayRef offsets, std::string_view reduce,
                   bool sum_types, const OptionalTensor& values, const OptionalTensor& eps) {
  const Tensor out = masked_meta(graph, sizes, x, masks, offsets, reduce, sum_types, values, eps);
  const DeviceGraph device(graph, sizes);
  const Tensor x_ = x.contiguous(), masks_ = masks.contiguous();
  const OptionalTensor values_ = contiguous(values), eps_ = contiguous(eps);
  const std::vector<uint64_t> offsets_(offsets.begin(), offsets.end());
  const CudaMasks records = {data<uint8_t>(masks_), uint64_t(masks.size(1)), offsets_,
                             masks.size(0)};
  const CudaAggregateOptions options = {reduce_from_name(reduce), sum_types};
  Launch launch(x.device());
  with_real(x.scalar_type(), [&]<class Real>(Real) {
    void* workspace = launch.workspace(
        aggregate_masked_cuda_workspace<Real>(device.view, options, records.batch));
    aggregate_masked_cuda<Real>(device.view, options, x.size(-1), data<Real>(x_), records,
                                data<Parameter<Real>>(values_), data<Parameter<Real>>(eps_),
                                mutable_data<Real>(out), workspace, launch.stream());
  });
  return out;
}

Gradients masked_cuda_backward(at::TensorList graph, at::IntArrayRef sizes, const Tensor& grad,
                               const OptionalTensor& x, const Tensor& masks,
                               at::IntArrayRef offsets, std::string_view reduce, bool sum_types,
                               const OptionalTensor& values, const OptionalTensor& eps,
                               bool need_values, bool need_eps) {
  const Gradients out = masked_meta_backward(graph, sizes, grad, x, masks, offsets, reduce,
                                             sum_types, values, eps, need_values, need_eps);
  const Tensor &grad_x = std::get<0>(out), &grad_values = std::get<1>(out),
               &grad_eps = std::get<2>(out);
  const DeviceGraph device(graph, sizes);
  const Tensor grad_ = grad.contiguous(), masks_ = masks.contiguous();
  const OptionalTensor x_ = contiguous(x), values_ = contiguous(values), eps_ = contiguous(eps);
  const std::vector<uint64_t> offsets_(offsets.begin(), offsets.end());
  const CudaMasks records = {data<uint8_t>(masks_), uint64_t(masks.size(1)), offsets_,
                             masks.size(0)};
  const CudaAggregateOptions options = {reduce_from_name(reduce), sum_types};
  Launch launch(grad.device());
  with_real(grad.scalar_type(), [&]<class Real>(Real) {
    using Param = Parameter<Real>;
    void* workspace = launch.workspace(
        aggregate_masked_cuda_workspace<Real>(device.view, options, records.batch));
    aggregate_masked_backward_cuda<Real>(
        device.view, options, grad.size(-1), data<Real>(grad_), data<Real>(x_), records,
        data<Param>(values_), data<Param>(eps_), mutable_data<Real>(grad_x),
        data_if<Param>(need_eps, grad_eps), data_if<Param>(need_values, grad_values), workspace,
        launch.stream());
  });
  return out;
}
#endif

Tensor call_masked(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x,
                   const Tensor& masks, at::IntArrayRef offsets, std::string_view reduce,
                   bool sum_types, const OptionalTensor& values, const OptionalTensor& eps) {
  static const auto op = find_operator<decltype(masked_cpu)>("lacuna::aggregate_masked");
  return op.call(graph, sizes, x, masks, offsets, reduce, sum_types, values, eps);
}

struct ByMasks {
  Tensor first, second;          // masks, nothing
  std::vector<int64_t> numbers;  // offsets

  Tensor forward(const Fixed& fixed, const Tensor& x, const OptionalTensor& values,
                 const OptionalTensor& eps) const {
    return call_masked(fixed.graph, fixed.sizes, x, first, numbers, fixed.reduce, fixed.sum_types,
                       values, eps);
  }
  Gradients backward(const Fixed& fixed, const Tensor& grad, const OptionalTensor& x,
                     const OptionalTensor& values, const OptionalTensor& eps, bool need_values,
                     bool need_eps) const {
    static const auto op =
        find_operator<decltype(masked_cpu_backward)>("lacuna::aggregate_masked_backward");
    return op.call(fixed.graph, fixed.sizes, grad, x, first, numbers, fixed.reduce, fixed.sum_types,
                   values, eps, need_values, need_eps);
  }
};

Tensor masked_autograd(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x,
                       const Tensor& masks, at::IntArrayRef offsets, std::string_view reduce,
                       bool sum_types, const OptionalTensor& values, const OptionalTensor& eps) {
  const Fixed fixed = {graph.vec(), sizes.vec(), std::string(reduce), sum_types};
  return AggregateFunction<ByMasks>::apply(fixed, ByMasks{masks, Tensor(), offsets.vec()}, x,
                                           values, eps);
}

template <c10::DeviceType device>
Tensor masked_autocast(at::TensorList graph, at::IntArrayRef sizes, const Tensor& x,
                       const Tensor& masks, at::IntArrayRef offsets, std::string_view reduce,
                       bool sum_types, const OptionalTensor& values, const OptionalTensor& eps) {
  const auto guard = without_autocast<device>();
  return call_masked(graph, sizes, autocast_real<device>(x), masks, offsets, reduce, sum_types,
                     values, eps);
}

}  // namespace

TORCH_LIBRARY_IMPL(lacuna, CPU, m) {
  m.impl("mask_table", mask_table);
  m.impl("masks", masks_cpu);
  m.impl("write_masks", write_masks_cpu);
  m.impl("update_masks", update_masks_cpu);
  m.impl("aggregate_masked", masked_cpu);
  m.impl("aggregate_masked_backward", masked_cpu_backward);
}
#if LACUNA_HAVE_CUDA
TORCH_LIBRARY_IMPL(lacuna, CUDA, m) {
  m.impl("masks", masks_on_cuda);
  m.impl("write_masks", write_masks_on_cuda);
  m.impl("update_masks", update_masks_on_cuda);
  m.impl("aggregate_masked", masked_cuda);
  m.impl("aggregate_masked_backward", masked_cuda_backward);
}
#endif
TORCH_LIBRARY_IMPL(lacuna, Meta, m) {
  m.impl("masks", masks_meta);
  m.impl("write_masks", write_masks_meta);
  m.impl("update_masks", update_masks_meta);
  m.impl("aggregate_masked", masked_meta);
  m.impl("aggregate_masked_backward", masked_meta_backward);
}
TORCH_LIBRARY_IMPL(lacuna, Autograd, m) {
  m.impl("aggregate_masked", masked_autograd);
  m.impl("aggregate_masked_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(lacuna, AutocastCPU, m) {
  m.impl("aggregate_masked", masked_autocast<c10::kCPU>);
}
TORCH_LIBRARY_IMPL(lacuna, AutocastCUDA, m) {
  m.impl("aggregate_masked", masked_autocast<c10::kCUDA>);
}

}  // namespace lacuna::torch_ops
