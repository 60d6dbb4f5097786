// The slices way of aggregate_cuda: bf16 sums from shared memory by tensor cores (slice_plan.h says
// how); internal.
#pragma once

#include "lacuna/ops/aggregate_gather.cuh"

namespace lacuna::cuda {

struct SliceArgs {
  // The pass, in device memory; slice::Pass has the shapes.
  const std::byte* units;
  const slice::Task* tasks;
  const uint32_t* lines;
  const uint16_t* own;
  const slice::Panel* panels;
  const uint16_t* node_at;
  const uint16_t* place;
  const uint32_t* task_of;
  uint32_t panel_count, task_count, slab_rows;
  bool forward;

  CsrTable csr;  // by target in the forward pass, by source in the backward pass
  uint32_t nodes;
  int types;
  int columns;  // B * H
  int width;    // H, a multiple of 8
  const BFloat16* source;
  int64_t source_stride;  // elements from one type's source to the next; 0: the same
  CudaRemoved removed;
  const float* eps;        // [T] or null
  const float* row_scale;  // [T, N, B] or null; forward only
  BFloat16* out;
  float* sums;  // [blocks, output rows, 16] of each block's slice, for more than one panel; then
                // [blocks, output rows, 16] what helpers add to the slices of the last round
  int* done;    // [blocks] helpers' segments that are done; zero at the start
  int32_t* error;

  int slices;
  // Owners of slices of the last round leave tasks [cut, shared_end) of shared_panel to helpers;
  // none: cut is the end.
  int shared_panel, cut, shared_end;
  uint32_t zero;  // 0, unknown to the compiler: see the main loop
};

// Whether a pass can run on this device (its slab fits shared memory) and is worth it (slices for
// enough blocks).
bool slices_fit(const SlicePlan& plan, const slice::Pass& pass, int64_t columns, int64_t width);
uint64_t slice_sums_bytes(const SlicePlan& plan, const slice::Pass& pass);
// args: everything but the pass, csr and sharing, which are filled in here.
void aggregate_slices(const CudaGraph& graph, bool forward, SliceArgs args, cudaStream_t stream);

}  // namespace lacuna::cuda
