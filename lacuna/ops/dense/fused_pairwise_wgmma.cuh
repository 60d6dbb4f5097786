// The kernels of fused_pairwise.h for width 64 on Hopper (compute capability 9.0a): what forward
// (fused_pairwise_wgmma.cu) and backward (fused_pairwise_backward_wgmma.cu) share.
#pragma once

#include <cuda.h>

#include "lacuna/ops/dense/fused_pairwise.h"
#include "lacuna/ops/dense/wgmma_parts.cuh"

namespace lacuna::wgmma {

inline constexpr int kHidden = int(kPairwiseHidden);
inline constexpr int kMostGraphs = 18;

// ---- packed parameters: those of every pair, then the scorer's and the norm's, then the halves.
// A pair's. Letters as in fused_pairwise.h.
inline constexpr int kHiddenAt = 0;  // U: for y_i and for y_j a tile of 32 rows, a row an output
inline constexpr int kOutAt =
    8192;  // tile of 48 rows: 32 of W, d rounded, what d lost, zeros; columns
           // such that a lane's are two runs (memory_column)
inline constexpr int kFoldAt = 14336;        // V W: tile of 32 rows of 64 bytes, a row an output
inline constexpr int kHiddenBiasAt = 16384;  // b, for load_bias()
inline constexpr int kFoldBiasAt = 16640;    // V d + c, likewise
inline constexpr int kForwardBytes = 16896;  // up to here: what the forward pass reads
inline constexpr int kOutPlainAt = kForwardBytes;  // as kOutAt with columns as in memory
inline constexpr int kOutBytes = kFoldAt - kOutAt, kFoldBytes = kHiddenBiasAt - kFoldAt;
inline constexpr int kPairBytes = kOutPlainAt + kOutBytes;
// The scorer's and the norm's.
inline constexpr int kScorerAt = 0;         // V: tile of 32 rows, columns by memory_column
inline constexpr int kScorerBiasAt = 4096;  // c, for load_bias()
inline constexpr int kNormAt = 4352;        // weight [64], bias [64] f32, by memory_column
inline constexpr int kScoreAt = 4864;       // w / log 2 [32] f32
inline constexpr int kSharedBytes = 5120;
// The halves of U once more, by the graph that they multiply, columns by memory_column; an even
// number of them a graph, the last of zeros where there is one too few.
inline constexpr int kHalfBytes = kHidden * 128;

__host__ __device__ constexpr int pairs_of(int graphs) { return graphs * (graphs + 1) / 2; }
__host__ __device__ constexpr int first_pair(int i, int graphs) {  // the pair (i, i)
  return i * graphs - i * (i - 1) / 2;
}
// The halves of graph g: of (0, g) .. (g - 1, g), the left of (g, g), its right, of (g, g + 1) ..
__host__ __device__ constexpr int halves_of(int graphs) { return (graphs + 2) / 2 * 2; }
__host__ __device__ constexpr int pair_of_half(int half, int g, int graphs) {
  return half < g        ? first_pair(half, graphs) + g - half
         : half <= g + 1 ? first_pair(g, graphs)
                         : first_pair(g, graphs) + half - 1 - g;
}
__host__ __device__ constexpr size_t shared_at(int graphs) {
  return size_t(pairs_of(graphs)) * kPairBytes;
}
__host__ __device__ constexpr size_t halves_at(int graphs) {
  return shared_at(graphs) + kSharedBytes;
}
inline uint64_t pairwise_packed_bytes(int graphs) {
  return halves_at(graphs) + size_t(graphs) * halves_of(graphs) * kHalfBytes;
}
static_assert(kPairBytes % 16 == 0 && kSharedBytes % 16 == 0, "bulk copies move 16 bytes at least");

// ---- scores
inline constexpr int kScoreDegree = 6;  // of gelu: all it gives is rounded to bf16 or a score
inline constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.69314718055994531f;

// This lane's columns of a row of 32 floats.
__device__ __forceinline__ void load_row32(float (&v)[8], uint32_t address, int t) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 pair = load_shared2(address + j * 32 + t * 8);
    v[2 * j] = pair.x, v[2 * j + 1] = pair.y;
  }
}

// The backward pass: an option's share, from its score and log_sum. No more than 1, also where the
// scores are so large that their last bits are worth more.
__device__ __forceinline__ float share_of(float score, float log_sum) {
  return exp2_fast(fminf(score - log_sum, 0.0f));
}

// ---- y in shared memory: copies of tiles of rows that put them there swizzled. Rows past the end
// come as zeros.
CUtensorMap tile_map(const BFloat16* y, const FusedPairwiseShape& shape, int tile_rows);
__device__ __forceinline__ void copy_tile_part(uint32_t to, const CUtensorMap* map, int row,
                                               int graph, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(map), "r"(0), "r"(row), "r"(graph), "r"(barrier)
      : "memory");
}

// Rows in use.
struct Rows {
  int rows;
  const int32_t* used;
  __device__ int count() const { return used ? max(0, min(*used, rows)) : rows; }
};

void pairwise_pack(const FusedPairwiseShape& shape,
                   const FusedPairwiseParameters<const float>& parameters, void* packed,
                   CudaStream stream);
void pairwise_forward(const FusedPairwiseShape& shape, const void* packed, const BFloat16* y,
                      BFloat16* x, const FusedPairwiseRows<BFloat16, float>& keep,
                      CudaStream stream);
uint64_t pairwise_backward_workspace(const FusedPairwiseShape& shape);
void pairwise_backward(const FusedPairwiseShape& shape, const void* packed,
                       const FusedPairwiseParameters<const float>& parameters, const BFloat16* y,
                       const FusedPairwiseKept& kept, const BFloat16* grad_x, BFloat16* grad_y,
                       const FusedPairwiseParameters<float>& gradients, void* workspace,
                       CudaStream stream);

}  // namespace lacuna::wgmma
