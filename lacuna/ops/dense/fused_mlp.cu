#include "lacuna/ops/dense/fused_mlp.h"

#include <algorithm>

#include "lacuna/ops/dense/fused_mlp_mma.cuh"
#include "lacuna/ops/dense/fused_mlp_wgmma.cuh"
#include "lacuna/ops/dense/fused_work.cuh"

namespace lacuna {
namespace {

using namespace cuda;

bool takes_wgmma(int64_t width, bool portable) {
  return !portable && width == wgmma::kFusedWidth &&
         device_attribute(cudaDevAttrComputeCapabilityMajor) == 9;
}
bool takes_wgmma(const FusedMlpShape& shape) { return takes_wgmma(shape.width, shape.portable); }

// What a block of the portable kernels may have.
int shared_of(const FusedMlpShape& shape) {
  const int most = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return shape.shared_limit > 0 ? std::min(most, shape.shared_limit) : most;
}

void check_shape(const FusedMlpShape& shape) {
  if (!fused_mlp_fits(shape.width, shape.portable))
    throw_error("fused_mlp: this width is none that the device computes in one kernel");
  if (!takes_wgmma(shape) && !mma::fits(shape.width, shared_of(shape)))
    throw_error("fused_mlp: a block needs 99 KB of shared memory");
  if (shape.rows >= (int64_t(1) << 31) - 4096) throw_error("fused_mlp: too many rows");
  if (shape.merged && shape.used) throw_error("fused_mlp: a merge takes all rows of every graph");
}

}  // namespace

bool fused_mlp_fits(int64_t width, bool portable) {
  return takes_wgmma(width, portable) ||
         (device_attribute(cudaDevAttrComputeCapabilityMajor) >= 8 &&
          mma::fits(width, device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)));
}

uint64_t fused_mlp_packed_bytes(const FusedMlpShape& shape) {
  return takes_wgmma(shape) ? uint64_t(shape.graphs * wgmma::kPackedBytes)
                            : mma::packed_bytes(shape);
}

void fused_mlp_pack(const FusedMlpShape& shape, const FusedMlpParameters<const float>& parameters,
                    void* packed, CudaStream stream) {
  check_shape(shape);
  if (shape.graphs == 0) return;
  if (takes_wgmma(shape))
    wgmma::pack(shape, parameters, packed, stream);
  else
    mma::pack(shape, parameters, packed, stream);
}

void fused_mlp(const FusedMlpShape& shape, const void* packed, const BFloat16* u, BFloat16* y,
               CudaStream stream) {
  check_shape(shape);
  if (shape.graphs == 0 || shape.rows == 0) return;
  if (takes_wgmma(shape))
    wgmma::forward(shape, packed, u, y, stream);
  else
    mma::forward(shape, shared_of(shape), packed, u, y, stream);
}

uint64_t fused_mlp_backward_workspace(const FusedMlpShape& shape) {
  return takes_wgmma(shape) ? wgmma::backward_workspace(shape)
                            : mma::backward_workspace(shape, shared_of(shape));
}

void fused_mlp_backward(const FusedMlpShape& shape, const void* packed, const BFloat16* u,
                        const BFloat16* grad_y, BFloat16* grad_u,
                        const FusedMlpParameters<float>& gradients, void* workspace,
                        CudaStream stream) {
  check_shape(shape);
  if (shape.graphs == 0) return;
  if (takes_wgmma(shape))
    wgmma::backward(shape, packed, u, grad_y, grad_u, gradients, workspace, stream);
  else
    mma::backward(shape, shared_of(shape), packed, u, grad_y, grad_u, gradients, workspace, stream);
}

}  // namespace lacuna
