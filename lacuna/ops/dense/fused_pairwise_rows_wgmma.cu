// What the backward pass of fused_pairwise_backward.cuh does row by row, before the pairs and
// after.
#include "lacuna/ops/dense/fused_pairwise_backward.cuh"
#include "lacuna/ops/dense/norm_gelu_cuda.h"

namespace lacuna::wgmma {
namespace {

constexpr float kNever = 1e30f;  // log_sum of a row that is not there: p = 0

// ---- before the pairs
constexpr int kRowThreads = 2 * kWarpgroup, kRowWarps = kRowThreads / 32;
constexpr int kRowShared = kSharedBytes + 2 * 2 * kTileBytes;
static_assert(kSharedBytes % 1024 == 0, "tiles follow, see descriptor()");
static_assert(kRowWarps * kRowSmall * 4 + kWidth * kHidden * 4 <= 2 * 2 * kTileBytes,
              "the sums of a block go through the memory of its tiles");

// The gradient of a row of z from that of x; d: z, destroyed. Adds to the norm's gradients.
__device__ __forceinline__ void norm_back(float (&d)[32], const uint32_t (&grad)[16],
                                          uint32_t (&grad_sum)[16], uint32_t norm,
                                          float (&grad_weight)[16], float (&grad_bias)[16]) {
  constexpr float kShare = 1.0f / kWidth;
  const TwoRows scale = centre_rows(d, kNormEps);
  float h[32], sum[2] = {}, product[2] = {};  // of the upper and the lower row
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 weight = load_shared2(norm + j * 32);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int column = e & 1, row = e >> 1;
      const uint32_t pair = grad[2 * j + row];
      const float g = column ? high_of(pair) : low_of(pair);
      const float x = d[4 * j + e] * (row ? scale.lower : scale.upper);
      d[4 * j + e] = x;
      h[4 * j + e] = g * (column ? weight.y : weight.x);
      grad_weight[2 * j + column] = fmaf(g, x, grad_weight[2 * j + column]);
      grad_bias[2 * j + column] += g;
      sum[row] += h[4 * j + e];
      product[row] = fmaf(h[4 * j + e], x, product[row]);
    }
  }
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float mean = quad_sum(sum[row]) * kShare, slope = quad_sum(product[row]) * kShare;
    const float s = row ? scale.lower : scale.upper;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int i = 4 * j + 2 * row;
      grad_sum[2 * j + row] = bf16_pair(s * (h[i] - fmaf(d[i], slope, mean)),
                                        s * (h[i + 1] - fmaf(d[i + 1], slope, mean)));
    }
  }
}
// Products of two rows with two others.
__device__ __forceinline__ TwoRows dot_rows(const uint32_t (&a)[16], const uint32_t (&b)[16]) {
  float sum[2] = {};
#pragma unroll
  for (int i = 0; i < 16; ++i)
    sum[i & 1] = fmaf(low_of(a[i]), low_of(b[i]), fmaf(high_of(a[i]), high_of(b[i]), sum[i & 1]));
  return {quad_sum(sum[0]), quad_sum(sum[1])};
}

// A warpgroup takes every so manieth tile. Its only waits are meetings of its own four warps, for
// the two tiles in shared memory that the product for V reads.
__global__ void __launch_bounds__(kRowThreads, 1)
    row_kernel(const uint8_t* __restrict__ packed, const BFloat16* __restrict__ grad_x,
               FusedPairwiseKept kept, Between to, Rows work, int graphs, bool normed) {
  extern __shared__ __align__(1024) uint8_t memory[];
  const uint32_t base = shared_address(memory);
  const Place me;
  for (int i = int(threadIdx.x); i < kSharedBytes / 4; i += int(blockDim.x))
    reinterpret_cast<uint32_t*>(memory)[i] =
        reinterpret_cast<const uint32_t*>(packed + shared_at(graphs))[i];
  stores_before_products();
  __syncthreads();
  const int warpgroup = __shfl_sync(~0u, me.warpgroup, 0);
  const uint32_t mean_tile = base + kSharedBytes + warpgroup * 2 * kTileBytes,
                 da_tile = mean_tile + kTileBytes, scorer = descriptor_low(base + kScorerAt);
  float grad_scorer[16] = {}, grad_c[8] = {}, grad_w[8] = {}, grad_weight[16] = {},
        grad_bias[16] = {};
  const int rows = work.count(), tiles = (rows + kTileRows - 1) / kTileRows;
  const float share = 1.0f / float(graphs);
  const auto load = [&](uint32_t(&a)[16], const BFloat16* p, int tile) {  // past the end: the last
    const int row = tile * kTileRows + me.row;
    load_rows(a, p + size_t(max(min(row, rows - 1), 0)) * kWidth + 8 * me.t,
              p + size_t(max(min(row + 8, rows - 1), 0)) * kWidth + 8 * me.t);
  };
  const int first = int(blockIdx.x) * 2 + warpgroup, step = int(gridDim.x) * 2;
  uint32_t next_z[16], next_grad[16];
  load(next_z, kept.sum, first);
  load(next_grad, grad_x, first);
  for (int tile = first; tile < tiles; tile += step) {
    const int row = tile * kTileRows + me.row;
    const bool there[2] = {row < rows, row + 8 < rows};
    uint32_t mean[16], dz[16];
    TwoRows log_sum, product, d_mean;  // product: D
    load(mean, kept.mean, tile);
    log_sum.upper = there[0] ? __ldg(kept.log_sum + row) : kNever;
    log_sum.lower = there[1] ? __ldg(kept.log_sum + row + 8) : kNever;
    {
      uint32_t z[16], grad[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        z[i] = next_z[i];
        grad[i] = there[i & 1] ? next_grad[i] : 0;
      }
      load(next_z, kept.sum, tile + step);
      load(next_grad, grad_x, tile + step);
      if (normed) {
        float d[32];
#pragma unroll
        for (int i = 0; i < 16; ++i) d[2 * i] = low_of(z[i]), d[2 * i + 1] = high_of(z[i]);
        norm_back(d, grad, dz, base + kNormAt + me.t * 8, grad_weight, grad_bias);
      } else {
#pragma unroll
        for (int i = 0; i < 16; ++i) dz[i] = grad[i];
      }
      product = dot_rows(dz, z);
    }
    d_mean = dot_rows(dz, mean);
    if (me.t == 0) {
      to.row[row] = make_float2(log_sum.upper, product.upper);
      to.row[row + 8] = make_float2(log_sum.lower, product.lower);
    }
    // The mean's option: its score ...
    float a[16];
    load_bias(a, base + kScorerBiasAt + me.t * 16);
    products_begin();
#pragma unroll
    for (int k = 0; k < 4; ++k) multiply<0>(a, mean + 4 * k, descriptor(scorer + 2 * k));
    products_commit();
    meet(1 + warpgroup, kWarpgroup);  // the tile before is used up
#pragma unroll
    for (int below = 0; below < 2; ++below)
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const uint32_t place = row_place(me, below, side);
        const int i = 8 * side + below;
        *reinterpret_cast<uint4*>(to.grad_sum + size_t(tile) * kTileBytes + place) =
            make_uint4(dz[i], dz[i + 2], dz[i + 4], dz[i + 6]);
        store_shared4(mean_tile + place, __uint_as_float(mean[i]), __uint_as_float(mean[i + 2]),
                      __uint_as_float(mean[i + 4]), __uint_as_float(mean[i + 6]));
      }
    products_wait_all(a);
    float w[8], slope[16], score[2] = {};
    load_row32(w, base + kScoreAt, me.t);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const ValueAndSlope v = gelu_with_slope<kScoreDegree>(a[i]);
      const int row_of = (i >> 1) & 1;
      a[i] = v.value, slope[i] = v.slope;
      score[row_of] = fmaf(v.value, w[2 * (i >> 2) + (i & 1)], score[row_of]);
    }
    const float p[2] = {share_of(quad_sum(score[0]), log_sum.upper),
                        share_of(quad_sum(score[1]), log_sum.lower)};
    const float ds[2] = {p[0] * (d_mean.upper - product.upper),
                         p[1] * (d_mean.lower - product.lower)};
    // ... and the way back.
    uint32_t da[8];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = 2 * j + (e & 1);
        grad_w[column] = fmaf(ds[e >> 1], a[4 * j + e], grad_w[column]);
        v[e] = ds[e >> 1] * kLn2 * w[column] * slope[4 * j + e];
        grad_c[column] += v[e];
      }
      da[2 * j] = bf16_pair(v[0], v[1]), da[2 * j + 1] = bf16_pair(v[2], v[3]);
    }
    store_half(da_tile + me.warp * 16 * 128, me.lane, 0, da);
    float d[32];
#pragma unroll
    for (int i = 0; i < 16; ++i)
      d[2 * i] = p[i & 1] * low_of(dz[i]), d[2 * i + 1] = p[i & 1] * high_of(dz[i]);
    stores_before_products();
    meet(1 + warpgroup, kWarpgroup);
    products_begin();
    multiply<1>(d, da, descriptor(scorer), 1);
    multiply<1>(d, da + 4, descriptor(scorer + 128), 1);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply_columns(grad_scorer, descriptor(descriptor_low(mean_tile) + k * 128),
                       descriptor(descriptor_low(da_tile) + k * 128));
    products_commit();
    products_wait_all(d, grad_scorer);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float* c = d + 8 * k;
      to.mean_part[(size_t(tile) * 4 + k) * kWarpgroup + threadIdx.x % kWarpgroup] =
          make_uint4(bf16_pair(c[0] * share, c[1] * share), bf16_pair(c[2] * share, c[3] * share),
                     bf16_pair(c[4] * share, c[5] * share), bf16_pair(c[6] * share, c[7] * share));
    }
  }
  // The sums of the block: small ones of its eight warps, V's of its two warpgroups.
  __syncthreads();
  float* small = reinterpret_cast<float*>(memory + kSharedBytes);  // [8 warps, kRowSmall]
  float* second = small + kRowWarps * kRowSmall;                   // V's, of the second warpgroup
  float* mine = small + threadIdx.x / 32 * kRowSmall;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const float weight = column_sum(grad_weight[i]), bias = column_sum(grad_bias[i]);
    const int column = 8 * (i >> 1) + 2 * me.t + (i & 1);
    if (me.q == 0) mine[column] = weight, mine[kWidth + column] = bias;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float c = column_sum(grad_c[i]), w = column_sum(grad_w[i]);
    const int column = 2 * kWidth + 8 * (i >> 1) + 2 * me.t + (i & 1);
    if (me.q == 0) mine[column] = c, mine[kHidden + column] = w;
  }
  const auto place = [&](int i) {  // of grad_scorer[i] in [64, 32]
    return (me.row + 8 * ((i >> 1) & 1)) * kHidden + 8 * (i >> 2) + 2 * me.t + (i & 1);
  };
  if (warpgroup == 1)
#pragma unroll
    for (int i = 0; i < 16; ++i) second[place(i)] = grad_scorer[i];
  __syncthreads();
  float* slot = to.row_slots + size_t(blockIdx.x) * kRowSlotFloats;
  if (warpgroup == 0)
#pragma unroll
    for (int i = 0; i < 16; ++i) slot[place(i)] = grad_scorer[i] + second[place(i)];
  static_assert(kRowSmall <= kRowThreads, "a thread a column");
  if (int(threadIdx.x) < kRowSmall) {
    float sum = 0;
    for (int k = 0; k < kRowWarps; ++k) sum += small[k * kRowSmall + threadIdx.x];
    slot[kWidth * kHidden + threadIdx.x] = sum;
  }
}

// ---- grad_y
// A warpgroup owns 64 rows and goes through all graphs for them, two dpre a step, which come
// straight from memory as register operands, three steps ahead. The two halves of U that a step
// needs come through a ring of stages that the four warpgroups of a block share.
// Waiting: the first thread refills the stage of a step that lies kBehind steps back, when all
// warps have left it; the others need no more than what is filled already.
constexpr int kStages = 16, kBehind = 4, kStepBytes = 2 * kHalfBytes, kAhead = 3;
constexpr int kGradThreads = 512, kGradGroups = 4;
constexpr int kMeanPartAt = kStages * kStepBytes;  // [4, threads] float4: each thread its own
constexpr int kGradBarriersAt = kMeanPartAt + 4 * kGradThreads * 16;
constexpr int kGradShared = kGradBarriersAt + 2 * kStages * 8;

__global__ void __launch_bounds__(kGradThreads, 1)
    grad_y_kernel(const uint8_t* __restrict__ packed, Between from, BFloat16* __restrict__ grad_y,
                  Rows work, int graphs) {
  extern __shared__ __align__(1024) uint8_t memory[];
  const uint32_t base = shared_address(memory), full = base + kGradBarriersAt,
                 empty = full + 8 * kStages;
  const Place me;
  const int rows = work.count(), tiles = (rows + kTileRows - 1) / kTileRows,
            groups = (tiles + kGradGroups - 1) / kGradGroups;
  const int steps_a_graph = halves_of(graphs) / 2, steps = graphs * steps_a_graph;
  const int own = (groups - int(blockIdx.x) + int(gridDim.x) - 1) / int(gridDim.x);
  const int total = max(own, 0) * steps;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full + 8 * i, 1);
      barrier_init(empty + 8 * i, kGradThreads / 32);
    }
    barriers_are_made();
  }
  __syncthreads();
  const uint8_t* halves = packed + halves_at(graphs);
  const auto fetch = [&](int n) {
    const int stage = n % kStages;
    bulk_copy(base + stage * kStepBytes, halves + size_t(n % steps) * kStepBytes, kStepBytes,
              full + 8 * stage);
  };
  if (threadIdx.x == 0)
    for (int n = 0; n < kStages - kBehind && n < total; ++n) fetch(n);
  const int warpgroup = __shfl_sync(~0u, me.warpgroup, 0), lane_at = int(threadIdx.x) % kWarpgroup;
  int n = 0;  // steps done
  for (int group = int(blockIdx.x); group < groups; group += int(gridDim.x)) {
    const int wanted = group * kGradGroups + warpgroup, tile = min(wanted, tiles - 1);
    uint4 next[kAhead][4];
    const uint32_t mean_part = base + kMeanPartAt + threadIdx.x * 16;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float4 v = __ldg(reinterpret_cast<const float4*>(
          from.mean_part + (size_t(tile) * 4 + k) * kWarpgroup + lane_at));
      store_shared4(mean_part + k * kGradThreads * 16, v.x, v.y, v.z, v.w);
    }
    int load_g = 0, load_step = 0;  // the next to be loaded
    const auto load = [&](uint4(&v)[4]) {
      if (load_g == graphs) return;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        // A half too many meets weights of zero.
        const int half = 2 * load_step + i;
        const int pair = min(pair_of_half(half, load_g, graphs), pairs_of(graphs) - 1);
        const uint4* at =
            from.grad_hidden + (size_t(pair) * from.tiles + tile) * 2 * kWarpgroup + lane_at;
        v[2 * i] = __ldg(at), v[2 * i + 1] = __ldg(at + kWarpgroup);
      }
      if (++load_step == steps_a_graph) load_step = 0, ++load_g;
    };
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load(next[i]);
    float d[32];
    int g = 0, step = 0;
    for (int k = 0; k < steps; k += kAhead)
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (k + i >= steps) break;
        if (step == 0)
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            const float4 f = load_shared4(mean_part + q * kGradThreads * 16);
            const uint32_t v[4] = {__float_as_uint(f.x), __float_as_uint(f.y), __float_as_uint(f.z),
                                   __float_as_uint(f.w)};
#pragma unroll
            for (int e = 0; e < 4; ++e)
              d[8 * q + 2 * e] = low_of(v[e]), d[8 * q + 2 * e + 1] = high_of(v[e]);
          }
        const int stage = n % kStages;
        const uint32_t low = descriptor_low(base) + stage * (kStepBytes / 16);
        barrier_wait(full + 8 * stage, (n / kStages) & 1);
        products_begin();
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const uint32_t a[4] = {next[i][q].x, next[i][q].y, next[i][q].z, next[i][q].w};
          multiply<1>(d, a, descriptor(low + q * 128), 1);
        }
        products_commit();
        products_wait(d);
        load(next[i]);
        if (me.lane == 0) barrier_arrive(empty + 8 * stage);
        const int later = n + kStages - kBehind;
        if (threadIdx.x == 0 && later < total) {
          if (later >= kStages)
            barrier_wait(empty + 8 * (later % kStages), (later / kStages - 1) & 1);
          fetch(later);
        }
        __syncwarp();
        ++n;
        if (++step == steps_a_graph) {
          if (wanted < tiles)
            store_rows(d, grad_y + size_t(g) * work.rows * kWidth, tile * kTileRows + me.row, rows,
                       me.t);
          step = 0, ++g;
        }
      }
  }
}

}  // namespace

void launch_rows(const FusedPairwiseShape& shape, const void* packed, const FusedPairwiseKept& kept,
                 const BFloat16* grad_x, const Between& to, int blocks, CudaStream stream) {
  allow_shared(row_kernel, kRowShared);
  row_kernel<<<uint32_t(blocks), kRowThreads, kRowShared, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint8_t*>(packed), grad_x, kept, to, Rows{int(shape.rows), shape.used},
      int(shape.graphs), shape.normed);
}

void launch_grad_y(const FusedPairwiseShape& shape, const void* packed, const Between& from,
                   BFloat16* grad_y, int blocks, CudaStream stream) {
  allow_shared(grad_y_kernel, kGradShared);
  grad_y_kernel<<<uint32_t(blocks), kGradThreads, kGradShared, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint8_t*>(packed), from, grad_y, Rows{int(shape.rows), shape.used},
      int(shape.graphs));
}

}  // namespace lacuna::wgmma
