#include "lacuna/ops/dense/fused_mlp.h"

#include "lacuna/ops/cuda/cuda_device.cuh"
#include "lacuna/ops/dense/fused_mlp_wgmma.cuh"

namespace lacuna {
namespace {

using namespace cuda;

void check_shape(const FusedMlpShape& shape) {
  if (shape.width != wgmma::kFusedWidth) throw_error("fused_mlp: the width must be 64");
  if (shape.rows >= (int64_t(1) << 31) - 4096) throw_error("fused_mlp: too many rows");
  if (shape.merged && shape.used) throw_error("fused_mlp: a merge takes all rows of every graph");
}

}  // namespace

bool fused_mlp_fits(int64_t width) {
  int device = 0, major = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "the compute capability");
  return major == 9 && width == wgmma::kFusedWidth;
}

uint64_t fused_mlp_packed_bytes(const FusedMlpShape& shape) {
  return uint64_t(shape.graphs * wgmma::kPackedBytes);
}

void fused_mlp_pack(const FusedMlpShape& shape, const FusedMlpParameters<const float>& parameters,
                    void* packed, CudaStream stream) {
  check_shape(shape);
  if (shape.graphs > 0) wgmma::pack(shape, parameters, packed, stream);
}

void fused_mlp(const FusedMlpShape& shape, const void* packed, const BFloat16* u, BFloat16* y,
               CudaStream stream) {
  check_shape(shape);
  if (shape.graphs > 0 && shape.rows > 0) wgmma::forward(shape, packed, u, y, stream);
}

uint64_t fused_mlp_backward_workspace(const FusedMlpShape& shape) {
  return wgmma::backward_workspace(shape);
}

void fused_mlp_backward(const FusedMlpShape& shape, const void* packed, const BFloat16* u,
                        const BFloat16* grad_y, BFloat16* grad_u,
                        const FusedMlpParameters<float>& gradients, void* workspace,
                        CudaStream stream) {
  check_shape(shape);
  if (shape.graphs > 0)
    wgmma::backward(shape, packed, u, grad_y, grad_u, gradients, workspace, stream);
}

}  // namespace lacuna
