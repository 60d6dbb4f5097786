// See fused_pairwise_wgmma.cuh. Packing and the forward pass; the ladder of versions stands in
// docs/performance.md.
//
// A block takes a tile of 128 rows (64 from ten graphs on) with all y of it in shared memory. Of
// its four (two) warpgroups, the two of a half own the same 64 rows and take every second pair:
// they are of two teams. Each has its own online softmax; the two are joined when the tile ends.
// Weights come through two stages a team, one bulk copy a pair, one pair ahead. y_g of the next
// tile comes as soon as nobody needs y_g of this one: pairs run with i ascending.
//
// A pair: h = gelu(U [y_i, y_j] + b), a = (V W) h + V d + c, s = w . gelu(a), and the sum over
// options grows by W (p h) + d p in one product, p being the 33rd and 34th input, which meet d
// rounded to bf16 and what it lost by that. One wait covers this product and the next pair's first.
//
// Waiting: every barrier is arrived at by warps of the same block that wait for nothing the waiter
// still has to do. A stage of weights is refilled (by the first thread of its team) when the team's
// warps have left it, and they leave it because it was filled. y is fed by one thread of team 0, in
// order; when it waits for the last users of y_g, these are warps in the tile before, all of whose
// y has been fed. At the end of a tile, team 1 hands its sums to team 0, which takes them at once.
#include "lacuna/ops/dense/fused_pairwise_wgmma.cuh"
#include "lacuna/ops/dense/norm_gelu_cuda.h"

namespace lacuna::wgmma {
namespace {

// ---- packing: a block a pair, and one for what all pairs share
__device__ void put(uint8_t* to, float v) {
  *reinterpret_cast<__nv_bfloat16*>(to) = __float2bfloat16_rn(v);
}
// The column of element i of a bias that load_bias() reads.
__device__ int bias_column(int i) { return 8 * (i >> 4) + 2 * ((i >> 2) & 3) + (i & 1); }

__device__ void pack_pair(const FusedPairwiseParameters<const float>& from, int pair, int graphs,
                          uint8_t* packed) {
  int i = 0;
  while (first_pair(i + 1, graphs) <= pair) ++i;
  const int j = i + pair - first_pair(i, graphs);
  uint8_t* out = packed + size_t(pair) * kPairBytes;
  uint8_t* halves = packed + halves_at(graphs);
  const float* hidden = from.hidden_weight + size_t(pair) * 2 * kWidth * kHidden;
  const float* weight = from.out_weight + size_t(pair) * kHidden * kWidth;
  const float* bias = from.out_bias + size_t(pair) * kWidth;
  const int first = int(threadIdx.x), step = int(blockDim.x);
  for (int n = first; n < 2 * kWidth * kHidden; n += step) {
    const int input = n >> 5, output = n & 31, side = input >> 6, column = input & 63;
    put(out + kHiddenAt + side * kHalfBytes + tile_place(output, column), hidden[n]);
    const int graph = side ? j : i;
    const int half = side ? (i == j ? i + 1 : i) : (i == j ? i : j + 1);
    put(halves + size_t(graph * halves_of(graphs) + half) * kHalfBytes + tile_place(output, column),
        hidden[(side * kWidth + memory_column(column)) * kHidden + output]);
  }
  for (int n = first; n < 48 * kWidth; n += step) {
    const int row = n >> 6, column = n & 63;
    const auto value = [&](int c) {
      if (row < kHidden) return weight[row * kWidth + c];
      const float rounded = __bfloat162float(__float2bfloat16_rn(bias[c]));
      return row == kHidden ? rounded : row == kHidden + 1 ? bias[c] - rounded : 0.0f;
    };
    put(out + kOutAt + tile_place(row, column), value(memory_column(column)));
    put(out + kOutPlainAt + tile_place(row, column), value(column));
  }
  for (int n = first; n < kHidden * kHidden; n += step) {
    const int input = n >> 5, output = n & 31;
    float sum = 0;
    for (int m = 0; m < kWidth; ++m)
      sum = fmaf(weight[input * kWidth + m], from.score_hidden_weight[m * kHidden + output], sum);
    put(out + kFoldAt + tile_place64(output, input), sum);
  }
  for (int n = first; n < 2 * kHidden; n += step) {
    const int column = bias_column(n);
    float sum = from.score_hidden_bias[column];
    for (int m = 0; m < kWidth; ++m)
      sum = fmaf(bias[m], from.score_hidden_weight[m * kHidden + column], sum);
    reinterpret_cast<float*>(out + kHiddenBiasAt)[n] = from.hidden_bias[pair * kHidden + column];
    reinterpret_cast<float*>(out + kFoldBiasAt)[n] = sum;
  }
}

__global__ void pack_kernel(FusedPairwiseParameters<const float> from, int graphs, bool normed,
                            uint8_t* packed) {
  if (int(blockIdx.x) < pairs_of(graphs)) return pack_pair(from, int(blockIdx.x), graphs, packed);
  uint8_t* out = packed + shared_at(graphs);
  const int first = int(threadIdx.x), step = int(blockDim.x);
  for (int n = first; n < kHidden * kWidth; n += step)
    put(out + kScorerAt + tile_place(n >> 6, n & 63),
        from.score_hidden_weight[memory_column(n & 63) * kHidden + (n >> 6)]);
  for (int n = first; n < 2 * kHidden; n += step)
    reinterpret_cast<float*>(out + kScorerBiasAt)[n] = from.score_hidden_bias[bias_column(n)];
  for (int n = first; n < 2 * kWidth; n += step)
    reinterpret_cast<float*>(out + kNormAt)[n] =
        normed ? (n < kWidth ? from.norm_weight : from.norm_bias)[memory_column(n & 63)] : 0.0f;
  for (int n = first; n < kHidden; n += step)
    reinterpret_cast<float*>(out + kScoreAt)[n] = from.score_weight[n] * kLog2E;
  for (int n = kScoreAt + kHidden * 4 + first * 4; n < kSharedBytes; n += step * 4)
    *reinterpret_cast<float*>(out + n) = 0;
  if (halves_of(graphs) > graphs + 1)
    for (int n = first; n < graphs * kHalfBytes / 4; n += step) {
      const size_t half = size_t(n / (kHalfBytes / 4) + 1) * halves_of(graphs) - 1;
      reinterpret_cast<float*>(packed + halves_at(graphs) +
                               half * kHalfBytes)[n % (kHalfBytes / 4)] = 0;
    }
}

// ---- the online softmax of the two rows that a quad of lanes holds, in units of log 2
struct Softmax {
  // The sums of a row are rescaled only when its maximum grows by more than this: p is at most 2^6.
  // Each row decides for itself, so that its bits do not depend on its neighbours.
  static constexpr float kSlack = 6;

  float sum[32] = {};
  TwoRows most = {-1e30f, -1e30f}, total = {0, 0};

  // One more option with these scores -> its weights. The caller adds it to `sum`.
  __device__ __forceinline__ TwoRows add(TwoRows score) {
    const bool first = score.upper > most.upper + kSlack,
               second = score.lower > most.lower + kSlack;
    if (__any_sync(~0u, first || second)) {
      const TwoRows now = {first ? score.upper : most.upper, second ? score.lower : most.lower};
      const float upper = exp2_fast(most.upper - now.upper),
                  lower = exp2_fast(most.lower - now.lower);
      most = now;
      total.upper *= upper, total.lower *= lower;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        sum[4 * j] *= upper, sum[4 * j + 1] *= upper;
        sum[4 * j + 2] *= lower, sum[4 * j + 3] *= lower;
      }
    }
    const TwoRows p = {exp2_fast(score.upper - most.upper), exp2_fast(score.lower - most.lower)};
    total.upper += p.upper, total.lower += p.lower;
    return p;
  }
};

// w: address of this lane's first column of w; read anew each time, to save registers.
__device__ __forceinline__ TwoRows score_of(const float (&a)[16], uint32_t w) {
  float upper = 0, lower = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 weight = load_shared2(w + j * 32);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float v = e ? weight.y : weight.x;
      upper = fmaf(gelu<kScoreDegree>(a[4 * j + e]), v, upper);
      lower = fmaf(gelu<kScoreDegree>(a[4 * j + 2 + e]), v, lower);
    }
  }
  return {quad_sum(upper), quad_sum(lower)};
}

// ---- shared memory: weights of four pairs, what all pairs share, the joining of the teams,
// barriers, a few numbers, y
struct State {               // registers are scarce
  int graph = 0, round = 1;  // of the y that is fed next: this block's tile number `round`
  int rows, tiles;           // in use
};
constexpr int kStages = 4, kStageBytes = 17408;
constexpr int kCommonAt = kStages * kStageBytes;
constexpr int kJoinAt = kCommonAt + kSharedBytes;  // [halves, 2, 128] float4
constexpr int kJoinBytes = 4096;
constexpr int kTotalsAt = kJoinAt + 2 * kJoinBytes;  // [halves, 64] maximum and total
constexpr int kTotalsBytes = 512;
constexpr int kBarriersAt = kTotalsAt + 2 * kTotalsBytes;
constexpr int kStateAt = kBarriersAt + (2 * kStages + 2 * kMostGraphs) * 8;
constexpr int kTilesAt = (kStateAt + int(sizeof(State)) + 1023) / 1024 * 1024;
constexpr int kWidest = 9;  // graphs that fit with two halves
static_assert(kForwardBytes <= kStageBytes && kStageBytes % 1024 == 0, "see descriptor()");
static_assert(kTilesAt + kWidest * 2 * kTileBytes <= 227 * 1024 &&
                  kTilesAt + kMostGraphs * kTileBytes <= 227 * 1024,
              "take fewer graphs");

struct ForwardTo {
  BFloat16* x;
  FusedPairwiseRows<BFloat16, float> keep;
};

template <int halves>
__global__ void __launch_bounds__(halves * 2 * kWarpgroup, 1)
    forward_kernel(const __grid_constant__ CUtensorMap map, const uint8_t* __restrict__ packed,
                   ForwardTo to, Rows work, int graphs, bool normed) {
  extern __shared__ __align__(1024) uint8_t memory[];
  constexpr int kRows = halves * kTileRows, kYBytes = halves * kTileBytes;
  // The thread that feeds y: of team 0, and not the one that fetches its weights.
  constexpr int kFeeder = halves == 2 ? 2 * kWarpgroup : 64;
  const uint32_t base = shared_address(memory), common = base + kCommonAt,
                 full = base + kBarriersAt, empty = full + 8 * kStages,
                 y_full = empty + 8 * kStages, y_dead = y_full + 8 * kMostGraphs;
  State& state = *reinterpret_cast<State*>(memory + kStateAt);
  const int pairs = pairs_of(graphs);
  const Place me;
  if (int(blockIdx.x) * kRows >= work.count()) return;
  if (threadIdx.x == 0) {
    const int rows = work.count();
    state = {0, 1, rows, (rows + kRows - 1) / kRows};
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full + 8 * i, 1);
      barrier_init(empty + 8 * i, halves * 4);
    }
    for (int g = 0; g < graphs; ++g) {
      barrier_init(y_full + 8 * g, 1);
      barrier_init(y_dead + 8 * g, halves * 8);
    }
    barriers_are_made();
  }
  for (int i = int(threadIdx.x); i < kSharedBytes / 4; i += int(blockDim.x))
    reinterpret_cast<uint32_t*>(memory + kCommonAt)[i] =
        reinterpret_cast<const uint32_t*>(packed + shared_at(graphs))[i];
  stores_before_products();
  __syncthreads();
  const auto feed = [&](int g, int tile) {
    barrier_expect(y_full + 8 * g, kYBytes);
    copy_tile_part(base + kTilesAt + g * kYBytes, &map, tile * kRows, g, y_full + 8 * g);
  };
  const auto fetch = [&](int stage, int pair) {
    bulk_copy(base + stage * kStageBytes, packed + size_t(pair) * kPairBytes, kForwardBytes,
              full + 8 * stage);
  };
  if (threadIdx.x == 0) {
    for (int g = 0; g < graphs; ++g) feed(g, int(blockIdx.x));
    fetch(0, 0);
    fetch(2, 1);
  }
  const int warpgroup = __shfl_sync(~0u, me.warpgroup, 0), team = warpgroup & 1,
            half = warpgroup >> 1;
  const uint32_t y_low = descriptor_low(base + kTilesAt) + half * (kTileBytes / 16),
                 stage_low = descriptor_low(base);
  const uint32_t w = common + kScoreAt + me.t * 8;
  const int joined = 1 + 2 * half, taken = 2 + 2 * half;  // meetings of the two teams of a half
  if (team == 0) meeting_arrive(taken, 2 * kWarpgroup);
  const bool fetches = int(threadIdx.x) == team * kWarpgroup;
  const auto tile_of = [&](int round) { return int(blockIdx.x) + round * int(gridDim.x); };
  int n = 0;  // pairs that the team has taken
  for (int round = 0; tile_of(round) < state.tiles; ++round) {
    const auto row_of = [&] { return tile_of(round) * kRows + half * kTileRows + me.row; };
    Softmax softmax;
    float pre[16];
    int seen = 0;  // bit g: y_g is known to be there
    // Feeds what can be fed; waits where the next pair but one of this thread's needs it.
    const auto feed_on = [&](int pair) {
      while (state.round <= round + 1) {
        const int g = state.graph, next = tile_of(state.round);
        if (next >= state.tiles) break;
        const uint32_t dead = y_dead + 8 * g, parity = (state.round - 1) & 1;
        if (state.round == round && (pair >= 4 || g <= pair + 2))
          barrier_wait(dead, parity);
        else if (!barrier_done(dead, parity))
          break;
        feed(g, next);
        state.graph = g + 1 < graphs ? g + 1 : 0;
        if (g + 1 == graphs) ++state.round;
      }
    };
    const auto start_hidden = [&](int n, int i, int j) {  // pre = U [y_i, y_j] + b, not waited for
      const int stage = 2 * team + (n & 1);
      barrier_wait(full + 8 * stage, (n >> 1) & 1);
      if (!(seen >> i & 1)) barrier_wait(y_full + 8 * i, round & 1);
      if (!(seen >> j & 1)) barrier_wait(y_full + 8 * j, round & 1);
      seen |= 1 << i | 1 << j;
      load_bias(pre, base + stage * kStageBytes + kHiddenBiasAt + me.t * 16);
      const uint32_t u = stage_low + stage * (kStageBytes / 16), yi = y_low + i * (kYBytes / 16),
                     yj = y_low + j * (kYBytes / 16);
      products_begin();
#pragma unroll
      for (int k = 0; k < 4; ++k)
        multiply_tiles(pre, descriptor(yi + 2 * k), descriptor(u + 2 * k));
#pragma unroll
      for (int k = 0; k < 4; ++k)
        multiply_tiles(pre, descriptor(yj + 2 * k), descriptor(u + kHalfBytes / 16 + 2 * k));
      products_commit();
    };
    if (threadIdx.x == kFeeder) feed_on(-2);
    __syncwarp();
    int i = 0, j = team, pair = team;
    start_hidden(n, i, j);
    products_wait_all(pre);
    while (true) {
      const int stage = 2 * team + (n & 1);
      const uint32_t low = stage_low + stage * (kStageBytes / 16);
      float a[16], h[16];
      uint32_t b[8];
#pragma unroll
      for (int e = 0; e < 16; ++e) h[e] = gelu<kScoreDegree>(pre[e]);
#pragma unroll
      for (int e = 0; e < 8; ++e) b[e] = bf16_pair(h[2 * e], h[2 * e + 1]);
      load_bias(a, base + stage * kStageBytes + kFoldBiasAt + me.t * 16);
      products_begin();
      multiply<0>(a, b, descriptor64(low + kFoldAt / 16));
      multiply<0>(a, b + 4, descriptor64(low + kFoldAt / 16 + 2));
      products_commit();
      if (fetches && (pair + 2 < pairs || tile_of(round + 1) < state.tiles)) {
        // The next pair's weights, into the stage that the pair before has used.
        if (n > 0) barrier_wait(empty + 8 * (stage ^ 1), ((n - 1) >> 1) & 1);
        fetch(stage ^ 1, pair + 2 < pairs ? pair + 2 : team);
      }
      if (threadIdx.x == kFeeder) feed_on(pair);
      __syncwarp();
      products_wait_all(a);
      TwoRows p = softmax.add(score_of(a, w));
      uint32_t p0 = bf16_pair(p.upper, p.upper), p1 = bf16_pair(p.lower, p.lower);
      if (me.t != 0) p0 = p1 = 0;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        b[2 * e] = bf16_pair(p.upper * h[4 * e], p.upper * h[4 * e + 1]);
        b[2 * e + 1] = bf16_pair(p.lower * h[4 * e + 2], p.lower * h[4 * e + 3]);
      }
      const uint32_t weights[4] = {p0, p1, 0, 0};
      products_begin();
      multiply<1>(softmax.sum, b, descriptor(low + kOutAt / 16), 1);
      multiply<1>(softmax.sum, b + 4, descriptor(low + kOutAt / 16 + 128), 1);
      multiply<1>(softmax.sum, weights, descriptor(low + kOutAt / 16 + 256), 1);
      products_commit();
      const bool more = pair + 2 < pairs;
      int next_i = i, next_j = j + 2;
      while (next_j >= graphs && next_i < graphs) next_j += ++next_i - graphs;
      if (!more) next_i = graphs;
      if (team == 1 && i == 0 && next_i > 0) {  // the mean's option, while all y are there
        products_wait(softmax.sum);
        uint32_t mean[16];
        for (int g = 0; g < graphs; ++g) barrier_wait(y_full + 8 * g, round & 1);
        const float share = 1.0f / float(graphs);
        const int row = row_of();
#pragma unroll
        for (int below = 0; below < 2; ++below)
#pragma unroll
          for (int side = 0; side < 2; ++side) {
            const uint32_t at = base + kTilesAt + half * kTileBytes + row_place(me, below, side);
            float c[8] = {};
#pragma unroll 1
            for (int g = 0; g < graphs; ++g) {
              const float4 v = load_shared4(at + g * kYBytes);
              const uint32_t four[4] = {__float_as_uint(v.x), __float_as_uint(v.y),
                                        __float_as_uint(v.z), __float_as_uint(v.w)};
#pragma unroll
              for (int e = 0; e < 4; ++e) {
                c[2 * e] += low_of(four[e]);
                c[2 * e + 1] += high_of(four[e]);
              }
            }
#pragma unroll
            for (int e = 0; e < 4; ++e)
              mean[8 * side + below + 2 * e] = bf16_pair(c[2 * e] * share, c[2 * e + 1] * share);
            const uint32_t* m = mean + 8 * side + below;
            if (to.keep.mean && row + 8 * below < state.rows)
              *reinterpret_cast<uint4*>(to.keep.mean + size_t(row + 8 * below) * kWidth +
                                        32 * side + 8 * me.t) = make_uint4(m[0], m[2], m[4], m[6]);
          }
        load_bias(a, common + kScorerBiasAt + me.t * 16);
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; ++k)
          multiply<0>(a, mean + 4 * k, descriptor(descriptor_low(common + kScorerAt) + 2 * k));
        products_commit();
        products_wait_all(a);
        p = softmax.add(score_of(a, w));
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          float* s = softmax.sum + 4 * e;
          s[0] = fmaf(p.upper, low_of(mean[2 * e]), s[0]);
          s[1] = fmaf(p.upper, high_of(mean[2 * e]), s[1]);
          s[2] = fmaf(p.lower, low_of(mean[2 * e + 1]), s[2]);
          s[3] = fmaf(p.lower, high_of(mean[2 * e + 1]), s[3]);
        }
      }
      if (next_i > i) {
        __syncwarp();
        if (me.lane == 0)
          for (int g = i; g < next_i; ++g) barrier_arrive(y_dead + 8 * g);
      }
      if (more) start_hidden(n + 1, next_i, next_j);
      products_wait_all(softmax.sum, pre);
      if (me.lane == 0) barrier_arrive(empty + 8 * stage);
      ++n;
      if (!more) break;
      i = next_i, j = next_j, pair += 2;
    }
    // Team 1 hands its sums over, a quarter at a time; team 0 joins them to its own and writes.
    float* z = softmax.sum;
    const uint32_t join = base + kJoinAt + half * kJoinBytes + (threadIdx.x % kWarpgroup) * 16,
                   totals = base + kTotalsAt + half * kTotalsBytes + me.row * 8;
    if (team == 1) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        meet(taken, 2 * kWarpgroup);
        if (k == 0 && me.t == 0) {
          store_shared2(totals, softmax.most.upper, softmax.total.upper);
          store_shared2(totals + 64, softmax.most.lower, softmax.total.lower);
        }
        const float* c = z + 8 * k;
        store_shared4(join, c[0], c[1], c[2], c[3]);
        store_shared4(join + 2048, c[4], c[5], c[6], c[7]);
        meeting_arrive(joined, 2 * kWarpgroup);
      }
      continue;
    }
    TwoRows mine = {0, 0}, theirs = {0, 0}, most = softmax.most, total = softmax.total;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      meet(joined, 2 * kWarpgroup);
      if (k == 0) {
        const float2 upper = load_shared2(totals), lower = load_shared2(totals + 64);
        const TwoRows both = {fmaxf(most.upper, upper.x), fmaxf(most.lower, lower.x)};
        mine = {exp2_fast(most.upper - both.upper), exp2_fast(most.lower - both.lower)};
        theirs = {exp2_fast(upper.x - both.upper), exp2_fast(lower.x - both.lower)};
        most = both;
        total = {total.upper * mine.upper + upper.y * theirs.upper,
                 total.lower * mine.lower + lower.y * theirs.lower};
        const TwoRows share = {1 / total.upper, 1 / total.lower};
        mine = {mine.upper * share.upper, mine.lower * share.lower};
        theirs = {theirs.upper * share.upper, theirs.lower * share.lower};
      }
      const float4 u = load_shared4(join), v = load_shared4(join + 2048);
      meeting_arrive(taken, 2 * kWarpgroup);
      float* c = z + 8 * k;
      c[0] = c[0] * mine.upper + u.x * theirs.upper, c[1] = c[1] * mine.upper + u.y * theirs.upper;
      c[2] = c[2] * mine.lower + u.z * theirs.lower, c[3] = c[3] * mine.lower + u.w * theirs.lower;
      c[4] = c[4] * mine.upper + v.x * theirs.upper, c[5] = c[5] * mine.upper + v.y * theirs.upper;
      c[6] = c[6] * mine.lower + v.z * theirs.lower, c[7] = c[7] * mine.lower + v.w * theirs.lower;
    }
    const int rows = state.rows, row = row_of();
    if (to.keep.sum) store_rows(softmax.sum, to.keep.sum, row, rows, me.t);
    if (to.keep.log_sum && me.t == 0) {
      if (row < rows) to.keep.log_sum[row] = most.upper + log2f(total.upper);
      if (row + 8 < rows) to.keep.log_sum[row + 8] = most.lower + log2f(total.lower);
    }
    if (normed) {
      const TwoRows scale = centre_rows(softmax.sum, kNormEps);
      const uint32_t norm = common + kNormAt + me.t * 8;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const float2 weight = load_shared2(norm + k * 32),
                     bias = load_shared2(norm + kWidth * 4 + k * 32);
        z[4 * k] = fmaf(z[4 * k] * scale.upper, weight.x, bias.x);
        z[4 * k + 1] = fmaf(z[4 * k + 1] * scale.upper, weight.y, bias.y);
        z[4 * k + 2] = fmaf(z[4 * k + 2] * scale.lower, weight.x, bias.x);
        z[4 * k + 3] = fmaf(z[4 * k + 3] * scale.lower, weight.y, bias.y);
      }
    }
    store_rows(softmax.sum, to.x, row, rows, me.t);
  }
}

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
// Asked of the runtime, so that nothing links with the driver.
EncodeTiled encode_tiled() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found),
        "cuTensorMapEncodeTiled");
#else
  check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found),
        "cuTensorMapEncodeTiled");
#endif
  if (found != cudaDriverEntryPointSuccess)
    throw_error("the GPU's driver has no cuTensorMapEncodeTiled; it must be one for CUDA 12");
  return reinterpret_cast<EncodeTiled>(function);
}

}  // namespace

CUtensorMap tile_map(const BFloat16* y, const FusedPairwiseShape& shape, int tile_rows) {
  static const EncodeTiled encode = encode_tiled();
  CUtensorMap map;
  const auto rows = cuuint64_t(shape.rows);
  const cuuint64_t sizes[] = {kWidth, rows, cuuint64_t(shape.graphs)},
                   strides[] = {kWidth * 2, rows * kWidth * 2};
  const cuuint32_t box[] = {kWidth, cuuint32_t(tile_rows), 1}, steps[] = {1, 1, 1};
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<BFloat16*>(y), sizes, strides,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw_error("fused_pairwise: y must be aligned to 16 bytes (cuTensorMapEncodeTiled fails)");
  return map;
}

void pairwise_pack(const FusedPairwiseShape& shape,
                   const FusedPairwiseParameters<const float>& parameters, void* packed,
                   CudaStream stream) {
  const int graphs = int(shape.graphs);
  pack_kernel<<<uint32_t(pairs_of(graphs) + 1), 512, 0, static_cast<cudaStream_t>(stream)>>>(
      parameters, graphs, shape.normed, static_cast<uint8_t*>(packed));
  check_launch("fused_pairwise_pack");
}

void pairwise_forward(const FusedPairwiseShape& shape, const void* packed, const BFloat16* y,
                      BFloat16* x, const FusedPairwiseRows<BFloat16, float>& keep,
                      CudaStream stream) {
  const auto launch = [&](auto* kernel, int halves) {
    const int shared = kTilesAt + int(shape.graphs) * halves * kTileBytes;
    allow_shared(kernel, shared);
    kernel<<<uint32_t(multiprocessors()), uint32_t(halves * 2 * kWarpgroup), size_t(shared),
             static_cast<cudaStream_t>(stream)>>>(
        tile_map(y, shape, halves * kTileRows), static_cast<const uint8_t*>(packed),
        ForwardTo{x, keep}, Rows{int(shape.rows), shape.used}, int(shape.graphs), shape.normed);
  };
  if (shape.graphs <= kWidest)
    launch(forward_kernel<2>, 2);
  else
    launch(forward_kernel<1>, 1);
  check_launch("fused_pairwise");
}

}  // namespace lacuna::wgmma
