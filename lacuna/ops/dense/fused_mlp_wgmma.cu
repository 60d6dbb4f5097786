// See fused_mlp_wgmma.cuh. Forward and backward; the ladder of versions stands in
// docs/performance.md.
//
// Waiting: every barrier is arrived at by warps of the same block that wait for nothing the waiter
// still has to do. Forward: a stage of weights is refilled when all warps have left it, and all
// warps leave it because it was filled. Backward: the gradient warpgroup waits for tiles, the row
// warpgroups wait for their own tiles of one round earlier to be used up.
#include "lacuna/ops/dense/fused_mlp_wgmma.cuh"
#include "lacuna/ops/dense/fused_work.cuh"
#include "lacuna/ops/dense/wgmma_parts.cuh"

namespace lacuna::wgmma {
namespace {

// ---- a graph's packed parameters
constexpr int kBiasAt = kMlpLinears * kTileBytes;            // [4, 8, 4, {b0, b1, b0, b1}] f32
constexpr int kBiasBytes = 2 * kWidth * 4;                   // of one Linear
constexpr int kNormAt = kBiasAt + kMlpLinears * kBiasBytes;  // weight [64], bias [64] f32
constexpr int kUsedBytes = kNormAt + 2 * kWidth * 4;
static_assert(kUsedBytes <= kPackedBytes && kPackedBytes % 1024 == 0,
              "tiles are read with a swizzle of 1024 bytes: keep kPackedBytes a multiple of that");

__global__ void pack_kernel(FusedMlpParameters<const float> from, uint8_t* packed) {
  const int64_t g = blockIdx.x;
  uint8_t* out = packed + g * kPackedBytes;
  for (int i = int(threadIdx.x); i < kMlpLinears * kWidth * kWidth; i += int(blockDim.x)) {
    const int l = i >> 12, k = (i >> 6) & 63, n = i & 63;  // row k of a tile: an output's weights
    const int output = l == kMlpLinears - 1 ? memory_column(k) : k;
    const int input = l == 0 ? memory_column(n) : n;
    const float w = from.weight[l][(g * kWidth + input) * kWidth + output];
    const int at = l * kTileBytes + k * 128 + (((n >> 3) ^ (k & 7)) << 4) + (n & 7) * 2;
    *reinterpret_cast<__nv_bfloat16*>(out + at) = __float2bfloat16_rn(w);
  }
  for (int i = int(threadIdx.x); i < kMlpLinears * 2 * kWidth; i += int(blockDim.x)) {
    const int l = i >> 7, n = 8 * ((i >> 4) & 7) + 2 * ((i >> 2) & 3) + (i & 1);
    const int output = l == kMlpLinears - 1 ? memory_column(n) : n;
    reinterpret_cast<float*>(out + kBiasAt)[i] = from.bias[l][g * kWidth + output];
  }
  for (int i = int(threadIdx.x); i < 2 * kWidth; i += int(blockDim.x))
    reinterpret_cast<float*>(out + kNormAt)[i] =
        (i < kWidth ? from.norm_weight : from.norm_bias)[g * kWidth + memory_column(i & 63)];
}

// This lane's addresses inside packed parameters in shared memory.
struct Packed {
  uint32_t tiles_low, bias, norm;
  __device__ Packed(uint32_t at, int t)
      : tiles_low(descriptor_low(at)),
        bias(opaque(at + kBiasAt + t * 16)),
        norm(opaque(at + kNormAt + t * 8)) {}
  __device__ uint32_t tile(int l) const { return tiles_low + l * (kTileBytes / 16); }
  __device__ float2 norm_weight(int j) const { return load_shared2(norm + j * 32); }
  __device__ float2 norm_bias(int j) const { return load_shared2(norm + kWidth * 4 + j * 32); }
};

// a (64 rows of u) -> d, y in f32. between(): called half way.
template <class Between>
__device__ __forceinline__ void run_forward(float (&d)[32], uint32_t (&a)[16], const Packed& packed,
                                            const Between& between) {
#pragma unroll
  for (int l = 0; l < kMlpLinears; ++l) {
    load_bias(d, packed.bias + l * kBiasBytes);
    start_linear(d, a, packed.tile(l));
    products_wait(d);
    if (l < kMlpLinears - 1) {
#pragma unroll
      for (int i = 0; i < 16; ++i) a[i] = gelu_pair(d[2 * i], d[2 * i + 1]);
    }
    if (l == 1) between();
  }
  norm_gelu_rows(d, packed);
}

// ---- forward with a merge
// A block of four warpgroups owns a run of tiles, takes four at a time and goes through all graphs
// for them; weights stream through a ring of three stages. The sum over graphs stays in registers.
constexpr int kForwardThreads = 512, kForwardGroups = 4, kStages = 3;
constexpr int kMergedShared = kStages * int(kPackedBytes) + 2 * kStages * 8;

__global__ void __launch_bounds__(kForwardThreads, 1)
    merged_kernel(const uint8_t* __restrict__ packed, const BFloat16* __restrict__ u,
                  BFloat16* __restrict__ y, int rows, int graphs, float share) {
  extern __shared__ __align__(1024) uint8_t memory[];
  const uint32_t base = shared_address(memory), full = base + kStages * uint32_t(kPackedBytes),
                 empty = full + 8 * kStages;
  const Place me;
  const int tiles = (rows + kTileRows - 1) / kTileRows;
  const int first = int(int64_t(tiles) * blockIdx.x / gridDim.x);
  const int end = int(int64_t(tiles) * (blockIdx.x + 1) / gridDim.x);
  const int rounds = (end - first + kForwardGroups - 1) / kForwardGroups * graphs;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full + 8 * i, 1);
      barrier_init(empty + 8 * i, kForwardThreads / 32);
    }
    barriers_are_made();
  }
  __syncthreads();
  const auto fetch = [&](int round, int stage) {
    bulk_copy(base + stage * uint32_t(kPackedBytes),
              packed + int64_t(round % graphs) * kPackedBytes, uint32_t(kPackedBytes),
              full + 8 * stage);
  };
  if (threadIdx.x == 0)
    for (int i = 0; i < 2 && i < rounds; ++i) fetch(i, i);
  float sum[32] = {};
  uint32_t next[16], a[16];
  int tile = first + me.warpgroup, g = 0, stage = 0, phase = 0;
  const size_t graph_step = size_t(rows) * kWidth;
  const auto at = [&](int tile, int below) {  // rows past the end: the last one, never stored
    return u + size_t(min(tile * kTileRows + me.row + below, rows - 1)) * kWidth + 8 * me.t;
  };
  const BFloat16 *p0 = at(tile, 0), *p1 = at(tile, 8);
  if (tile < end) load_rows(next, p0, p1);
  for (int round = 0; round < rounds; ++round) {
    barrier_wait(full + 8 * stage, phase);
    if (tile < end) {
#pragma unroll
      for (int i = 0; i < 16; ++i) a[i] = next[i];
      if (g + 1 == graphs) {
        p0 = at(tile + kForwardGroups, 0);
        p1 = at(tile + kForwardGroups, 8);
      } else {
        p0 += graph_step;
        p1 += graph_step;
      }
      load_rows(next, p0, p1);
      float d[32];
      run_forward(d, a, Packed(base + stage * uint32_t(kPackedBytes), me.t), [&] {
        // The stage of the round before is free by now, or soon: fetch the round after the next.
        if (threadIdx.x == 0 && round + 2 < rounds) {
          const int before = stage == 0 ? kStages - 1 : stage - 1;
          if (round >= 1) barrier_wait(empty + 8 * before, stage == 0 ? phase ^ 1 : phase);
          fetch(round + 2, before);
        }
        __syncwarp();
      });
#pragma unroll
      for (int i = 0; i < 32; ++i) sum[i] += d[i];
      if (g + 1 == graphs) {
#pragma unroll
        for (int i = 0; i < 32; ++i) sum[i] *= share;
        store_rows(sum, y, tile * kTileRows + me.row, rows, me.t);
#pragma unroll
        for (int i = 0; i < 32; ++i) sum[i] = 0;
      }
    }
    __syncwarp();
    if (me.lane == 0) barrier_arrive(empty + 8 * stage);
    if (++g == graphs) g = 0, tile += kForwardGroups;
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
}

// ---- forward without a merge: pieces of fused_work.cuh
using Work = TileWork<kTileRows>;
constexpr int kSeparateShared = int(kPackedBytes) + 16;

__global__ void __launch_bounds__(kForwardThreads, 1)
    separate_kernel(const uint8_t* __restrict__ packed, const BFloat16* __restrict__ u,
                    BFloat16* __restrict__ y, Work work) {
  extern __shared__ __align__(1024) uint8_t memory[];
  const uint32_t base = shared_address(memory), full = base + uint32_t(kPackedBytes);
  const Place me;
  if (threadIdx.x == 0) {
    barrier_init(full, 1);
    barriers_are_made();
  }
  const int end = work.begin_of(int(blockIdx.x) + 1, int(gridDim.x));
  Piece piece(work.begin_of(int(blockIdx.x), int(gridDim.x)));
  for (int count = 0; piece.advance(work, end); ++count) {
    __syncthreads();  // nobody needs the weights of the piece before
    if (threadIdx.x == 0)
      bulk_copy(base, packed + piece.graph * kPackedBytes, uint32_t(kPackedBytes), full);
    barrier_wait(full, count & 1);
    const Packed weights(base, me.t);
    const int rows = work.rows_of(piece.graph);
    const size_t offset = size_t(piece.graph) * work.rows * kWidth;
    uint32_t next[16], a[16];
    const auto load = [&](int i) {  // past the end: the last row, never stored
      const int row = (piece.tile + i) * kTileRows + me.row;
      const BFloat16* from = u + offset + 8 * me.t;
      load_rows(next, from + size_t(min(row, rows - 1)) * kWidth,
                from + size_t(min(row + 8, rows - 1)) * kWidth);
    };
    load(me.warpgroup);
    for (int i = me.warpgroup; i < piece.count; i += kForwardGroups) {
#pragma unroll
      for (int k = 0; k < 16; ++k) a[k] = next[k];
      load(i + kForwardGroups);
      float d[32];
      run_forward(d, a, weights, [] {});
      store_rows(d, y + offset, (piece.tile + i) * kTileRows + me.row, rows, me.t);
    }
  }
}

// ---- backward
// Three warpgroups compute the forward again for 64 rows each and walk back: grad_u goes to memory,
// the inputs a of the Linears and the gradients dz behind them as bf16 tiles to shared memory. The
// fourth warpgroup turns these tiles into gradients of weights, dW += a^T dz, and of biases; its
// four accumulators live as long as a piece.
// Shared memory of a row warpgroup: tiles A0 .. A3 and Z1 .. Z4; Zl holds the slope of gelu at z_l
// first and dz_l later. A tile's handshake: full(w, l) when dz_l and a_(l-1) are written, for
// l = 4, 3, 2, 1; empty(w) when all four have been used.
// At the end of a piece its sums go to a slot of the workspace (fused_work.cuh).
constexpr int kRowGroups = 3, kBackwardThreads = (kRowGroups + 1) * kWarpgroup;
constexpr int kTilesAGroup = 2 * kMlpLinears;
constexpr int kOnesAt = kUsedBytes, kOnesBytes = 192;  // in the padding behind the parameters
constexpr int kBarriersAt = kOnesAt + kOnesBytes;
constexpr int kTilesAt = int(kPackedBytes);
constexpr int kBackwardShared = kTilesAt + kRowGroups * kTilesAGroup * kTileBytes;
static_assert(kBarriersAt + 8 * (1 + kRowGroups * (1 + kMlpLinears)) <= kPackedBytes,
              "the barriers of the backward pass no longer fit behind the packed parameters");
static_assert(kBackwardShared <= 227 * 1024, "take fewer row warpgroups");

// A slot's dW is [4, out, in], and columns are as in the tiles.
struct Slot : MlpSlot<kWidth, kRowGroups * 4> {
  static __device__ float* place(const FusedMlpParameters<float>& to, size_t g, int i) {
    if (i < kBiasesAt) {
      const int l = i >> 12, k = (i >> 6) & 63, n = i & 63;
      const int output = l == kMlpLinears - 1 ? memory_column(k) : k;
      const int input = l == 0 ? memory_column(n) : n;
      return to.weight[l] + (g * kWidth + size_t(input)) * kWidth + output;
    }
    const int k = i % kWidth;
    if (i < kNormsAt) {
      const int l = (i - kBiasesAt) / kWidth;
      return to.bias[l] + g * kWidth + (l == kMlpLinears - 1 ? memory_column(k) : k);
    }
    return (i < kNormsAt + kWidth ? to.norm_weight : to.norm_bias) + g * kWidth + memory_column(k);
  }
};

// The gradient warpgroup's part of a piece: `count` tiles, one of each row warpgroup in turn.
__device__ __forceinline__ void sum_tiles(uint32_t base, int count, uint32_t& parity,
                                          const Place& me, float* slot) {
  const uint32_t barriers = base + kBarriersAt;
  float weight[kMlpLinears][32] = {}, bias[4] = {};
  // 11 pieces of 8 bf16, the fourth all ones: read from piece 3 - l on, this is a 16 x 8 matrix
  // with ones in column l, so that dz_l^T times it puts the bias' gradient into column l of `bias`.
  const uint64_t ones = uint64_t(((base + kOnesAt) & 0x3FFFF) >> 4);
  for (int i = 0, w = 0; i < count; ++i) {
    const uint32_t tiles = descriptor_low(base + kTilesAt) + w * (kTilesAGroup * kTileBytes / 16);
#pragma unroll
    for (int l = kMlpLinears; l >= 1; --l) {
      barrier_wait(barriers + 8 + (w * 5 + l) * 8, (parity >> w) & 1);
      const uint32_t z = tiles + (3 + l) * (kTileBytes / 16),
                     a = tiles + (l - 1) * (kTileBytes / 16);
      products_begin();
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        multiply_columns(weight[l - 1], descriptor(z + k * 128), descriptor(a + k * 128));
        multiply_columns_by_8(bias, descriptor(z + k * 128), ones + (4 - l));
      }
      products_commit();
    }
    products_wait();
    if (threadIdx.x % kWarpgroup == 0) barrier_arrive(barriers + 8 + w * 5 * 8);
    parity ^= 1u << w;
    if (++w == kRowGroups) w = 0;
  }
  asm volatile("" : "+f"(bias[0]), "+f"(bias[1]), "+f"(bias[2]), "+f"(bias[3])::"memory");
#pragma unroll
  for (int l = 0; l < kMlpLinears; ++l) {
    asm volatile("" : LACUNA_D32(weight[l])::"memory");
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const int row = me.row + 8 * below;
      float* out = slot + (l * kWidth + row) * kWidth;
#pragma unroll
      for (int j = 0; j < 8; ++j)
        *reinterpret_cast<float2*>(out + 8 * j + 2 * me.t) =
            make_float2(weight[l][4 * j + 2 * below], weight[l][4 * j + 2 * below + 1]);
      if (me.t == l / 2) slot[Slot::kBiasesAt + l * kWidth + row] = bias[2 * below + (l & 1)];
    }
  }
}

// One tile of a row warpgroup, all the way forward and back. a: its rows of u; dy: of grad_y.
// tiles: this warp's rows of A0. The barriers are those of this warpgroup.
struct RowTile {
  uint32_t tiles, empty;
  Packed packed;
  const Place& me;

  __device__ uint32_t full(int l) const { return empty + l * 8; }
  __device__ void hand_over(int l) const {
    stores_before_products();
    barrier_arrive(full(l));
  }

  // -> d: z_4, a_l in tiles A, slopes in tiles Z. round: tiles done before.
  __device__ __forceinline__ void forward(float (&d)[32], uint32_t (&a)[16], int round) const {
#pragma unroll
    for (int l = 1; l <= kMlpLinears; ++l) {
      load_bias(d, packed.bias + (l - 1) * kBiasBytes);
      start_linear(d, a, packed.tile(l - 1));
      if (l == 1) {
        if (round > 0) barrier_wait(empty, (round - 1) & 1);
        store_tile(tiles, me.lane, a);
      }
      products_wait(d);
      if (l == kMlpLinears) break;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t slopes[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const ValueAndSlope v0 = gelu_with_slope(d[16 * half + 2 * i]),
                              v1 = gelu_with_slope(d[16 * half + 2 * i + 1]);
          a[8 * half + i] = bf16_pair(v0.value, v1.value);
          slopes[i] = bf16_pair(v0.slope, v1.slope);
        }
        store_half(tiles + l * kTileBytes, me.lane, half, a + 8 * half);
        store_half(tiles + (3 + l) * kTileBytes, me.lane, half, slopes);
      }
    }
  }

  // a: dz_4 -> d: grad_u, with dz_3 .. dz_1 handed over on the way.
  __device__ __forceinline__ void linears_back(float (&d)[32], uint32_t (&a)[16]) const {
#pragma unroll
    for (int l = kMlpLinears; l >= 1; --l) {
      start_linear_back(d, a, packed.tile(l - 1));
      products_wait(d);
      if (l == 1) break;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t slopes[8];
        load_half(tiles + (2 + l) * kTileBytes, me.lane, half, slopes);
#pragma unroll
        for (int i = 0; i < 8; ++i)
          a[8 * half + i] = bf16_pair(d[16 * half + 2 * i] * low_of(slopes[i]),
                                      d[16 * half + 2 * i + 1] * high_of(slopes[i]));
        store_half(tiles + (2 + l) * kTileBytes, me.lane, half, a + 8 * half);
      }
      hand_over(l - 1);
    }
  }
};

__global__ void __launch_bounds__(kBackwardThreads, 1)
    backward_kernel(const uint8_t* __restrict__ packed, const BFloat16* __restrict__ u,
                    const BFloat16* __restrict__ grad_y, size_t grad_step, float share,
                    BFloat16* __restrict__ grad_u, float* __restrict__ slots, Work work) {
  extern __shared__ __align__(1024) uint8_t memory[];
  const uint32_t base = shared_address(memory), barriers = base + kBarriersAt;
  const Place me;
  if (threadIdx.x == 0) {
    barrier_init(barriers, 1);  // the parameters are there
    for (int w = 0; w < kRowGroups; ++w) {
      barrier_init(barriers + 8 + w * 5 * 8, 1);
      for (int l = 1; l <= kMlpLinears; ++l)
        barrier_init(barriers + 8 + (w * 5 + l) * 8, kWarpgroup);
    }
    barriers_are_made();
  }
  if (threadIdx.x < kOnesBytes / 2)
    reinterpret_cast<__nv_bfloat16*>(memory + kOnesAt)[threadIdx.x] =
        __float2bfloat16(threadIdx.x / 8 == 3 ? 1.0f : 0.0f);
  stores_before_products();
  __syncthreads();
  const int end = work.begin_of(int(blockIdx.x) + 1, int(gridDim.x));
  Piece piece(work.begin_of(int(blockIdx.x), int(gridDim.x)));
  const auto fetch = [&](int count) {
    if (threadIdx.x == 0)
      bulk_copy(base, packed + piece.graph * kPackedBytes, kUsedBytes, barriers);
    barrier_wait(barriers, count & 1);
  };
  const auto end_piece = [] { asm volatile("bar.sync 1, 512;" ::: "memory"); };
  static_assert(kBackwardThreads == 512, "end_piece waits for 512 threads");
  // A piece starts at a block's or a graph's first tile, so block + graph names it.
  const auto slot = [&] { return slots + size_t(blockIdx.x + piece.graph) * Slot::kFloats; };
  // Each role is one branch, as setmaxnreg wants; both go through the same pieces. 168 + 3 x 112 is
  // what the launch has, 4 x 128.
  if (me.warpgroup == kRowGroups) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 168;");
    uint32_t parity = 0;  // bit w: of the next tile of row warpgroup w
    for (int count = 0; piece.advance(work, end); ++count) {
      fetch(count);
      sum_tiles(base, piece.count, parity, me, slot());
      end_piece();
    }
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 112;");
    const int w = me.warpgroup;
    const RowTile tile = {base + kTilesAt + w * kTilesAGroup * kTileBytes + me.warp * 16 * 128,
                          barriers + 8 + w * 5 * 8, Packed(base, me.t), me};
    int round = 0;  // tiles this warpgroup has done
    for (int count = 0; piece.advance(work, end); ++count) {
      fetch(count);
      const int rows = work.rows_of(piece.graph);
      const size_t offset = size_t(piece.graph) * work.rows * kWidth;
      const BFloat16* from = u + offset + 8 * me.t;
      const BFloat16* grad = grad_y + piece.graph * grad_step + 8 * me.t;
      NormSums<kWidth> norm;
      uint32_t next[16];
      const auto load = [&](uint32_t(&a)[16], const BFloat16* p, int row) {
        load_rows(a, p + size_t(min(row, rows - 1)) * kWidth,
                  p + size_t(min(row + 8, rows - 1)) * kWidth);
      };
      const int first_row = piece.tile * kTileRows + me.row;
      load(next, from, first_row + w * kTileRows);
      for (int i = w; i < piece.count; i += kRowGroups, ++round) {
        const int row = first_row + i * kTileRows;
        uint32_t a[16], dy[16];
        float d[32];
#pragma unroll
        for (int k = 0; k < 16; ++k) a[k] = next[k];
        load(dy, grad, row);
        if (row + 8 >= rows)  // past the end: no gradient comes from there
#pragma unroll
          for (int k = 0; k < 16; ++k)
            if ((k & 1) || row >= rows) dy[k] = 0;
        tile.forward(d, a, round);
        norm_back(d, dy, a, tile.packed, share, me.lane, norm);
        store_tile(tile.tiles + 7 * kTileBytes, me.lane, a);
        tile.hand_over(4);
        load(next, from, row + kRowGroups * kTileRows);
        tile.linears_back(d, a);
        store_rows(d, grad_u + offset, row, rows, me.t);
      }
      norm.store(slot() + Slot::kNormsAt + (w * 4 + me.warp) * 2 * kWidth, me.lane);
      end_piece();
    }
  }
}

}  // namespace

void pack(const FusedMlpShape& shape, const FusedMlpParameters<const float>& parameters,
          void* packed, CudaStream stream) {
  pack_kernel<<<uint32_t(shape.graphs), 512, 0, static_cast<cudaStream_t>(stream)>>>(
      parameters, static_cast<uint8_t*>(packed));
  check_launch("fused_mlp_pack");
}

void forward(const FusedMlpShape& shape, const void* packed_, const BFloat16* u, BFloat16* y,
             CudaStream stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  const auto* packed = static_cast<const uint8_t*>(packed_);
  const auto blocks = uint32_t(multiprocessors());
  if (shape.merged) {
    allow_shared(merged_kernel, kMergedShared);
    merged_kernel<<<blocks, kForwardThreads, kMergedShared, stream>>>(
        packed, u, y, int(shape.rows), int(shape.graphs), shape.share);
  } else {
    allow_shared(separate_kernel, kSeparateShared);
    separate_kernel<<<blocks, kForwardThreads, kSeparateShared, stream>>>(packed, u, y,
                                                                          Work::of(shape));
  }
  check_launch("fused_mlp");
}

uint64_t backward_workspace(const FusedMlpShape& shape) {
  return uint64_t(multiprocessors() + shape.graphs) * Slot::kFloats * sizeof(float);
}

void backward(const FusedMlpShape& shape, const void* packed, const BFloat16* u,
              const BFloat16* grad_y, BFloat16* grad_u, const FusedMlpParameters<float>& gradients,
              void* workspace, CudaStream stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  const int blocks = multiprocessors();
  const auto work = Work::of(shape);
  auto* slots = static_cast<float*>(workspace);
  const size_t grad_step = shape.merged ? 0 : size_t(shape.rows) * kWidth;
  allow_shared(backward_kernel, kBackwardShared);
  backward_kernel<<<uint32_t(blocks), kBackwardThreads, kBackwardShared, stream>>>(
      static_cast<const uint8_t*>(packed), u, grad_y, grad_step, shape.share, grad_u, slots, work);
  sum_slots<Slot>(slots, work, blocks, int(shape.graphs), gradients, stream);
  check_launch("fused_mlp_backward");
}

}  // namespace lacuna::wgmma
