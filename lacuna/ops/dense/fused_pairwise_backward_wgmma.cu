// The pairs' part of the backward pass of fused_pairwise_backward.cuh, and the whole of it.
#include "lacuna/ops/dense/fused_pairwise_backward.cuh"

namespace lacuna::wgmma {
namespace {

struct PairRun {
  int pair = 0, begin = 0, end = 0, slot = 0;
  int64_t left = -1;  // where the following run starts; -1: this block's first

  __device__ bool advance(const PairDeal& deal, int tiles) {
    const int block = int(blockIdx.x);
    if (left < 0) {
      left = deal.left_begin(block, tiles);
      if (block < deal.whole * deal.ranges) {
        pair = block % deal.whole;
        begin = deal.begin_of(block / deal.whole, tiles);
        end = deal.begin_of(block / deal.whole + 1, tiles);
        slot = block;
        if (begin < end) return true;
      }
    }
    const int64_t stop = deal.left_begin(block + 1, tiles);
    if (left >= stop) return false;
    pair = deal.whole + int(left / tiles);
    begin = int(left % tiles);
    end = int(min(int64_t(tiles), begin + (stop - left)));
    slot = deal.left_slot(block, pair);
    left += end - begin;
    return true;
  }
};

// Three warpgroups compute the forward again for 64 rows each and walk back; the fourth brings
// their inputs and turns what they leave into gradients. Shared memory: a ring of inputs (tiles
// y_i, y_j, dz), of each row warpgroup the tiles [h, 1], [p h, p] and [da, dpre], the pair's
// parameters.
// Waiting: a row warpgroup waits for an input, which the fourth has sent for, and for its own tiles
// of one round earlier to be used up; the fourth waits for tiles in the order in which they are
// computed, and sends for an input when the one before in its place is used up.
constexpr int kRowGroups = 3, kPairThreads = (kRowGroups + 1) * kWarpgroup;
constexpr int kInputs = 5, kTripleBytes = 3 * kTileBytes;
constexpr int kOutputsAt = kInputs * kTripleBytes;
constexpr int kWeightsAt = kOutputsAt + kRowGroups * kTripleBytes;
constexpr int kBiasesAt = kWeightsAt + kHiddenBiasAt;          // b, V d + c
constexpr int kPairScoreAt = kBiasesAt + 2 * 2 * kHidden * 4;  // w
constexpr int kPairBarriersAt = kPairScoreAt + kHidden * 4;
constexpr int kStateAt = kPairBarriersAt + (kInputs + 2 * kRowGroups + 1) * 8;
// What a block is at. In shared memory, because registers are scarce.
struct PairState {
  PairRun run;
  int more;         // whether there is a run
  int rows, tiles;  // in use
};
constexpr int kPairShared = kStateAt + int(sizeof(PairState));
static_assert(kPairShared <= 227 * 1024, "take fewer inputs");

struct PairBarriers {
  uint32_t input, full, empty, weights;
  __device__ explicit PairBarriers(uint32_t base)
      : input(base + kPairBarriersAt),
        full(input + 8 * kInputs),
        empty(full + 8 * kRowGroups),
        weights(empty + 8 * kRowGroups) {}
};

__device__ __forceinline__ void store_pair_sums(float* slot, const Place& me,
                                                const float (&out)[20], const float (&fold)[32],
                                                const float (&left)[16], const float (&right)[16]) {
#pragma unroll
  for (int below = 0; below < 2; ++below) {
    const int row = me.row + 8 * below;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int column = 8 * j + 2 * me.t, i = 4 * j + 2 * below;
      const auto put = [&](int at, const float* v) {
        *reinterpret_cast<float2*>(slot + at) = make_float2(v[0], v[1]);
      };
      if (j < 4) {
        put(row * kHidden + column, left + i % 16);
        put((kWidth + row) * kHidden + column, right + i % 16);
        put(kSlotOut + row * kHidden + column, out + i % 16);
        if (row < kHidden) put(kSlotFold + row * kHidden + column, fold + i);
      }
      if (row == kHidden) put(kSlotFoldBias + column, fold + i);  // and of b, behind it
    }
    if (me.t == 0) slot[kSlotOutBias + row] = out[16 + 2 * below];
  }
}

// The row warpgroups' part of a tile.
struct PairTile {
  uint32_t weights, biases, outputs;  // low word of a descriptor, address, address
  const Place& me;

  // input: low word of its descriptor. row: log_sum and D of the two rows. w_at: address of this
  // lane's first column of w. Before it stores anything it waits for `empty`. -> da: dpre
  __device__ __forceinline__ void run(uint32_t input, const float2 (&row)[2], uint32_t w_at,
                                      uint32_t empty, int round, float (&grad_w)[8],
                                      uint32_t (&da)[8]) const {
    float pre[16], q[20];
    load_bias(pre, biases);
    products_begin();
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply_tiles(pre, descriptor(input + 2 * k), descriptor(weights + 2 * k));
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply_tiles(pre, descriptor(input + kTileBytes / 16 + 2 * k),
                     descriptor(weights + kHalfBytes / 16 + 2 * k));
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply_tiles(q, descriptor(input + 2 * kTileBytes / 16 + 2 * k),
                     descriptor(weights + kOutAt / 16 + 2 * k), k);
    products_commit();
    if (round > 0) barrier_wait(empty, (round - 1) & 1);
    products_wait_all(pre, q);
    float h[16];
    uint32_t b[8], slope[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const ValueAndSlope v0 = gelu_with_slope<kScoreDegree>(pre[2 * e]),
                          v1 = gelu_with_slope<kScoreDegree>(pre[2 * e + 1]);
      h[2 * e] = v0.value, h[2 * e + 1] = v1.value;
      b[e] = bf16_pair(v0.value, v1.value);
      slope[e] = bf16_pair(v0.slope, v1.slope);
    }
    store_half(outputs + 2 * kTileBytes, me.lane, 1, slope);  // until dpre takes their place
    float(&a)[16] = pre;
    load_bias(a, biases + 2 * kHidden * 4);
    products_begin();
    multiply<0>(a, b, descriptor64(weights + kFoldAt / 16));
    multiply<0>(a, b + 4, descriptor64(weights + kFoldAt / 16 + 2));
    products_commit();
    store_half(outputs, me.lane, 0, b);
    float dp[2] = {q[16] + q[17], q[18] + q[19]};
#pragma unroll
    for (int i = 0; i < 16; ++i) dp[(i >> 1) & 1] = fmaf(q[i], h[i], dp[(i >> 1) & 1]);
    dp[0] = quad_sum(dp[0]), dp[1] = quad_sum(dp[1]);
    products_wait_all(a);
    float second[16], score[2] = {}, w[8];  // slopes of gelu at a
    load_row32(w, w_at, 0);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const ValueAndSlope v = gelu_with_slope<kScoreDegree>(a[i]);
      a[i] = v.value, second[i] = v.slope;
      score[(i >> 1) & 1] = fmaf(v.value, w[2 * (i >> 2) + (i & 1)], score[(i >> 1) & 1]);
    }
    const float p[2] = {share_of(quad_sum(score[0]), row[0].x),
                        share_of(quad_sum(score[1]), row[1].x)};
    const float ds[2] = {p[0] * (dp[0] - row[0].y), p[1] * (dp[1] - row[1].y)};
#pragma unroll
    for (int i = 0; i < 16; i += 2) {  // columns i and i + 1 of a row
      const int below = (i >> 1) & 1, column = 2 * (i >> 2);
      const float f = ds[below] * kLn2;
      grad_w[column] = fmaf(ds[below], a[i], grad_w[column]);
      grad_w[column + 1] = fmaf(ds[below], a[i + 1], grad_w[column + 1]);
      da[i / 2] = bf16_pair(f * w[column] * second[i], f * w[column + 1] * second[i + 1]);
      b[i / 2] = bf16_pair(p[below] * low_of(b[i / 2]), p[below] * high_of(b[i / 2]));
    }
    float dh[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) dh[i] = p[(i >> 1) & 1] * q[i];
    products_begin();
    multiply<1>(dh, da, descriptor64(weights + kFoldAt / 16));
    multiply<1>(dh, da + 4, descriptor64(weights + kFoldAt / 16 + 64));
    products_commit();
    store_half(outputs + kTileBytes, me.lane, 0, b);
    if (me.t == 0) {  // column 32: p
      const uint32_t at = outputs + kTileBytes + me.q * 128 + ((4 ^ me.q) << 4);
      asm volatile(
          "{\n.reg .b16 upper, lower;\nmov.b32 {upper, lower}, %0;\n"
          "st.shared.b16 [%1], upper;\nst.shared.b16 [%1 + 1024], lower;\n}" ::"r"(
              bf16_pair(p[0], p[1])),
          "r"(at)
          : "memory");
    }
    store_half(outputs + 2 * kTileBytes, me.lane, 0, da);
    products_wait_all(dh);
    load_half(outputs + 2 * kTileBytes, me.lane, 1, slope);
#pragma unroll
    for (int e = 0; e < 8; ++e)
      da[e] = bf16_pair(dh[2 * e] * low_of(slope[e]), dh[2 * e + 1] * high_of(slope[e]));
    store_half(outputs + 2 * kTileBytes, me.lane, 1, da);
  }
};

__global__ void __launch_bounds__(kPairThreads, 1)
    pair_kernel(const __grid_constant__ CUtensorMap map, const uint8_t* __restrict__ packed,
                Between to, Rows work, int graphs) {
  extern __shared__ __align__(1024) uint8_t memory[];
  const uint32_t base = shared_address(memory);
  const PairBarriers barriers(base);
  const Place me;
  PairState& state = *reinterpret_cast<PairState*>(memory + kStateAt);
  const PairRun& run = state.run;
  if (threadIdx.x == 0) {
    const int rows = work.count();
    state = {.rows = rows, .tiles = (rows + kTileRows - 1) / kTileRows};
    for (int i = 0; i < kInputs; ++i) barrier_init(barriers.input + 8 * i, 1);
    for (int i = 0; i < kRowGroups; ++i) {
      barrier_init(barriers.full + 8 * i, kWarpgroup);
      barrier_init(barriers.empty + 8 * i, 1);
    }
    barrier_init(barriers.weights, 1);
    barriers_are_made();
  }
  // The right halves of [h, 1] and [p h, p]: a column of ones, and zeros.
  for (int i = int(threadIdx.x); i < kRowGroups * kTileRows * 4; i += int(blockDim.x)) {
    const int row = i / 4 % kTileRows, piece = 4 + i % 4;
    uint8_t* at = memory + kOutputsAt + i / 4 / kTileRows * kTripleBytes + row * 128 +
                  ((piece ^ (row & 7)) << 4);
    *reinterpret_cast<uint4*>(at) = make_uint4(piece == 4 ? 0x3F80u : 0u, 0, 0, 0);
    *reinterpret_cast<uint4*>(at + kTileBytes) = make_uint4(0, 0, 0, 0);
  }
  if (threadIdx.x < kHidden)
    reinterpret_cast<float*>(memory + kPairScoreAt)[threadIdx.x] =
        reinterpret_cast<const float*>(packed + shared_at(graphs) + kScoreAt)[threadIdx.x];
  stores_before_products();
  __syncthreads();
  // Goes on to the next run, all threads together; false: none.
  const auto advance = [&] {
    meet(1, kPairThreads);
    if (threadIdx.x == 0)
      state.more = state.run.advance(PairDeal(pairs_of(graphs), int(gridDim.x)), state.tiles);
    meet(1, kPairThreads);
    return state.more != 0;
  };
  const auto weights = [&](int pair, int count) {
    if (threadIdx.x == 0) {
      const uint8_t* from = packed + size_t(pair) * kPairBytes;
      const uint32_t at = base + kWeightsAt, barrier = barriers.weights;
      constexpr int kBehind = kForwardBytes - kFoldAt;  // M, b, V d + c
      barrier_expect(barrier, kOutAt + kOutBytes + kBehind);
      bulk_copy_part(at, from, kOutAt, barrier);
      bulk_copy_part(at + kOutAt, from + kOutPlainAt, kOutBytes, barrier);
      bulk_copy_part(at + kFoldAt, from + kFoldAt, kBehind, barrier);
    }
    barrier_wait(barriers.weights, count & 1);
  };
  const int warpgroup = __shfl_sync(~0u, me.warpgroup, 0);
  // `done` counts the block's tiles: tile `done` has place done % kInputs in the ring of inputs and
  // is computed by row warpgroup done % kRowGroups.
  if (warpgroup == kRowGroups) {
    int place = 0, w = 0, parity = 0;
    for (int count = 0; advance(); ++count) {
      const int pair = run.pair, begin = run.begin, end = run.end;
      int i = 0;
      while (first_pair(i + 1, graphs) <= pair) ++i;
      const int j = i + pair - first_pair(i, graphs);
      const auto fetch = [&](int place, int tile) {
        const uint32_t at = base + place * kTripleBytes, barrier = barriers.input + 8 * place;
        barrier_expect(barrier, kTripleBytes);
        copy_tile_part(at, &map, tile * kTileRows, i, barrier);
        copy_tile_part(at + kTileBytes, &map, tile * kTileRows, j, barrier);
        bulk_copy_part(at + 2 * kTileBytes, to.grad_sum + size_t(tile) * kTileBytes, kTileBytes,
                       barrier);
      };
      const bool fetches = threadIdx.x % kWarpgroup == 0;
      if (fetches)
        for (int k = 0; k < kInputs && begin + k < end; ++k)
          fetch((place + k) % kInputs, begin + k);
      weights(pair, count);
      float out[20] = {}, fold[32] = {}, left[16] = {}, right[16] = {};
      int tile = begin;
      do {  // a run is never empty
        barrier_wait(barriers.full + 8 * w, parity);
        const uint32_t in = descriptor_low(base) + place * (kTripleBytes / 16),
                       from = descriptor_low(base + kOutputsAt) + w * (kTripleBytes / 16);
        constexpr int kTile = kTileBytes / 16;
#pragma unroll 1  // else the descriptors take too many registers
        for (int k = 0; k < 4 * 128; k += 128) {
          products_begin();
          multiply_columns(out, descriptor(in + 2 * kTile + k), descriptor(from + kTile + k));
          multiply_columns(fold, descriptor(from + k), descriptor(from + 2 * kTile + k));
          multiply_columns(left, descriptor(in + k), descriptor(from + 2 * kTile + 4 + k));
          multiply_columns(right, descriptor(in + kTile + k), descriptor(from + 2 * kTile + 4 + k));
        }
        products_commit();
        products_wait_all(out, fold, left, right);
        meet(2, kWarpgroup);
        if (fetches) {
          barrier_arrive(barriers.empty + 8 * w);
          if (tile + kInputs < end) fetch(place, tile + kInputs);
        }
        if (++place == kInputs) place = 0;
        if (++w == kRowGroups) w = 0, parity ^= 1;
      } while (++tile < end);
      store_pair_sums(to.pair_slots + size_t(run.slot) * kSlotFloats, me, out, fold, left, right);
    }
  } else {
    const PairTile pair_tile = {
        descriptor_low(base + kWeightsAt), opaque(base + kBiasesAt + me.t * 16),
        base + kOutputsAt + warpgroup * kTripleBytes + me.warp * 16 * 128, me};
    const uint32_t w = base + kPairScoreAt + me.t * 8;
    float grad_w[8] = {};
    int done = 0, number = warpgroup;  // tiles of the block's earlier runs; this warpgroup's next
    for (int count = 0; advance(); ++count) {
      const int shift = run.begin - done;
      weights(run.pair, count);
      for (; number + shift < run.end; number += kRowGroups) {
        const int tile = number + shift, place = number % kInputs;
        const float2* from = to.row + size_t(tile) * kTileRows + me.row;
        const float2 row[2] = {__ldg(from), __ldg(from + 8)};
        barrier_wait(barriers.input + 8 * place, (number / kInputs) & 1);
        if ((tile + 1) * kTileRows > state.rows) {  // past the end: y may be anything
          const int own = int(threadIdx.x) % kWarpgroup / 2;
          const uint32_t at = base + place * kTripleBytes + own * 128 + (threadIdx.x & 1) * 64;
          if (tile * kTileRows + own >= state.rows)
            for (int i = 0; i < 4; ++i) {
              store_shared4(at + i * 16, 0, 0, 0, 0);
              store_shared4(at + kTileBytes + i * 16, 0, 0, 0, 0);
            }
          stores_before_products();
          meet(3 + warpgroup, kWarpgroup);
        }
        uint32_t grad_hidden[8];
        pair_tile.run(descriptor_low(base) + place * (kTripleBytes / 16), row, w,
                      barriers.empty + 8 * warpgroup, number / kRowGroups, grad_w, grad_hidden);
        stores_before_products();
        barrier_arrive(barriers.full + 8 * warpgroup);
        uint4* out = to.grad_hidden + (size_t(run.pair) * to.tiles + tile) * 2 * kWarpgroup +
                     threadIdx.x % kWarpgroup;
        const uint32_t* g = grad_hidden;
        out[0] = make_uint4(g[0], g[1], g[2], g[3]);
        out[kWarpgroup] = make_uint4(g[4], g[5], g[6], g[7]);
      }
      done = run.end - shift;
    }
    // The gradient of w: of the twelve warps, in order. The inputs are used up.
    meet(6, kRowGroups * kWarpgroup);
    float* sums = reinterpret_cast<float*>(memory);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float sum = column_sum(grad_w[i]);
      if (me.q == 0) sums[threadIdx.x / 32 * kHidden + 8 * (i >> 1) + 2 * me.t + (i & 1)] = sum;
    }
    meet(6, kRowGroups * kWarpgroup);
    if (threadIdx.x < kHidden) {
      float sum = 0;
      for (int k = 0; k < kRowGroups * 4; ++k) sum += sums[k * kHidden + threadIdx.x];
      to.score_slots[blockIdx.x * kHidden + threadIdx.x] = sum;
    }
  }
}

// The workspace: where its parts are, and its size.
struct Workspace {
  Between parts = {};
  uint64_t bytes = 0;

  Workspace(const FusedPairwiseShape& shape, int blocks, void* at) {
    const int pairs = pairs_of(int(shape.graphs));
    const auto tiles = uint64_t(divide_up(shape.rows, kTileRows));
    const auto take = [&](auto*& pointer, uint64_t elements) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(
          static_cast<uint8_t*>(at) + bytes);
      bytes += aligned(elements * sizeof(*pointer));
    };
    parts.tiles = int(tiles);
    take(parts.grad_sum, tiles * kTileBytes);
    take(parts.row, tiles * kTileRows);
    take(parts.mean_part, tiles * 4 * kWarpgroup);
    take(parts.grad_hidden, uint64_t(pairs) * tiles * 2 * kWarpgroup);
    take(parts.row_slots, uint64_t(blocks) * kRowSlotFloats);
    take(parts.pair_slots, uint64_t(PairDeal(pairs, blocks).slots()) * kSlotFloats);
    take(parts.score_slots, uint64_t(blocks) * kHidden);
    take(parts.sums, uint64_t(pairs) * kSlotFloats);
    take(parts.scorer_parts, uint64_t(pairs) * kWidth * kHidden);
  }
};

}  // namespace

uint64_t pairwise_backward_workspace(const FusedPairwiseShape& shape) {
  return Workspace(shape, multiprocessors(), nullptr).bytes;
}

void pairwise_backward(const FusedPairwiseShape& shape, const void* packed,
                       const FusedPairwiseParameters<const float>& parameters, const BFloat16* y,
                       const FusedPairwiseKept& kept, const BFloat16* grad_x, BFloat16* grad_y,
                       const FusedPairwiseParameters<float>& gradients, void* workspace,
                       CudaStream stream) {
  const int blocks = multiprocessors();
  const Between parts = Workspace(shape, blocks, workspace).parts;
  if (shape.rows > 0) {
    launch_rows(shape, packed, kept, grad_x, parts, blocks, stream);
    allow_shared(pair_kernel, kPairShared);
    pair_kernel<<<uint32_t(blocks), kPairThreads, kPairShared, static_cast<cudaStream_t>(stream)>>>(
        tile_map(y, shape, kTileRows), static_cast<const uint8_t*>(packed), parts,
        Rows{int(shape.rows), shape.used}, int(shape.graphs));
    launch_grad_y(shape, packed, parts, grad_y, blocks, stream);
  }
  launch_sums(shape, parameters, parts, blocks, gradients, stream);
  check_launch("fused_pairwise_backward");
}

}  // namespace lacuna::wgmma
