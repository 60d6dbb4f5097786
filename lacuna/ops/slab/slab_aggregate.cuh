// The slab way of aggregate_cuda: sums from shared memory (slab_plan.h says how); internal.
//
// A block of threads keeps 32 bytes of columns of all nodes (or of a panel's) in shared memory and
// sums every output row from there. Two kernels do it, for the two layouts of a plan:
//   slab_tensor   chunks: bf16 sums on tensor cores             slab_tensor_sums.cu
//   slab_rows     rows: f32 sums, and sums with edge values     slab_row_sums.cu
// slab_block.cuh has what a block does around its sums, slab_aggregate.cu shares the work out.
#pragma once

#include "lacuna/ops/aggregate/aggregate_gather.cuh"

namespace lacuna::cuda {

// A strip is 32 bytes of columns, all nodes of them; a slab is what a panel holds of a strip.
// Columns of a strip, and of each of its halves of 16 bytes.
template <class Real>
inline constexpr int kHalfColumns = kWide<Real>;
template <class Real>
inline constexpr int kStripColumns = 2 * kWide<Real>;

template <class Real>
struct SlabArgs {
  // The pass and its layout, in device memory; slab::Pass and slab::Layout have the shapes.
  const uint32_t* panel_type;
  const uint16_t* node_at;
  const uint16_t* place;
  uint32_t panel_count, slab_rows;
  bool forward;
  const std::byte* units;
  const slab::Task* tasks;
  const uint32_t* lines;
  const uint16_t* own;
  const uint32_t* first_task;
  const uint32_t* task_of;
  const uint32_t* heads;
  uint32_t task_count;

  CsrTable csr;  // by target in the forward pass, by source in the backward pass
  uint32_t nodes;
  int types;
  int columns;  // B * H
  int width;    // H, a multiple of the columns of a half
  const Real* source;
  int64_t source_stride;  // elements from one type's source to the next; 0: the same
  CudaRemoved removed;
  const float* values;       // [E] or null
  const float* slot_values;  // [units, 16, 8] the same in the order of the rows layout
  const float* eps;          // [T] or null
  const float* row_scale;    // [T, N, B] or null; forward only
  Real* out;
  float* sums;  // [blocks, output rows, strip columns] of each block's strip, for more than one
                // panel; then as many: what helpers add to the strips of the last round
  int* done;    // [blocks] helpers' segments that are done; zero at the start
  int32_t* error;

  int strips;
  // Owners of strips of the last round leave tasks [cut, shared_end) of shared_panel to helpers;
  // none: cut is the end.
  int shared_panel, cut, shared_end;
  uint32_t zero;  // 0, unknown to the compiler: see the main loops
};

// Whether a pass can run on this device (its slab fits shared memory) and is worth it (strips for
// enough blocks).
template <class Real>
bool slabs_fit(const SlabPlan& plan, const slab::Pass& pass, int64_t columns, int64_t width);
// Scratch memory of a pass.
uint64_t slab_scratch_bytes(const SlabPlan& plan, const slab::Pass& pass, int strip_columns,
                            bool has_values);
// The sums of `gather` by one of the two slab ways; `removed` is read as it is, no bits are needed.
template <class Real>
void aggregate_slabs(const CudaGraph& graph, CudaPass pass, CudaPath path,
                     const GatherArgs<Real>& gather, const CudaRemoved& removed,
                     const CudaLaunch& launch);

// The kernels. blocks: all run at the same time.
void launch_chunks(const SlabArgs<BFloat16>& args, int blocks, cudaStream_t stream);
template <class Real>
void launch_rows(const SlabArgs<Real>& args, int blocks, cudaStream_t stream);
// slot_values[i] = values[edge[i]], 0 where there is no edge. count: a multiple of 4.
void order_values(const float* values, const uint32_t* edge, uint64_t count, float* slot_values,
                  cudaStream_t stream);

}  // namespace lacuna::cuda
