// torch.ops.lacuna.mask_table, masks, write_masks and update_masks: ops/masks/masks.h on tensors.
//
//   table    a MaskTable as two int32 tensors, ptr and place, whose numbers are read as unsigned
//   counts   elements of each section of a record: nodes, then the edge types
//   records  u8 [B, stride], or with more rows
#include "lacuna/ops/masks/masks.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "lacuna/torch/common.h"
#if LACUNA_HAVE_CUDA
#include "lacuna/ops/masks/masks_cuda.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna::torch_ops {
namespace {

TORCH_LIBRARY_FRAGMENT(lacuna, m) {
  // table: a MaskTable as two int32 tensors; counts: elements of each section of a record
  m.def("mask_table(Tensor plan, int[] sizes) -> Tensor[]");
  m.def("masks(Tensor[] table, int[] counts, Tensor removed, Tensor ptr) -> Tensor");
  m.def(
      "write_masks(Tensor[] table, int[] counts, Tensor removed, Tensor ptr, Tensor(a!) records) "
      "-> ()");
  // records hold the masks of (last_removed, last_ptr), and then those of (removed, ptr)
  m.def(
      "update_masks(Tensor[] table, int[] counts, Tensor last_removed, Tensor last_ptr, "
      "Tensor removed, Tensor ptr, Tensor(a!) records) -> ()");
}

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

}  // namespace

TORCH_LIBRARY_IMPL(lacuna, CPU, m) {
  m.impl("mask_table", mask_table);
  m.impl("masks", masks_cpu);
  m.impl("write_masks", write_masks_cpu);
  m.impl("update_masks", update_masks_cpu);
}
#if LACUNA_HAVE_CUDA
TORCH_LIBRARY_IMPL(lacuna, CUDA, m) {
  m.impl("masks", masks_on_cuda);
  m.impl("write_masks", write_masks_on_cuda);
  m.impl("update_masks", update_masks_on_cuda);
}
#endif
TORCH_LIBRARY_IMPL(lacuna, Meta, m) {
  m.impl("masks", masks_meta);
  m.impl("write_masks", write_masks_meta);
  m.impl("update_masks", update_masks_meta);
}

}  // namespace lacuna::torch_ops
