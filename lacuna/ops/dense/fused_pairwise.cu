#include "lacuna/ops/dense/fused_pairwise.h"

#include "lacuna/ops/cuda/cuda_device.cuh"
#include "lacuna/ops/dense/fused_pairwise_wgmma.cuh"

namespace lacuna {
namespace {

using namespace cuda;

void check_shape(const FusedPairwiseShape& shape) {
  if (shape.width != wgmma::kWidth) throw_error("fused_pairwise: the width must be 64");
  if (shape.graphs < 2 || shape.graphs > wgmma::kMostGraphs)
    throw_error("fused_pairwise: there must be 2 to 18 graphs");
  if (shape.rows >= (int64_t(1) << 31) - 4096) throw_error("fused_pairwise: too many rows");
}

}  // namespace

bool fused_pairwise_fits(int64_t graphs, int64_t width) {
  int device = 0, major = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "the compute capability");
  return major == 9 && width == wgmma::kWidth && graphs >= 2 && graphs <= wgmma::kMostGraphs;
}

uint64_t fused_pairwise_packed_bytes(const FusedPairwiseShape& shape) {
  check_shape(shape);
  return wgmma::pairwise_packed_bytes(int(shape.graphs));
}

void fused_pairwise_pack(const FusedPairwiseShape& shape,
                         const FusedPairwiseParameters<const float>& parameters, void* packed,
                         CudaStream stream) {
  check_shape(shape);
  wgmma::pairwise_pack(shape, parameters, packed, stream);
}

void fused_pairwise(const FusedPairwiseShape& shape, const void* packed, const BFloat16* y,
                    BFloat16* x, const FusedPairwiseRows<BFloat16, float>& keep,
                    CudaStream stream) {
  check_shape(shape);
  if (shape.rows > 0) wgmma::pairwise_forward(shape, packed, y, x, keep, stream);
}

uint64_t fused_pairwise_backward_workspace(const FusedPairwiseShape& shape) {
  check_shape(shape);
  return wgmma::pairwise_backward_workspace(shape);
}

void fused_pairwise_backward(const FusedPairwiseShape& shape, const void* packed,
                             const FusedPairwiseParameters<const float>& parameters,
                             const BFloat16* y, const FusedPairwiseKept& kept,
                             const BFloat16* grad_x, BFloat16* grad_y,
                             const FusedPairwiseParameters<float>& gradients, void* workspace,
                             CudaStream stream) {
  check_shape(shape);
  wgmma::pairwise_backward(shape, packed, parameters, y, kept, grad_x, grad_y, gradients, workspace,
                           stream);
}

}  // namespace lacuna
