// The backward pass of fused_pairwise_wgmma.cuh: how it is done, and what its kernels hand to each
// other. The ladder of versions stands in docs/performance.md.
//
// Given z (the sum over options, before the norm), the mean of y and the softmax' denominator of a
// row, the options do not depend on each other. With dz the gradient of z and D = dz . z:
//
//   p = 2^(s - log_sum), q = W^T dz, dp = q . h + dz . d, ds = p (dp - D), da = ds w gelu'(a),
//   dh = p q + M^T da, dpre = dh gelu'(pre), and, M = V W taken for a parameter of its own,
//   dU = [y_i, y_j] dpre^T, db = sum of dpre, dM = h da^T, dW = (p h) dz^T, dd = p dz
//
// row_kernel     a row: dz, D, all of the mean's option, gradients of the norm
// pair_kernel    a block has a pair's parameters and their gradients on chip and runs over rows;
//                leaves dpre, 32 bf16 a row, in memory as register operands
// grad_y_kernel  grad_y_g = sum of the G + 1 dpre of g times their half of U, plus the mean's part
// sum_kernel, fold_kernel, shared_kernel
//                add what the blocks have left in their slots, in order, and take dM and the
//                gradient of V d + c back to V, W, d and c
//
// Waiting: see each kernel. Blocks wait for none but their own threads.
#pragma once

#include "lacuna/ops/dense/fused_pairwise_wgmma.cuh"

namespace lacuna::wgmma {

// In the workspace. Tiles are of 64 rows.
struct Between {
  int tiles;            // of all rows, in use or not
  uint8_t* grad_sum;    // [tiles] dz, as it lies in shared memory
  float2* row;          // [tiles, 64] log_sum and D
  uint4* mean_part;     // [tiles, 4, 128] the mean's part of grad_y, a register operand
  uint4* grad_hidden;   // [P, tiles, 2, 128] dpre, a register operand
  float* row_slots;     // [blocks, kRowSlotFloats]
  float* pair_slots;    // [PairDeal::slots(), kSlotFloats]
  float* score_slots;   // [blocks, 32] gradient of w
  float* sums;          // [P, kSlotFloats] from kSlotOut on: sums over slots
  float* scorer_parts;  // [P, 64, 32] gradient of V by way of M
};

// ---- slots
// Of a block of row_kernel: gradients of V [64, 32], of the norm's weight and bias [2, 64] (columns
// of fragments), of c and w [2, 32], as far as the mean's option goes.
inline constexpr int kRowSmall = 2 * kWidth + 2 * kHidden;
inline constexpr int kRowSlotFloats = kWidth * kHidden + kRowSmall;

// Of a run of pair_kernel: gradients of U [128, 32], W [64, 32] (outputs first), d [64],
// M [32, 32], V d + c [32], b [32].
inline constexpr int kSlotOut = 2 * kWidth * kHidden;
inline constexpr int kSlotOutBias = kSlotOut + kWidth * kHidden;
inline constexpr int kSlotFold = kSlotOutBias + kWidth;
inline constexpr int kSlotFoldBias = kSlotFold + kHidden * kHidden;
inline constexpr int kSlotHiddenBias = kSlotFoldBias + kHidden;
inline constexpr int kSlotFloats = kSlotHiddenBias + kHidden;

// ---- pairs
// Which block does what. All blocks go through the same rows at the same time, so that y and dz are
// read from memory about once: the first `whole` pairs are cut into `ranges` runs of tiles, a run a
// block; then the tiles of the pairs that are left, in a row, are cut into a run for every block.
struct PairDeal {
  int pairs, blocks, ranges, whole;

  __host__ __device__ PairDeal(int pairs_, int blocks_)
      : pairs(pairs_),
        blocks(blocks_),
        ranges((blocks + pairs - 1) / pairs),
        whole(blocks / ranges < pairs ? blocks / ranges : pairs) {}
  __host__ __device__ int slots() const { return 2 * blocks + pairs - whole; }
  // Of one of the first pairs.
  __device__ int begin_of(int range, int tiles) const {
    return int(int64_t(tiles) * range / ranges);
  }
  // Among the tiles of the pairs that are left.
  __device__ int64_t left_begin(int64_t block, int tiles) const {
    return int64_t(pairs - whole) * tiles * block / blocks;
  }
  // A run of the second kind starts at a block's or a pair's first tile, so block + pair names it.
  __device__ int left_slot(int block, int pair) const { return blocks + block + pair - whole; }
};

// ---- the launches
void launch_rows(const FusedPairwiseShape& shape, const void* packed, const FusedPairwiseKept& kept,
                 const BFloat16* grad_x, const Between& to, int blocks, CudaStream stream);
void launch_grad_y(const FusedPairwiseShape& shape, const void* packed, const Between& from,
                   BFloat16* grad_y, int blocks, CudaStream stream);
void launch_sums(const FusedPairwiseShape& shape,
                 const FusedPairwiseParameters<const float>& parameters, const Between& from,
                 int blocks, const FusedPairwiseParameters<float>& gradients, CudaStream stream);

}  // namespace lacuna::wgmma
