// Packing and the forward pass; see fused_mlp_mma.cuh.
//
// Waiting: __syncthreads() and a thread's own copies only. Every thread of a block goes through the
// same steps, whether it has rows or not (rows past the end are computed and not stored).
#include "lacuna/ops/cuda/cuda_device.cuh"
#include "lacuna/ops/dense/fused_mlp_mma.cuh"
#include "lacuna/ops/dense/fused_work.cuh"
#include "lacuna/ops/dense/mma_stages.cuh"

namespace lacuna::mma {
namespace {

template <int kWidth>
__global__ void pack_kernel(FusedMlpParameters<const float> from, uint8_t* packed) {
  using Packing = Packing<kWidth>;
  const int l = int(blockIdx.y);
  const size_t g = blockIdx.x, first = g * kWidth;
  uint8_t* out = packed + g * Packing::kGraphBytes + size_t(l) * Packing::kLinearBytes;
  for (int i = int(threadIdx.x); i < kWidth * kWidth; i += int(blockDim.x)) {
    const int k = i / kWidth, n = i % kWidth;  // row k of a tile: an output's weights
    const float w = from.weight[l][(first + size_t(memory_column(n))) * kWidth + memory_column(k)];
    *reinterpret_cast<__nv_bfloat16*>(out + place_in_tile<kWidth>(k, n >> 3) + (n & 7) * 2) =
        __float2bfloat16_rn(w);
  }
  for (int n = int(threadIdx.x); n < kWidth; n += int(blockDim.x)) {
    const size_t column = first + size_t(memory_column(n));
    auto* norm = reinterpret_cast<float*>(out + Packing::kNormAt);
    reinterpret_cast<float*>(out + Packing::kBiasAt)[n] = from.bias[l][column];
    norm[n] = from.norm_weight[column];
    norm[kWidth + n] = from.norm_bias[column];
  }
}

// The tiles of a block, one after the other: with a merge every tile for all graphs in turn, else
// a run of the tiles of all graphs.
template <class Plan, bool kMerged>
struct Walk {
  using Work = TileWork<Plan::kTileRows>;
  const Work& work;
  int next, end;      // numbers of tiles
  int graph_end = 0;  // without a merge: the tile after the graph's last
  int graph, tile = 0, rows;

  __device__ explicit Walk(const Work& w)
      : work(w), graph(kMerged ? w.graphs - 1 : -1), rows(w.rows) {
    const int tiles = kMerged ? work.tiles_of(0) : work.tiles();
    next = int(int64_t(tiles) * blockIdx.x / gridDim.x);
    end = int(int64_t(tiles) * (blockIdx.x + 1) / gridDim.x);
  }
  __device__ __forceinline__ bool advance() {
    if (kMerged && graph + 1 < work.graphs) {
      ++graph;
      return true;
    }
    if (next >= end) return false;
    if constexpr (kMerged) {
      graph = 0;
      tile = next;
    } else {
      while (next >= graph_end) {
        rows = work.rows_of(++graph);
        graph_end += work.tiles_of(graph);
      }
      tile = next - (graph_end - work.tiles_of(graph));
    }
    ++next;
    return true;
  }
};

template <class Plan, bool kMerged>
__global__ void __launch_bounds__(Plan::kThreads, 1)
    forward_kernel(const uint8_t* __restrict__ packed, const BFloat16* __restrict__ u,
                   BFloat16* __restrict__ y, TileWork<Plan::kTileRows> work, float share) {
  constexpr int kWidth = Plan::kWidth;
  extern __shared__ __align__(1024) uint8_t memory[];
  const Place<Plan> me;
  Stages<Plan> stages(shared_address(memory), packed);
  Walk<Plan, kMerged> walk(work);
  uint32_t ahead[kWidth / 4], a[kWidth / 4];
  const auto load = [&] {  // past the end: the last row, never stored
    const BFloat16* from = u + size_t(walk.graph) * work.rows * kWidth + 8 * me.t;
    const int row = walk.tile * Plan::kTileRows + me.row;
    load_rows(ahead, from + size_t(min(row, walk.rows - 1)) * kWidth,
              from + size_t(min(row + 8, walk.rows - 1)) * kWidth);
  };
  bool more = walk.advance();
  if (!more) return;
  load();
  float sum[kWidth / 2] = {};
  while (more) {
    const int graph = walk.graph, row = walk.tile * Plan::kTileRows + me.row, rows = walk.rows;
#pragma unroll
    for (int i = 0; i < kWidth / 4; ++i) a[i] = ahead[i];
    more = walk.advance();
    if (more) load();
    float d[kWidth / 2];
    uint32_t at = 0;
#pragma unroll
    for (int l = 0; l < kMlpLinears; ++l) {
      if (l % Plan::kLinearsAStage == 0) {
        const int part = graph * Plan::kParts + l / Plan::kLinearsAStage;
        const bool is_last = l + Plan::kLinearsAStage >= kMlpLinears;
        at = stages.enter(part, !is_last ? part + 1 : more ? walk.graph * Plan::kParts : -1);
      }
      const Packed<kWidth> weights(
          at + uint32_t(l % Plan::kLinearsAStage * Packing<kWidth>::kLinearBytes), me.t);
      biased_linear<kWidth>(d, a, weights, me.lane);
      if (l < kMlpLinears - 1) {
#pragma unroll
        for (int i = 0; i < kWidth / 4; ++i) a[i] = gelu_pair(d[2 * i], d[2 * i + 1]);
      } else {
        norm_gelu_rows(d, weights);
      }
    }
    if constexpr (kMerged) {
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) sum[i] += d[i];
      if (graph + 1 == work.graphs) {
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i) sum[i] *= share;
        store_rows(sum, y, row, rows, me.t);
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i) sum[i] = 0;
      }
    } else {
      store_rows(d, y + size_t(graph) * work.rows * kWidth, row, rows, me.t);
    }
  }
}

// ---- which sizes on this device
template <class Use>
void with_width(int64_t width, const Use& use) {
  if (width == 32) use(std::integral_constant<int, 32>());
  if (width == 64) use(std::integral_constant<int, 64>());
  if (width == 128) use(std::integral_constant<int, 128>());
}
// Width 128 without a merge: a graph stays as long as it lasts, where it fits.
template <bool kMerged, class Use>
void with_forward_plan(int64_t width, int shared, const Use& use) {
  using Resident = Plan<128, 4, 1>;
  if (width == 32) return use(Plan<32, 4, 2>());
  if (width == 64) return use(Plan<64, 4, 2>());
  if constexpr (!kMerged)
    if (shared >= Resident::kWeightBytes) return use(Resident());
  use(Plan<128, 1, 2>());
}

template <bool kMerged>
void launch_forward(const FusedMlpShape& shape, int shared, const uint8_t* packed,
                    const BFloat16* u, BFloat16* y, cudaStream_t stream) {
  with_forward_plan<kMerged>(shape.width, shared, [&](auto plan) {
    using Plan = decltype(plan);
    auto* kernel = forward_kernel<Plan, kMerged>;
    allow_shared(kernel, Plan::kWeightBytes);
    kernel<<<uint32_t(multiprocessors()), Plan::kThreads, Plan::kWeightBytes, stream>>>(
        packed, u, y, TileWork<Plan::kTileRows>::of(shape), shape.share);
  });
}

}  // namespace

bool fits(int64_t width, int shared) {
  return (width == 32 || width == 64 || width == 128) && shared >= kLeastShared;
}

uint64_t packed_bytes(const FusedMlpShape& shape) {
  uint64_t bytes = 0;
  with_width(shape.width, [&](auto width) {
    bytes = uint64_t(shape.graphs * Packing<decltype(width)::value>::kGraphBytes);
  });
  return bytes;
}

void pack(const FusedMlpShape& shape, const FusedMlpParameters<const float>& parameters,
          void* packed, CudaStream stream) {
  const dim3 grid(uint32_t(shape.graphs), kMlpLinears);
  with_width(shape.width, [&](auto width) {
    pack_kernel<decltype(width)::value><<<grid, 512, 0, static_cast<cudaStream_t>(stream)>>>(
        parameters, static_cast<uint8_t*>(packed));
  });
  check_launch("fused_mlp_pack");
}

void forward(const FusedMlpShape& shape, int shared, const void* packed_, const BFloat16* u,
             BFloat16* y, CudaStream stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  const auto* packed = static_cast<const uint8_t*>(packed_);
  if (shape.merged)
    launch_forward<true>(shape, shared, packed, u, y, stream);
  else
    launch_forward<false>(shape, shared, packed, u, y, stream);
  check_launch("fused_mlp");
}

}  // namespace lacuna::mma
