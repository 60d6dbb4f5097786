// write_masks() (masks.h) on a GPU: the u8 records of a batch from its removed genes, the same
// bytes, in one launch.
#pragma once

#include "lacuna/ops/cuda/cuda_graph.h"
#include "lacuna/ops/masks/masks.h"

namespace lacuna {

// A MaskTable in device memory, about 20 MB at yeast size.
struct CudaMaskTable {
  const uint32_t* ptr = nullptr;    // [genes + 1]
  const uint32_t* place = nullptr;  // [ptr[genes]] ascending within a gene
  uint32_t genes = 0;
};

// records [batch, layout.stride()], 16-byte aligned: every byte is written. layout is of form u8
// and of at most 96 sections. error as in cuda_graph.h.
void write_masks_cuda(const MaskLayout& layout, const CudaMaskTable& table,
                      const CudaRemoved& removed, uint8_t* records, int32_t* error,
                      CudaStream stream);

}  // namespace lacuna
