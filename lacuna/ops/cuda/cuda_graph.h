// What the device functions of this folder take: a graph whose plan has a copy on the device, and
// the removed nodes of a batch in device memory.
//
// All device functions work on raw device pointers and a stream, never wait for the device,
// allocate nothing and are safe under CUDA graph capture. Scratch memory comes from the caller:
// each room has a *_workspace() that says how many bytes; their contents mean nothing before and
// after a call. A launch that fails throws Error with CUDA's words.
//
// Index values cannot be checked on the host without waiting. The kernels skip what is wrong and
// set bits of an error word; the next host read of it throws (check_cuda_error_word). Shapes and
// null pointers are checked at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lacuna/graph/graph_plan.h"
#include "lacuna/ops/slab/slab_plan.h"

namespace lacuna {

// A cudaStream_t, without CUDA's headers. nullptr is the default stream.
using CudaStream = void*;

// `plan` and `slabs` stay on the host; the bytes of each have an exact copy at `device` and
// `slabs_device` (256-byte aligned, as every CUDA allocator gives). Without slabs every call
// takes the gather path.
struct CudaGraph {
  const GraphPlan* plan = nullptr;
  const std::byte* device = nullptr;
  const SlabPlan* slabs = nullptr;
  const std::byte* slabs_device = nullptr;
};

// Device memory; as RemovedView. Only removed[ptr[b] .. ptr[b + 1]) is read; capacity is how many
// the array could hold.
struct CudaRemoved {
  const int32_t* index = nullptr;  // [capacity]
  const int32_t* ptr = nullptr;    // [batch + 1]
  int64_t capacity = 0;
  int64_t batch = 0;
};

// Bits of an error word (one int32 in device memory, zeroed by the caller; may be null: then
// nothing is reported).
enum CudaErrorBit : int32_t {
  kBadRemovedIndex = 1,  // an index is not a node: skipped
  kBadRemovedPtr =
      2,  // ptr does not start at 0, decreases or passes the capacity: that sample removes nothing
  kConeTooLong = 4,  // a batch changes more rows than there is room for (ops/cone)
};
// Where a device function works. error may be null.
struct CudaLaunch {
  CudaStream stream = nullptr;
  void* workspace = nullptr;
  int32_t* error = nullptr;  // [1]
};

// Throws Error for a word read back from the device that is not 0.
void check_cuda_error_word(int32_t word);

}  // namespace lacuna
