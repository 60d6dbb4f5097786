// The backward pass; see fused_mlp_mma.cuh.
//
// Waiting: __syncthreads() and a thread's own copies only. Every thread of a block goes through the
// same steps, whether it has rows or not (rows past the end are computed and not stored).
#include "lacuna/ops/cuda/cuda_device.cuh"
#include "lacuna/ops/dense/fused_mlp_mma.cuh"
#include "lacuna/ops/dense/fused_work.cuh"
#include "lacuna/ops/dense/mma_stages.cuh"

namespace lacuna::mma {
namespace {

// Shared memory: the stages of weights, then the slopes of GELU (each thread its own; where they do
// not fit, in the workspace), and in the same place the tiles that gradients of weights come from.
template <int kWidth, int kLinearsAStage, int kStages, bool kSlopesShared_, int kSumStages_>
struct BackwardPlan : Plan<kWidth, kLinearsAStage, kStages> {
  using Base = Plan<kWidth, kLinearsAStage, kStages>;
  static constexpr bool kSlopesShared = kSlopesShared_;
  static constexpr int kSlopeUnits = kWidth / 16;  // of 16 bytes, a thread and Linear
  static constexpr int kSlopeBytes = (kMlpLinears - 1) * kSlopeUnits * 16 * Base::kThreads;
  // Gradients of weights: steps of kSumRows rows, through kSumStages stages. kLinearsAtOnce Linears
  // are summed in one pass, each by kWarpsALinear warps, in kWarpsDown x kWarpsAcross parts.
  static constexpr int kSumStages = kSumStages_, kSumRows = kWidth == 32 ? 64 : 32;
  static constexpr int kLinearsAtOnce = kWidth == 128 ? 1 : kMlpLinears;
  static constexpr int kWarpsALinear = Base::kWarps / kLinearsAtOnce, kWarpsAcross = 2,
                       kWarpsDown = kWarpsALinear / kWarpsAcross;
  static constexpr int kIn = kWidth / kWarpsDown, kOut = kWidth / kWarpsAcross;  // of a warp
  static constexpr int kSumTileBytes = kSumRows * 2 * kWidth,
                       kSumStageBytes = 2 * kLinearsAtOnce * kSumTileBytes;
  static constexpr int kSharedBytes =
      Base::kWeightBytes + (kSlopesShared && kSlopeBytes > kSumStages * kSumStageBytes
                                ? kSlopeBytes
                                : kSumStages * kSumStageBytes);
  static_assert(kSumStages >= 2 && Base::kTileRows % kSumRows == 0,
                "a tile must be whole steps, and the next one is fetched during each");
  static_assert(kIn % 16 == 0 && kOut % 16 == 0, "a warp needs 16 x 16 of a gradient or more");

  // The workspace of a block: a_1 .. a_3 and dz_1 .. dz_4 of a phase, [7, rows, H], then slopes.
  static constexpr int kTensors = 2 * kMlpLinears - 1;
  static constexpr int64_t kTileBytes = int64_t(kTensors) * Base::kTileRows * 2 * kWidth;
  __host__ __device__ static constexpr int64_t area_bytes(int tiles) {
    return tiles * kTileBytes + (kSlopesShared ? 0 : kSlopeBytes);
  }

  struct Slot : MlpSlot<kWidth, Base::kWarps> {
    using Layout = MlpSlot<kWidth, Base::kWarps>;
    static __device__ float* place(const FusedMlpParameters<float>& to, size_t g, int i) {
      constexpr int kSquare = kWidth * kWidth;
      if (i < Layout::kBiasesAt) return to.weight[i / kSquare] + g * kSquare + i % kSquare;
      const int k = i % kWidth;
      if (i < Layout::kNormsAt) return to.bias[(i - Layout::kBiasesAt) / kWidth] + g * kWidth + k;
      return (i < Layout::kNormsAt + kWidth ? to.norm_weight : to.norm_bias) + g * kWidth +
             memory_column(k);
    }
  };
};

// A block's part of the workspace.
struct Area {
  BFloat16* base;
  size_t tensor;  // elements of one

  __device__ BFloat16* a(int l) const { return base + (l - 1) * tensor; }                 // 1 .. 3
  __device__ BFloat16* dz(int l) const { return base + (kMlpLinears - 2 + l) * tensor; }  // 1 .. 4
};

// The inverse of load_rows().
template <int kPairs>
__device__ __forceinline__ void store_pairs(const uint32_t (&a)[kPairs], BFloat16* p0,
                                            BFloat16* p1) {
#pragma unroll
  for (int i = 0; i < kPairs; i += 8) {
    *reinterpret_cast<uint4*>(p0 + 4 * i) = make_uint4(a[i], a[i + 2], a[i + 4], a[i + 6]);
    *reinterpret_cast<uint4*>(p1 + 4 * i) = make_uint4(a[i + 1], a[i + 3], a[i + 5], a[i + 7]);
  }
}

// 16 rows of a warp, all the way forward and back.
template <class Plan>
struct RowPass {
  static constexpr int kWidth = Plan::kWidth, kSums = kWidth / 2, kPairs = kWidth / 4;
  // Width 128 with all Linears written out is 229 KB of instructions, more than a multiprocessor
  // keeps at hand: every tile would fetch them again, and wait.
  static constexpr int kUnrolled = kWidth == 128 ? 1 : kMlpLinears;
  const Place<Plan>& me;
  Stages<Plan>& stages;
  const Area& area;
  uint4* slopes;  // this thread's first unit; the next is kThreads further on

  __device__ __forceinline__ Packed<kWidth> weights(int graph, int l, int next_l) const {
    const auto part = [&](int linear) {
      return graph * Plan::kParts + linear / Plan::kLinearsAStage;
    };
    const uint32_t at = stages.enter(part(l), part(next_l));
    return {at + uint32_t(l % Plan::kLinearsAStage * Packing<kWidth>::kLinearBytes), me.t};
  }
  __device__ __forceinline__ uint4& slope(int l, int unit) const {
    return slopes[((l - 1) * Plan::kSlopeUnits + unit) * Plan::kThreads];
  }
  __device__ __forceinline__ void keep(const uint32_t (&a)[kPairs], BFloat16* to, int row) const {
    BFloat16* p = to + size_t(row) * kWidth + 8 * me.t;
    store_pairs(a, p, p + 8 * kWidth);
  }

  // a: rows of u -> d: z_4, with a_l and slopes kept. row: in the phase.
  __device__ __forceinline__ void forward(float (&d)[kSums], uint32_t (&a)[kPairs], int graph,
                                          int row) const {
#pragma unroll kUnrolled
    for (int l = 1; l <= kMlpLinears; ++l) {
      biased_linear<kWidth>(d, a, weights(graph, l - 1, min(l, kMlpLinears - 1)), me.lane);
      if (l == kMlpLinears) break;
#pragma unroll
      for (int unit = 0; unit < Plan::kSlopeUnits; ++unit) {
        uint32_t s[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = 4 * unit + i;
          const ValueAndSlope v0 = gelu_with_slope(d[2 * at]), v1 = gelu_with_slope(d[2 * at + 1]);
          a[at] = bf16_pair(v0.value, v1.value);
          s[i] = bf16_pair(v0.slope, v1.slope);
        }
        slope(l, unit) = make_uint4(s[0], s[1], s[2], s[3]);
      }
      keep(a, area.a(l), row);
    }
  }

  // a: dz_4 -> d: grad_u, with dz_4 .. dz_1 kept.
  __device__ __forceinline__ void back(float (&d)[kSums], uint32_t (&a)[kPairs], int graph,
                                       int row) const {
#pragma unroll kUnrolled
    for (int l = kMlpLinears; l >= 1; --l) {
      keep(a, area.dz(l), row);
#pragma unroll
      for (int i = 0; i < kSums; ++i) d[i] = 0;
      linear_back<kWidth>(d, a, weights(graph, l - 1, max(l - 2, 0)).tile, me.lane);
      if (l == 1) break;
#pragma unroll
      for (int unit = 0; unit < Plan::kSlopeUnits; ++unit) {
        const uint4 v = slope(l - 1, unit);
        const uint32_t s[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = 4 * unit + i;
          a[at] = bf16_pair(d[2 * at] * low_of(s[i]), d[2 * at + 1] * high_of(s[i]));
        }
      }
    }
  }
};

// The second half of a phase: dW_l += a_(l-1)^T dz_l and db_l += the sum of dz_l, in the slot.
template <class Plan>
struct WeightSums {
  static constexpr int kWidth = Plan::kWidth;
  uint32_t base;  // of the stages
  const Area& area;
  const BFloat16* u;  // the phase's first row, column 0
  int rows;           // rows of u from there on; what lies behind counts as 0
  float* slot;
  bool adds;  // else the slot is new

  __device__ __forceinline__ void fetch(int thread, int pass, int step) const {
    constexpr int kPiecesARow = kWidth / 8, kPiecesATile = kPiecesARow * Plan::kSumRows;
    constexpr int kPieces = 2 * Plan::kLinearsAtOnce * kPiecesATile;
    static_assert(kPieces % Plan::kThreads == 0, "every thread copies the same number of pieces");
    const uint32_t to = base + uint32_t(step % Plan::kSumStages * Plan::kSumStageBytes);
#pragma unroll
    for (int k = 0; k < kPieces / Plan::kThreads; ++k) {
      const int i = k * Plan::kThreads + thread;
      const int piece = i % kPiecesARow, row = i / kPiecesARow % Plan::kSumRows,
                tensor = i / kPiecesATile, l = pass * Plan::kLinearsAtOnce + tensor / 2;
      const int at = step * Plan::kSumRows + row;
      const bool is_u = tensor % 2 == 0 && l == 0, is_there = !is_u || at < rows;
      const BFloat16* from = is_u ? u : tensor % 2 == 0 ? area.a(l) : area.dz(l + 1);
      copy_16_or_zero(
          to + uint32_t(tensor * Plan::kSumTileBytes) + place_in_tile<kWidth>(row, piece),
          from + (is_there ? size_t(at) * kWidth : 0) + piece * 8, is_there);
    }
  }

  // steps: of kSumRows rows.
  __device__ __forceinline__ void run(int steps) const {
    // Opaque: else what follows from it is computed before all phases, and kept in memory.
    const int thread = int(opaque(threadIdx.x)), warp = thread / 32, lane = thread % 32;
    const int linear = warp / Plan::kWarpsALinear, part = warp % Plan::kWarpsALinear;
    const int in_at = part / Plan::kWarpsAcross * Plan::kIn,
              out_at = part % Plan::kWarpsAcross * Plan::kOut;
#pragma unroll 1
    for (int pass = 0; pass < kMlpLinears / Plan::kLinearsAtOnce; ++pass) {
      const int l = pass * Plan::kLinearsAtOnce + linear;
#pragma unroll
      for (int s = 0; s < Plan::kSumStages - 1; ++s) {
        if (s < steps) fetch(thread, pass, s);
        copies_commit();
      }
      float sums[Plan::kIn / 16][Plan::kOut / 8][4], bias[Plan::kOut / 8][4];
      exchange(sums, bias, l, in_at, out_at, lane, /*loads=*/true);
#pragma unroll 1
      for (int s = 0; s < steps; ++s) {
        copies_wait<Plan::kSumStages - 2>();
        __syncthreads();  // everybody's copies are there, and the stage before is free
        if (s + Plan::kSumStages - 1 < steps) fetch(thread, pass, s + Plan::kSumStages - 1);
        copies_commit();
        const uint32_t tiles = base + uint32_t(s % Plan::kSumStages * Plan::kSumStageBytes +
                                               2 * linear * Plan::kSumTileBytes);
        multiply_columns<kWidth, Plan::kSumRows, Plan::kIn, Plan::kOut>(
            sums, bias, in_at == 0, tiles, in_at, tiles + Plan::kSumTileBytes, out_at, lane);
      }
      exchange(sums, bias, l, in_at, out_at, lane, /*loads=*/false);
      __syncthreads();  // the stages are free for the next pass, and the workspace for new rows
    }
  }

  // This thread's sums from or to the slot.
  template <int kDown, int kAcross>
  __device__ __forceinline__ void exchange(float (&sums)[kDown][kAcross][4],
                                           float (&bias)[kAcross][4], int l, int in_at, int out_at,
                                           int lane, bool loads) const {
    const int column = out_at + 2 * (lane % 4);
    const auto move = [&](float* place, float* v) {
      auto* pair = reinterpret_cast<float2*>(place);
      if (!loads) {
        *pair = make_float2(v[0], v[1]);
      } else {
        const float2 old = adds ? *pair : make_float2(0, 0);
        v[0] = old.x, v[1] = old.y;
      }
    };
#pragma unroll
    for (int n = 0; n < kAcross; ++n) {
#pragma unroll
      for (int m = 0; m < kDown; ++m)
#pragma unroll
        for (int below = 0; below < 2; ++below)
          move(
              slot + (l * kWidth + in_at + 16 * m + 8 * below + lane / 4) * kWidth + column + 8 * n,
              sums[m][n] + 2 * below);
      if (loads) bias[n][2] = bias[n][3] = 0;
      // All rows of `bias` are the same: lanes of the first store it, all load it.
      if (in_at == 0 && (loads || lane < 4))
        move(slot + Plan::Slot::kBiasesAt + l * kWidth + column + 8 * n, bias[n]);
    }
  }
};

template <class Plan>
__global__ void __launch_bounds__(Plan::kThreads, 1)
    backward_kernel(const uint8_t* __restrict__ packed, const BFloat16* __restrict__ u,
                    const BFloat16* __restrict__ grad_y, size_t grad_step, float share,
                    BFloat16* __restrict__ grad_u, float* slots, uint8_t* areas, int phase_tiles,
                    TileWork<Plan::kTileRows> work) {
  constexpr int kWidth = Plan::kWidth, kTileRows = Plan::kTileRows;
  extern __shared__ __align__(1024) uint8_t memory[];
  const Place<Plan> me;
  Stages<Plan> stages(shared_address(memory), packed);
  uint8_t* mine = areas + blockIdx.x * Plan::area_bytes(phase_tiles);
  const Area area = {reinterpret_cast<BFloat16*>(mine), size_t(phase_tiles) * kTileRows * kWidth};
  uint8_t* slopes =
      Plan::kSlopesShared ? memory + Plan::kWeightBytes : mine + phase_tiles * Plan::kTileBytes;
  const RowPass<Plan> pass = {me, stages, area, reinterpret_cast<uint4*>(slopes) + threadIdx.x};
  const int end = work.begin_of(int(blockIdx.x) + 1, int(gridDim.x));
  Piece piece(work.begin_of(int(blockIdx.x), int(gridDim.x)));
  while (piece.advance(work, end)) {
    const int rows = work.rows_of(piece.graph);
    const size_t offset = size_t(piece.graph) * work.rows * kWidth;
    float* slot = slots + size_t(blockIdx.x + piece.graph) * Plan::Slot::kFloats;
    NormSums<kWidth> norm;
    const auto load = [&](uint32_t(&to)[kWidth / 4], const BFloat16* p, int row) {
      load_rows(to, p + size_t(min(row, rows - 1)) * kWidth + 8 * me.t,
                p + size_t(min(row + 8, rows - 1)) * kWidth + 8 * me.t);
    };
    uint32_t ahead[kWidth / 4];
    load(ahead, u + offset, piece.tile * kTileRows + me.row);
    for (int done = 0; done < piece.count; done += phase_tiles) {
      const int tiles = min(phase_tiles, piece.count - done);
      const int phase_row = (piece.tile + done) * kTileRows;
      for (int i = 0; i < tiles; ++i) {
        const int row = phase_row + i * kTileRows + me.row;
        uint32_t a[kWidth / 4], dy[kWidth / 4];
        float d[kWidth / 2];
#pragma unroll
        for (int k = 0; k < kWidth / 4; ++k) a[k] = ahead[k];
        load(dy, grad_y + piece.graph * grad_step, row);
        pass.forward(d, a, piece.graph, i * kTileRows + me.row);
        if (row + 8 >= rows)  // past the end: no gradient comes from there
#pragma unroll
          for (int k = 0; k < kWidth / 4; ++k)
            if ((k & 1) || row >= rows) dy[k] = 0;
        norm_back(d, dy, a, pass.weights(piece.graph, kMlpLinears - 1, kMlpLinears - 1), share,
                  me.lane, norm);
        load(ahead, u + offset, row + kTileRows);
        pass.back(d, a, piece.graph, i * kTileRows + me.row);
        store_rows(d, grad_u + offset, row, rows, me.t);
      }
      __syncthreads();  // the workspace is written, the slopes are used up
      const WeightSums<Plan> sums = {shared_address(memory) + Plan::kWeightBytes,
                                     area,
                                     u + offset + size_t(phase_row) * kWidth,
                                     rows - phase_row,
                                     slot,
                                     done > 0};
      sums.run(tiles * kTileRows / Plan::kSumRows);
    }
    norm.store(slot + Plan::Slot::kNormsAt + me.warp * Plan::Slot::kNorms, me.lane);
  }
}

// ---- which sizes on this device
template <class Plan>
constexpr bool fits_always = Plan::kSharedBytes <= kLeastShared;

// Backward plans, the smallest and the larger one of each width.
using Small32 = BackwardPlan<32, 4, 1, true, 2>;
using Small64 = BackwardPlan<64, 4, 1, false, 2>;
using Large64 = BackwardPlan<64, 4, 1, true, 3>;
using Small128 = BackwardPlan<128, 1, 2, false, 2>;
using Large128 = BackwardPlan<128, 1, 2, true, 6>;
static_assert(fits_always<Small32> && fits_always<Small64> && fits_always<Small128>,
              "99 KB is what the smallest GPUs have: take fewer stages, or slopes elsewhere");
static_assert(Large64::kSharedBytes <= 163 * 1024 && Large128::kSharedBytes <= 163 * 1024,
              "163 KB is what compute capability 8.0 has: take fewer stages");

template <class Use>
void with_backward_plan(int64_t width, int shared, const Use& use) {
  if (width == 32) return use(Small32());
  if (width == 64) return shared >= Large64::kSharedBytes ? use(Large64()) : use(Small64());
  return shared >= Large128::kSharedBytes ? use(Large128()) : use(Small128());
}
// Tiles of a phase. The workspace of all blocks should leave some of the L2 cache to u and others;
// but a phase also reads and writes all sums of the block (4 H H floats each way): from width 64 on
// that costs more than a workspace beyond the cache.
template <class Plan>
int phase_tiles(int blocks) {
  constexpr int kMostTiles = 4, kLeastTiles = Plan::kWidth == 32 ? 1 : kMostTiles;
  const int64_t cache = device_attribute(cudaDevAttrL2CacheSize);
  const int64_t tiles = cache * 6 / 10 / (blocks * Plan::kTileBytes);
  return int(tiles < kLeastTiles ? kLeastTiles : tiles > kMostTiles ? kMostTiles : tiles);
}
template <class Plan>
uint64_t slots_bytes(const FusedMlpShape& shape, int blocks) {
  return uint64_t(blocks + shape.graphs) * Plan::Slot::kFloats * sizeof(float);
}

}  // namespace

uint64_t backward_workspace(const FusedMlpShape& shape, int shared) {
  const int blocks = multiprocessors();
  uint64_t bytes = 0;
  with_backward_plan(shape.width, shared, [&](auto plan) {
    using Plan = decltype(plan);
    bytes = slots_bytes<Plan>(shape, blocks) +
            uint64_t(blocks * Plan::area_bytes(phase_tiles<Plan>(blocks)));
  });
  return bytes;
}

void backward(const FusedMlpShape& shape, int shared, const void* packed, const BFloat16* u,
              const BFloat16* grad_y, BFloat16* grad_u, const FusedMlpParameters<float>& gradients,
              void* workspace, CudaStream stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  const int blocks = multiprocessors();
  const size_t grad_step = shape.merged ? 0 : size_t(shape.rows * shape.width);
  with_backward_plan(shape.width, shared, [&](auto plan) {
    using Plan = decltype(plan);
    const auto work = TileWork<Plan::kTileRows>::of(shape);
    auto* slots = static_cast<float*>(workspace);
    auto* areas = static_cast<uint8_t*>(workspace) + slots_bytes<Plan>(shape, blocks);
    auto* kernel = backward_kernel<Plan>;
    allow_shared(kernel, Plan::kSharedBytes);
    kernel<<<uint32_t(blocks), Plan::kThreads, Plan::kSharedBytes, stream>>>(
        static_cast<const uint8_t*>(packed), u, grad_y, grad_step, shape.share, grad_u, slots,
        areas, phase_tiles<Plan>(blocks), work);
    sum_slots<typename Plan::Slot>(slots, work, blocks, int(shape.graphs), gradients, stream);
  });
  check_launch("fused_mlp_backward");
}

}  // namespace lacuna::mma
