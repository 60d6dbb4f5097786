// See fused_pool.h; products as in wgmma_parts.cuh. A tile is 64 genes of one sample.
//
// Waiting: a block waits once for its parameters to be copied; warpgroups of a block work alone,
// and meet with __syncthreads() at the end.
#include "lacuna/ops/dense/fused_pool.h"
#include "lacuna/ops/dense/wgmma_parts.cuh"

namespace lacuna {
namespace {

using namespace wgmma;

constexpr float kLog2e = 1.44269504f;
constexpr float kNothing = -1e30f;  // below every logit
constexpr int kHidden = kWidth / 2;

// ---- packed parameters: the tiles of value and gate (its last 32 rows are zeros), biases as
// load_bias() wants them, the gate's last weights and bias
constexpr int kBiasAt = 2 * kTileBytes, kBiasBytes = 2 * kWidth * 4;
constexpr int kScoreAt = kBiasAt + 2 * kBiasBytes;  // [32] f32, then the bias
constexpr int kPackedBytes = 18432;
static_assert(kScoreAt + (kHidden + 1) * 4 <= kPackedBytes && kPackedBytes % 1024 == 0,
              "tiles are read with a swizzle of 1024 bytes: keep kPackedBytes a multiple of that");
enum Tile { kValue = 0, kGate = 1 };

__global__ void pack_kernel(FusedPoolParameters<const float> from, uint8_t* out) {
  for (int i = int(threadIdx.x); i < 2 * kWidth * kWidth; i += int(blockDim.x)) {
    const int tile = i >> 12, k = (i >> 6) & 63, n = i & 63;  // row k: an output's weights
    const int input = memory_column(n);
    float w = 0;
    if (tile == kValue) w = from.value_weight[input * kWidth + k];
    if (tile == kGate && k < kHidden) w = from.gate_hidden_weight[input * kHidden + k];
    const int at = tile * kTileBytes + k * 128 + (((n >> 3) ^ (k & 7)) << 4) + (n & 7) * 2;
    *reinterpret_cast<__nv_bfloat16*>(out + at) = __float2bfloat16_rn(w);
  }
  for (int i = int(threadIdx.x); i < 2 * 2 * kWidth; i += int(blockDim.x)) {
    const int tile = i >> 7, n = 8 * ((i >> 4) & 7) + 2 * ((i >> 2) & 3) + (i & 1);
    const float b = tile == kValue ? from.value_bias[n]
                    : n < kHidden  ? from.gate_hidden_bias[n]
                                   : 0.0f;
    reinterpret_cast<float*>(out + kBiasAt)[i] = b;
  }
  for (int i = int(threadIdx.x); i <= kHidden; i += int(blockDim.x))
    reinterpret_cast<float*>(out + kScoreAt)[i] =
        i < kHidden ? from.gate_weight[i] : from.gate_bias[0];
}

struct Packed {
  uint32_t at, bias, score;
  __device__ Packed(uint32_t base, int t)
      : at(base), bias(opaque(base + kBiasAt + t * 16)), score(opaque(base + kScoreAt + t * 8)) {}
  // d = bias, then starts d += a W
  __device__ void start(float (&d)[32], const uint32_t* a, Tile tile) const {
    load_bias(d, bias + tile * kBiasBytes);
    start_linear(d, a, descriptor_low(at + tile * kTileBytes));
  }
  __device__ float2 score_weight(int j) const { return load_shared2(score + j * 32); }
  __device__ float score_bias() const {
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at + kScoreAt + kHidden * 4));
    return v;
  }
};

// One block copies its parameters. barrier: 8 bytes of shared memory.
__device__ void fetch_packed(uint32_t base, const uint8_t* packed, uint32_t barrier) {
  if (threadIdx.x == 0) {
    barrier_init(barrier, 1);
    barriers_are_made();
  }
  __syncthreads();
  if (threadIdx.x == 0) bulk_copy(base, packed, kPackedBytes, barrier);
  barrier_wait(barrier, 0);
}

// The two rows that a lane has of a tile: genes of sample b.
struct Rows {
  int gene[2];
  bool kept[2];
  const BFloat16* from[2];

  __device__ Rows(const FusedPoolShape& shape, const BFloat16* x, const uint8_t* keep, int tile,
                  int b, const Place& me) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      gene[i] = tile * kTileRows + me.row + 8 * i;
      const int64_t place = int64_t(min(gene[i], int(shape.nodes) - 1)) * shape.batch + b;
      kept[i] = gene[i] < shape.nodes && keep[place] != 0;
      from[i] = x + place * kWidth + 8 * me.t;
    }
  }
};

// ---- forward
// Block (chunk of genes, sample). Each quad of lanes keeps a running maximum, the sum of weights
// and the weighted sum of its rows; at the end they are joined in order.
constexpr int kForwardThreads = 512, kForwardGroups = 4, kQuads = kForwardThreads / 4;
struct Partial {  // of a chunk
  float most, sum, weighted[kWidth];
};
constexpr int kForwardShared = kPackedBytes + kQuads * int(sizeof(Partial)) + 16;

struct Running {  // a lane's share: 16 columns
  float most = kNothing, sum = 0, weighted[16] = {};

  __device__ void add(const float (&weight)[2], float most_now, const float (&v)[32]) {
    const float shrink = exp2_fast((most - most_now) * kLog2e);
    most = most_now;
    sum = sum * shrink + weight[0] + weight[1];
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        weighted[2 * j + e] = fmaf(weight[1], v[4 * j + 2 + e],
                                   fmaf(weight[0], v[4 * j + e], weighted[2 * j + e] * shrink));
  }
};

// The logits of a lane's two rows; all lanes of a quad get them.
__device__ __forceinline__ void logits_of(float (&logit)[2], float (&d)[32], const Packed& packed) {
  float sum[2] = {};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 w = packed.score_weight(j);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      sum[i] = fmaf(gelu(d[4 * j + 2 * i]), w.x, fmaf(gelu(d[4 * j + 2 * i + 1]), w.y, sum[i]));
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) logit[i] = quad_sum(sum[i]) + packed.score_bias();
}

__global__ void __launch_bounds__(kForwardThreads, 1)
    forward_kernel(FusedPoolShape shape, const uint8_t* __restrict__ packed_,
                   const BFloat16* __restrict__ x, const uint8_t* __restrict__ keep, float* logits,
                   Partial* partials) {
  extern __shared__ __align__(1024) uint8_t memory[];
  const uint32_t base = shared_address(memory);
  auto* of_quads = reinterpret_cast<Partial*>(memory + kPackedBytes);
  fetch_packed(base, packed_, base + kPackedBytes + kQuads * uint32_t(sizeof(Partial)));
  const Place me;
  const Packed packed(base, me.t);
  const int tiles = int((shape.nodes + kTileRows - 1) / kTileRows), b = int(blockIdx.y);
  const int first = int(int64_t(tiles) * blockIdx.x / gridDim.x);
  const int end = int(int64_t(tiles) * (blockIdx.x + 1) / gridDim.x);
  Running running;
  for (int tile = first + me.warpgroup; tile < end; tile += kForwardGroups) {
    const Rows rows(shape, x, keep, tile, b, me);
    uint32_t a[16];
    load_rows(a, rows.from[0], rows.from[1]);
    float d[32], logit[2], weight[2];
    packed.start(d, a, kGate);
    products_wait(d);
    logits_of(logit, d, packed);
    packed.start(d, a, kValue);
    float most = running.most;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (rows.kept[i] && me.t == 0) logits[b * shape.nodes + rows.gene[i]] = logit[i];
      // A NaN must not be lost in a maximum.
      if (rows.kept[i]) most = logit[i] > most || logit[i] != logit[i] ? logit[i] : most;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
      weight[i] = rows.kept[i] ? exp2_fast((logit[i] - most) * kLog2e) : 0.0f;
    products_wait(d);
#pragma unroll
    for (int i = 0; i < 32; ++i) d[i] = gelu(d[i]);
      // What is not kept has no say, not even as 0 times infinity.
#pragma unroll
    for (int i = 0; i < 32; ++i) d[i] = rows.kept[(i >> 1) & 1] ? d[i] : 0.0f;
    running.add(weight, most, d);
  }
  Partial& mine = of_quads[threadIdx.x / 4];
  if (me.t == 0) mine.most = running.most, mine.sum = running.sum;
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int e = 0; e < 2; ++e) mine.weighted[8 * j + 2 * me.t + e] = running.weighted[2 * j + e];
  __syncthreads();
  if (threadIdx.x >= kWidth) return;
  Partial& out = partials[int64_t(b) * gridDim.x + blockIdx.x];
  float most = kNothing, sum = 0, weighted = 0;
  for (int k = 0; k < kQuads; ++k)
    most =
        of_quads[k].most > most || of_quads[k].most != of_quads[k].most ? of_quads[k].most : most;
  for (int k = 0; k < kQuads; ++k) {
    const float share = exp2_fast((of_quads[k].most - most) * kLog2e);
    sum = fmaf(share, of_quads[k].sum, sum);
    weighted = fmaf(share, of_quads[k].weighted[threadIdx.x], weighted);
  }
  if (threadIdx.x == 0) out.most = most, out.sum = sum;
  out.weighted[threadIdx.x] = weighted;
}

// Block = sample, thread = column: joins the chunks in order.
__global__ void join_kernel(const Partial* partials, int chunks, float* pooled, float* lse) {
  const int b = int(blockIdx.x);
  float most = kNothing, sum = 0, weighted = 0;
  for (int k = 0; k < chunks; ++k) {
    const float m = partials[b * chunks + k].most;
    most = m > most || m != m ? m : most;
  }
  for (int k = 0; k < chunks; ++k) {
    const Partial& chunk = partials[b * chunks + k];
    const float share = exp2_fast((chunk.most - most) * kLog2e);
    sum = fmaf(share, chunk.sum, sum);
    weighted = fmaf(share, chunk.weighted[threadIdx.x], weighted);
  }
  pooled[b * kWidth + threadIdx.x] = sum == 0 ? 0.0f : weighted / sum;
  if (threadIdx.x == 0) lse[b] = sum == 0 ? 0.0f : most + logf(sum);
}

// ---- backward
// A block goes through a run of tiles of all samples; each of its three warpgroups takes every
// third one, computes it again and walks back. Weight gradients are sums over rows, taken by the
// tensor cores from bf16 tiles in shared memory into accumulators that live through the whole run.
constexpr int kBackwardGroups = 3, kBackwardThreads = kBackwardGroups * kWarpgroup;
constexpr int kOnesAt = kScoreAt + 144, kOnesBytes = 192;  // behind the parameters
constexpr int kTilesAGroup = 3;                            // x, dz of the value, dz of the gate
constexpr int kBackwardShared = kPackedBytes + kBackwardGroups * kTilesAGroup * kTileBytes + 16;
static_assert(kOnesAt % 16 == 0 && kOnesAt + kOnesBytes <= kPackedBytes,
              "the ones no longer fit behind the packed parameters");

// A slot of a warpgroup: value [out, in], gate [64 out, in], biases [2, 64] (value, gate), of each
// warp the gate's last weights and bias [4, 33].
constexpr int kSlotBiases = 2 * kWidth * kWidth, kSlotScores = kSlotBiases + 2 * kWidth,
              kScores = kHidden + 1, kSlotFloats = kSlotScores + 4 * kScores;

struct Sums {
  float value[32] = {}, gate[32] = {}, bias[4] = {};  // bias: column 0 value, column 1 gate
  float score[8] = {}, score_bias = 0;
};

__device__ __forceinline__ void warpgroup_sync(int warpgroup) {
  asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 1) : "memory");
}

// Writes a slot.
__device__ void store_sums(Sums& sums, const Place& me, float* slot) {
  asm volatile("" : LACUNA_D32(sums.value)::"memory");
  asm volatile("" : LACUNA_D32(sums.gate)::"memory");
  asm volatile(""
               : "+f"(sums.bias[0]), "+f"(sums.bias[1]), "+f"(sums.bias[2]),
                 "+f"(sums.bias[3])::"memory");
#pragma unroll
  for (int below = 0; below < 2; ++below) {
    const int row = me.row + 8 * below;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int at = row * kWidth + 8 * j + 2 * me.t;
      *reinterpret_cast<float2*>(slot + at) =
          make_float2(sums.value[4 * j + 2 * below], sums.value[4 * j + 2 * below + 1]);
      *reinterpret_cast<float2*>(slot + kWidth * kWidth + at) =
          make_float2(sums.gate[4 * j + 2 * below], sums.gate[4 * j + 2 * below + 1]);
    }
    if (me.t == 0) {
      slot[kSlotBiases + row] = sums.bias[2 * below];
      slot[kSlotBiases + kWidth + row] = sums.bias[2 * below + 1];
    }
  }
  // Over the eight quads of the warp.
#pragma unroll
  for (int step = 4; step < 32; step *= 2) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sums.score[i] += __shfl_xor_sync(~0u, sums.score[i], step);
    sums.score_bias += __shfl_xor_sync(~0u, sums.score_bias, step);
  }
  float* scores = slot + kSlotScores + me.warp * kScores;
  if (me.q == 0) {
#pragma unroll
    for (int i = 0; i < 8; ++i) scores[8 * (i >> 1) + 2 * me.t + (i & 1)] = sums.score[i];
    if (me.t == 0) scores[kHidden] = sums.score_bias;
  }
}

__global__ void __launch_bounds__(kBackwardThreads, 1)
    backward_kernel(FusedPoolShape shape, const uint8_t* __restrict__ packed_,
                    const BFloat16* __restrict__ x, const uint8_t* __restrict__ keep,
                    const float* __restrict__ pooled, const float* __restrict__ logits,
                    const float* __restrict__ lse, const float* __restrict__ grad_pooled,
                    BFloat16* __restrict__ grad_x, float* slots) {
  extern __shared__ __align__(1024) uint8_t memory[];
  const uint32_t base = shared_address(memory);
  fetch_packed(base, packed_, base + kBackwardShared - 16);
  // As in fused_mlp_wgmma.cu: read from piece 3 - c on, a 16 x 8 matrix with ones in column c.
  if (threadIdx.x < kOnesBytes / 2)
    reinterpret_cast<__nv_bfloat16*>(memory + kOnesAt)[threadIdx.x] =
        __float2bfloat16(threadIdx.x / 8 == 3 ? 1.0f : 0.0f);
  stores_before_products();
  __syncthreads();
  const Place me;
  const Packed packed(base, me.t);
  const uint32_t tiles_at = base + kPackedBytes + me.warpgroup * kTilesAGroup * kTileBytes,
                 mine = tiles_at + me.warp * 16 * 128;
  const uint64_t ones = uint64_t(((base + kOnesAt) & 0x3FFFF) >> 4);
  const int tiles = int((shape.nodes + kTileRows - 1) / kTileRows);
  const int64_t all = int64_t(tiles) * shape.batch;
  const int64_t first = all * blockIdx.x / gridDim.x, end = all * (blockIdx.x + 1) / gridDim.x;
  Sums sums;
  for (int64_t i = first + me.warpgroup; i < end; i += kBackwardGroups) {
    const int b = int(i / tiles);
    const Rows rows(shape, x, keep, int(i % tiles), b, me);
    uint32_t a[16], back[16];
    load_rows(a, rows.from[0], rows.from[1]);
    const float2* grad = reinterpret_cast<const float2*>(grad_pooled + b * kWidth + 2 * me.t);
    const float2* pool = reinterpret_cast<const float2*>(pooled + b * kWidth + 2 * me.t);
    float d[32], weight[2], along[2] = {}, constant = 0;
    packed.start(d, a, kValue);
    store_tile(mine, me.lane, a);
#pragma unroll
    for (int k = 0; k < 2; ++k)
      weight[k] = rows.kept[k]
                      ? exp2_fast((logits[b * shape.nodes + rows.gene[k]] - lse[b]) * kLog2e)
                      : 0.0f;
    products_wait(d);
    // dz of the value; along: v . grad
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 g = __ldg(grad + 4 * j), p = __ldg(pool + 4 * j);
      constant = fmaf(g.x, p.x, fmaf(g.y, p.y, constant));
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const ValueAndSlope v0 = gelu_with_slope(d[4 * j + 2 * k]),
                            v1 = gelu_with_slope(d[4 * j + 2 * k + 1]);
        along[k] = fmaf(v0.value, g.x, fmaf(v1.value, g.y, along[k]));
        const float w = weight[k];
        back[2 * j + k] = rows.kept[k] ? bf16_pair(w * g.x * v0.slope, w * g.y * v1.slope) : 0;
      }
    }
    constant = quad_sum(constant);
    store_tile(mine + kTileBytes, me.lane, back);
    float of_logit[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float sum = quad_sum(along[k]);
      of_logit[k] = rows.kept[k] ? weight[k] * (sum - constant) : 0.0f;
      if (me.t == 0) sums.score_bias += of_logit[k];
    }
    packed.start(d, a, kGate);
    products_wait(d);
    // dz of the gate; its columns from 32 on are zeros
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 w = j < 4 ? packed.score_weight(j) : make_float2(0, 0);
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        if (j >= 4) {
          back[2 * j + k] = 0;
          continue;
        }
        const ValueAndSlope g0 = gelu_with_slope(d[4 * j + 2 * k]),
                            g1 = gelu_with_slope(d[4 * j + 2 * k + 1]);
        if (rows.kept[k]) {
          sums.score[2 * j] = fmaf(of_logit[k], g0.value, sums.score[2 * j]);
          sums.score[2 * j + 1] = fmaf(of_logit[k], g1.value, sums.score[2 * j + 1]);
        }
        back[2 * j + k] =
            rows.kept[k] ? bf16_pair(of_logit[k] * w.x * g0.slope, of_logit[k] * w.y * g1.slope)
                         : 0;
      }
    }
    store_tile(mine + 2 * kTileBytes, me.lane, back);
    __syncwarp();
    load_half(mine + kTileBytes, me.lane, 0, a);  // dz of the value again: registers are few
    load_half(mine + kTileBytes, me.lane, 1, a + 8);
    products_begin();
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply<1>(d, a + 4 * k, descriptor(descriptor_low(base + kValue * kTileBytes) + k * 128),
                  k);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply<1>(d, back + 4 * k, descriptor(descriptor_low(base + kGate * kTileBytes) + k * 128),
                  1);
    products_commit();
    stores_before_products();
    warpgroup_sync(me.warpgroup);  // the tiles of all four warps are there
    products_begin();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint32_t tile_low = descriptor_low(tiles_at) + k * 128;
      const uint64_t of_x = descriptor(tile_low), of_value = descriptor(tile_low + kTileBytes / 16),
                     of_gate = descriptor(tile_low + 2 * kTileBytes / 16);
      multiply_columns(sums.value, of_value, of_x);
      multiply_columns(sums.gate, of_gate, of_x);
      multiply_columns_by_8(sums.bias, of_value, ones + 3);
      multiply_columns_by_8(sums.bias, of_gate, ones + 2);
    }
    products_commit();
    products_wait(d);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (rows.gene[k] >= shape.nodes) continue;
      BFloat16* to = grad_x + (rows.from[k] - x);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* c = d + 16 * half + 2 * k;
        *reinterpret_cast<uint4*>(to + 32 * half) =
            make_uint4(bf16_pair(c[0], c[1]), bf16_pair(c[4], c[5]), bf16_pair(c[8], c[9]),
                       bf16_pair(c[12], c[13]));
      }
    }
    warpgroup_sync(me.warpgroup);  // all four warps have read the tiles
  }
  store_sums(sums, me, slots + (size_t(blockIdx.x) * kBackwardGroups + me.warpgroup) * kSlotFloats);
}

// Adds the slots in order: a block takes 32 outputs, its eight warps an eighth of the slots each.
constexpr int kSumWarps = 8;
__global__ void sum_kernel(const float* __restrict__ slots, int count,
                           FusedPoolParameters<float> to) {
  __shared__ float part[kSumWarps][32];
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int i = int(blockIdx.x) * 32 + lane, outputs = kSlotScores + kScores;
  float sum = 0;
  for (int k = count * warp / kSumWarps; k < count * (warp + 1) / kSumWarps && i < outputs; ++k) {
    const float* slot = slots + size_t(k) * kSlotFloats + i;
    if (i < kSlotScores) {
      sum += slot[0];
    } else {
      for (int w = 0; w < 4; ++w) sum += slot[w * kScores];
    }
  }
  part[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || i >= outputs) return;
  for (int w = 1; w < kSumWarps; ++w) sum += part[w][lane];
  if (i < kSlotBiases) {
    const int tile = i >> 12, k = (i >> 6) & 63, input = memory_column(i & 63);
    if (tile == kValue) to.value_weight[input * kWidth + k] = sum;
    if (tile == kGate && k < kHidden) to.gate_hidden_weight[input * kHidden + k] = sum;
  } else if (i < kSlotScores) {
    const int k = i - kSlotBiases;
    if (k < kWidth) to.value_bias[k] = sum;
    if (k >= kWidth && k < kWidth + kHidden) to.gate_hidden_bias[k - kWidth] = sum;
  } else {
    const int k = i - kSlotScores;
    (k < kHidden ? to.gate_weight + k : to.gate_bias)[0] = sum;
  }
}

// Chunks of a sample in the forward pass: two rounds of blocks.
int chunks_of(const FusedPoolShape& shape) {
  const int64_t tiles = (shape.nodes + kTileRows - 1) / kTileRows;
  const int64_t wanted = (2 * multiprocessors() + shape.batch - 1) / shape.batch;
  return int(std::max<int64_t>(1, std::min(tiles, wanted)));
}

void check_shape(const FusedPoolShape& shape) {
  if (shape.width != kWidth) throw_error("fused_pool: the width must be 64");
}

}  // namespace

bool fused_pool_fits(int64_t width) {
  return width == kWidth && device_attribute(cudaDevAttrComputeCapabilityMajor) == 9;
}
uint64_t fused_pool_packed_bytes() { return kPackedBytes; }

uint64_t fused_pool_workspace(const FusedPoolShape& shape) {
  const uint64_t forward = uint64_t(shape.batch * chunks_of(shape)) * sizeof(Partial);
  const uint64_t backward =
      uint64_t(multiprocessors() * kBackwardGroups) * kSlotFloats * sizeof(float);
  return std::max(forward, backward);
}

void fused_pool_pack(const FusedPoolParameters<const float>& parameters, void* packed,
                     CudaStream stream) {
  pack_kernel<<<1, 512, 0, static_cast<cudaStream_t>(stream)>>>(parameters,
                                                                static_cast<uint8_t*>(packed));
  cuda::check_launch("fused_pool_pack");
}

void fused_pool(const FusedPoolShape& shape, const void* packed, const BFloat16* x,
                const uint8_t* keep, float* pooled, float* logits, float* lse, void* workspace,
                CudaStream stream_) {
  check_shape(shape);
  if (shape.nodes == 0 || shape.batch == 0) return;
  const auto stream = static_cast<cudaStream_t>(stream_);
  const int chunks = chunks_of(shape);
  auto* partials = static_cast<Partial*>(workspace);
  allow_shared(forward_kernel, kForwardShared);
  forward_kernel<<<dim3(uint32_t(chunks), uint32_t(shape.batch)), kForwardThreads, kForwardShared,
                   stream>>>(shape, static_cast<const uint8_t*>(packed), x, keep, logits, partials);
  join_kernel<<<uint32_t(shape.batch), kWidth, 0, stream>>>(partials, chunks, pooled, lse);
  cuda::check_launch("fused_pool");
}

void fused_pool_backward(const FusedPoolShape& shape, const void* packed, const BFloat16* x,
                         const uint8_t* keep, const float* pooled, const float* logits,
                         const float* lse, const float* grad_pooled, BFloat16* grad_x,
                         const FusedPoolParameters<float>& gradients, void* workspace,
                         CudaStream stream_) {
  check_shape(shape);
  const auto stream = static_cast<cudaStream_t>(stream_);
  const int blocks = multiprocessors();
  auto* slots = static_cast<float*>(workspace);
  allow_shared(backward_kernel, kBackwardShared);
  backward_kernel<<<uint32_t(blocks), kBackwardThreads, kBackwardShared, stream>>>(
      shape, static_cast<const uint8_t*>(packed), x, keep, pooled, logits, lse, grad_pooled, grad_x,
      slots);
  sum_kernel<<<uint32_t((kSlotScores + kScores + 31) / 32), kSumWarps * 32, 0, stream>>>(
      slots, blocks * kBackwardGroups, gradients);
  cuda::check_launch("fused_pool_backward");
}

}  // namespace lacuna
