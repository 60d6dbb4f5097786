#include <cuda_runtime.h>

#include "lacuna/ops/cuda/cuda_error.h"
#include "lacuna/ops/cuda/shared_memory_cuda.h"

namespace lacuna {

uint64_t cuda_shared_memory_bytes() {
  int device = 0, bytes = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status != cudaSuccess)
    throw_cuda_error("shared memory of the device", cudaGetErrorString(status));
  return uint64_t(bytes);
}

}  // namespace lacuna
