// What the kernels of fused_attention.h share. They use mma_parts.cuh.
//
// A block has four warps, one a head, and goes through tiles of a few rows. A tile's tokens come to
// shared memory, row after row, G tokens each; the position is added there. Then every warp takes
// one row after the other: the row's tokens are the 16 rows of an operand (those past the last
// graph repeat it and count for nothing), so that all of a head's attention is products of 16 x 16
// in registers, without an exchange between lanes but in the softmax.
//
// 16 x 16 numbers in a warp's registers, lane with q = lane / 4 and t = lane % 4:
//   sums      s[n][e], n = 0, 1: row q (e < 2) or q + 8, column 8 n + 2 t + (e & 1)
//   operand   p[0 .. 3]: pairs of columns from 2 t of row q, of row q + 8; from 8 + 2 t of both
// An operand of rows x columns is the left factor as it is, the right factor of its transpose by
// (p[0], p[2]) and (p[1], p[3]): p times its partner's transpose, as scores are.
#pragma once

#include "lacuna/ops/cuda/cuda_device.cuh"
#include "lacuna/ops/dense/fused_attention.h"
#include "lacuna/ops/dense/fused_work.cuh"
#include "lacuna/ops/dense/mma_parts.cuh"

namespace lacuna::mma {

inline constexpr int kHeads = 4, kAttentionThreads = 32 * kHeads, kMostTokens = 16;
enum AttentionLinear { kQuery, kKey, kValue };

template <int kWidth_>
struct Attention {
  static constexpr int kWidth = kWidth_, kHeadWidth = kWidth / kHeads;
  // Columns of a head in the products: whole operands, what is missing is 0.
  static constexpr int kColumns = kHeadWidth < 16 ? 16 : kHeadWidth, kBlocks = kColumns / 16;
  static constexpr int kSteps = kWidth / 16;  // of 16 inputs
  // Columns of all heads of q, k and v side by side.
  static constexpr int kAcross = kAttentionLinears * kHeads * kColumns;
  // Packed: weights, 16 bytes a lane for 16 inputs and 16 columns of a head, for the way there
  // [3, heads, steps, blocks, 32] and for the way back [steps, 3, heads, blocks, 32]; the biases of
  // q and v [2, heads, columns]; positions [G, H].
  static constexpr int kUnits = kAttentionLinears * kHeads * kSteps * kBlocks;
  static constexpr int kBackAt = kUnits * 512, kBiasAt = 2 * kBackAt,
                       kPositionAt = kBiasAt + 2 * kHeads * kColumns * 4;
  // Weights that a warp can keep in registers all the time.
  static constexpr bool kKeeps = kWidth <= 64;
  // Else few steps at a time: the compiler would read all weights ahead, and have no room for them.
  static constexpr int kUnrolled = kKeeps ? kSteps : 2;

  __host__ __device__ static constexpr int unit(int linear, int head, int step, int block) {
    return ((linear * kHeads + head) * kSteps + step) * kBlocks + block;
  }
  // part: (linear * heads + head) * blocks + block
  __host__ __device__ static constexpr int back_unit(int step, int part) {
    return step * (kAcross / 16) + part;
  }
};

// Tokens in steps of 16, as products over tokens take them.
__host__ __device__ constexpr int sixteens(int tokens) { return (tokens + 15) / 16; }

// Of all rows.
struct AttentionWork {
  int graphs, rows;
  const int32_t* used;  // or null
  int tile_rows;        // a power of two

  __device__ int count() const { return used ? min(max(*used, 0), rows) : rows; }
};

struct Sums16 {
  float s[2][4];
};
struct Operand {
  uint32_t p[4];
};
__device__ __forceinline__ Operand operand_of(const Sums16& d) {
  return {bf16_pair(d.s[0][0], d.s[0][1]), bf16_pair(d.s[0][2], d.s[0][3]),
          bf16_pair(d.s[1][0], d.s[1][1]), bf16_pair(d.s[1][2], d.s[1][3])};
}
// What every row of sums starts with: columns 8 n + 2 t + e in [2 n + e].
struct Columns {
  float c[4];
};
// d = start + a b^T
__device__ __forceinline__ void multiply_new(Sums16& d, const Operand& a, const Operand& b,
                                             const Columns& start = {}) {
  multiply_from(d.s[0], a.p, b.p[0], b.p[2], start.c[0], start.c[1]);
  multiply_from(d.s[1], a.p, b.p[1], b.p[3], start.c[2], start.c[3]);
}
// d += a b^T
__device__ __forceinline__ void multiply_by(Sums16& d, const Operand& a, const Operand& b) {
  multiply(d.s[0], a.p, b.p[0], b.p[2]);
  multiply(d.s[1], a.p, b.p[1], b.p[3]);
}
// The first of several, or one more.
__device__ __forceinline__ void multiply_step(bool first, Sums16& d, const Operand& a,
                                              const Operand& b, const Columns& start = {}) {
  if (first)
    multiply_new(d, a, b, start);
  else
    multiply_by(d, a, b);
}
__device__ __forceinline__ uint32_t transposed(uint32_t pairs) {
  uint32_t result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pairs));
  return result;
}
__device__ __forceinline__ Operand transposed(const Operand& a) {
  return {transposed(a.p[0]), transposed(a.p[2]), transposed(a.p[1]), transposed(a.p[3])};
}

// 16 inputs x 16 columns of weights, of this lane: in memory the pairs of a right factor side by
// side, p[0], p[2], p[1], p[3]. Volatile: read when it is needed, not kept.
__device__ __forceinline__ Operand load_unit(const uint8_t* packed, int unit, int lane) {
  Operand v;
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.p[0]), "=r"(v.p[2]), "=r"(v.p[1]), "=r"(v.p[3])
               : "l"(packed + size_t(unit) * 512 + lane * 16));
  return v;
}

// The weights of a head on the way there: columns as rows, inputs as columns.
template <int kWidth>
struct HeadWeights {
  using Sizes = Attention<kWidth>;
  const uint8_t* packed;
  int head, lane;
  Operand kept[Sizes::kKeeps ? kAttentionLinears : 1][Sizes::kSteps][Sizes::kBlocks];

  __device__ HeadWeights(const uint8_t* from, int head_, int lane_)
      : packed(from), head(head_), lane(lane_) {
    if constexpr (Sizes::kKeeps) {
#pragma unroll
      for (int l = 0; l < kAttentionLinears; ++l)
#pragma unroll
        for (int step = 0; step < Sizes::kSteps; ++step)
#pragma unroll
          for (int block = 0; block < Sizes::kBlocks; ++block)
            kept[l][step][block] = load_unit(packed, Sizes::unit(l, head, step, block), lane);
    }
  }
  __device__ __forceinline__ Operand get(int linear, int step, int block) const {
    if constexpr (Sizes::kKeeps)
      return kept[linear][step][block];
    else
      return load_unit(packed, Sizes::unit(linear, head, step, block), lane);
  }
};

// ---- tokens in shared memory
// Token g of the tile's row r is row r G + g of a tile of mma_parts.cuh.
template <int kWidth>
struct TokenTile {
  static constexpr int kPieces = kWidth / 8;  // of 16 bytes
  const AttentionWork& work;

  __host__ __device__ static int bytes(int graphs, int tile_rows) {
    return sixteens(graphs * tile_rows) * 32 * kWidth;
  }
  // use(row of the tile, graph, piece), the same pieces for the same thread every time.
  template <class Use>
  __device__ __forceinline__ void each(int rows, const Use& use) const {
    constexpr int kAtOnce = kAttentionThreads / kPieces;  // a multiple of the rows of a tile
    const int piece = int(threadIdx.x) % kPieces, token = int(threadIdx.x) / kPieces;
    const int row = token & (work.tile_rows - 1), bits = 31 - __clz(work.tile_rows);
    if (row >= rows) return;
    for (int g = token >> bits; g < work.graphs; g += kAtOnce >> bits) use(row, g, piece);
  }
  __device__ __forceinline__ void fetch(uint32_t to, const BFloat16* y, int first, int rows) const {
    each(rows, [&](int row, int g, int piece) {
      copy_16(to + place_in_tile<kWidth>(row * work.graphs + g, piece),
              y + (size_t(g) * work.rows + size_t(first + row)) * kWidth + 8 * piece);
    });
  }
  // Of what this thread has fetched itself.
  __device__ __forceinline__ void add_position(uint8_t* to, const float* position, int rows) const {
    each(rows, [&](int row, int g, int piece) {
      auto* place =
          reinterpret_cast<uint4*>(to + place_in_tile<kWidth>(row * work.graphs + g, piece));
      const auto* from = reinterpret_cast<const float4*>(position + g * kWidth + 8 * piece);
      const float4 p = __ldg(from), r = __ldg(from + 1);
      const uint4 v = *place;
      *place = make_uint4(bf16_pair(low_of(v.x) + p.x, high_of(v.x) + p.y),
                          bf16_pair(low_of(v.y) + p.z, high_of(v.y) + p.w),
                          bf16_pair(low_of(v.z) + r.x, high_of(v.z) + r.y),
                          bf16_pair(low_of(v.w) + r.z, high_of(v.w) + r.w));
    });
  }
};

// Where this lane reads the tokens of a row, as an operand: tokens x inputs.
template <int kWidth>
struct TokenRow {
  uint32_t row;
  int odd, turned;

  __device__ __forceinline__ TokenRow(uint32_t tile, int row_of_tile, int graphs, int lane) {
    const int token = row_of_tile * graphs + min(lane & 15, graphs - 1);
    row = tile + uint32_t(token * 2 * kWidth);
    odd = lane >> 4;
    turned = turn<kWidth>(token);
  }
  __device__ __forceinline__ uint32_t at(int step) const {
    return row + turned_piece(2 * step, odd, turned);
  }
  __device__ __forceinline__ Operand get(int step) const {
    Operand a;
    load_matrices(a.p, at(step));
    return a;
  }
};

// ---- the softmax of a row's scores
// Which tokens there are, as this lane needs it.
struct TokenMask {
  Columns scores;  // start with 0, or -infinity for tokens that there are not
  TwoRows share;   // 1 / G, or 0 for such rows

  __device__ TokenMask(int graphs, int lane) {
    const int q = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      scores.c[i] = 8 * (i >> 1) + 2 * t + (i & 1) < graphs ? 0.0f : -INFINITY;
    share = {q < graphs ? 1.0f / float(graphs) : 0.0f,
             q + 8 < graphs ? 1.0f / float(graphs) : 0.0f};
  }
};
// scores -> exponentials, and what makes a row of them shares of z: attention / G. to_log2: of the
// scores. The difference is taken first: large scores times a factor would be off by too much.
__device__ __forceinline__ TwoRows softmax_rows(Sums16& d, const TwoRows& share, float to_log2) {
  float scale[2];
#pragma unroll
  for (int e = 0; e < 4; e += 2) {
    float most = fmaxf(fmaxf(d.s[0][e], d.s[0][e + 1]), fmaxf(d.s[1][e], d.s[1][e + 1]));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& v = d.s[i >> 1][e + (i & 1)];
      v = exp2_fast((v - most) * to_log2);
      sum = i == 0 ? v : sum + v;
    }
    float inverse;  // of a sum between 1 and 16
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(quad_sum(sum)));
    scale[e / 2] = (e ? share.lower : share.upper) * inverse;
  }
  return {scale[0], scale[1]};
}

// q, k -> scores, masked.
template <int kBlocks>
__device__ __forceinline__ Sums16 scores_of(const Operand (&q)[kBlocks],
                                            const Operand (&k)[kBlocks], const TokenMask& mask) {
  Sums16 d;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block)
    multiply_step(block == 0, d, q[block], k[block], mask.scores);
  return d;
}

template <int kWidth>
__device__ __forceinline__ float score_scale() {
  return rsqrtf(float(Attention<kWidth>::kHeadWidth));
}
inline constexpr float kLog2E = 1.4426950408889634f;

// The bias of q of a head.
template <int kWidth>
struct HeadBias {
  using Sizes = Attention<kWidth>;
  Columns of[Sizes::kBlocks];

  __device__ HeadBias(const uint8_t* packed, int head, int lane) {
    const auto* from =
        reinterpret_cast<const float*>(packed + Sizes::kBiasAt) + head * Sizes::kColumns;
#pragma unroll
    for (int i = 0; i < 4 * Sizes::kBlocks; ++i)
      of[i >> 2].c[i & 3] = from[16 * (i >> 2) + 8 * ((i >> 1) & 1) + 2 * (lane % 4) + (i & 1)];
  }
};

// ---- which sizes on this device
void attention_backward(const FusedAttentionShape& shape, int shared, const void* packed,
                        const BFloat16* y, const BFloat16* grad_z, BFloat16* grad_y,
                        const FusedAttentionParameters<float>& gradients, void* workspace,
                        cudaStream_t stream);
uint64_t attention_backward_workspace(const FusedAttentionShape& shape);

template <class Use>
void with_attention_width(int64_t width, const Use& use) {
  if (width == 32) use(Attention<32>());
  if (width == 64) use(Attention<64>());
  if (width == 128) use(Attention<128>());
}
// bytes(rows a tile): of shared memory. The largest tile of which `blocks` blocks fit into what one
// block may have: where that is little, so is what a multiprocessor has.
template <class Bytes>
int attention_tile_rows(int shared, int blocks, const Bytes& bytes) {
  constexpr int kMostRows = 8;
  int rows = kMostRows;
  while (rows > 1 && blocks * bytes(rows) > shared) rows /= 2;
  return rows;
}

}  // namespace lacuna::mma
