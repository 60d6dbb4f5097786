// Who does what in the fused kernels without a merge and in backward passes: tiles of all graphs in
// one row, graph after graph; a block owns a run of them. A piece is what a block has of one graph.
// Its gradients of parameters go to a slot of the workspace; sum_slots() adds the slots of a graph
// in order.
#pragma once

#include "lacuna/ops/cuda/cuda_device.cuh"
#include "lacuna/ops/dense/fused_mlp.h"

namespace lacuna::cuda {

template <int kTileRows>
struct TileWork {
  int graphs, rows;
  const int32_t* used;  // [G] or null

  static TileWork of(const FusedMlpShape& shape) {
    return {int(shape.graphs), int(shape.rows), shape.used};
  }
  __device__ int rows_of(int g) const { return used ? min(used[g], rows) : rows; }
  __device__ int tiles_of(int g) const { return (rows_of(g) + kTileRows - 1) / kTileRows; }
  // Fewer than 2^31: each tile has rows of its own in memory.
  __device__ int tiles() const {
    if (!used) return tiles_of(0) * graphs;
    int sum = 0;
    for (int g = 0; g < graphs; ++g) sum += tiles_of(g);
    return sum;
  }
  __device__ int begin_of(int block, int blocks) const {
    return int(int64_t(tiles()) * block / blocks);
  }
};

struct Piece {
  int graph = -1, tile = 0, count = 0;  // tiles `tile` .. `tile + count - 1` of the graph
  int next;                             // where the following piece starts
  int graph_begin = 0;                  // of the following graph

  __device__ explicit Piece(int begin) : next(begin) {}
  // Goes on to the next piece before `end`; false: none.
  template <class Work>
  __device__ bool advance(const Work& work, int end) {
    if (next >= end) return false;
    while (graph < 0 || next >= graph_begin) graph_begin += work.tiles_of(++graph);
    const int stop = min(end, graph_begin);
    count = stop - next;
    tile = next - (graph_begin - work.tiles_of(graph));
    next = stop;
    return true;
  }
};

// Gradients of a piece: dW [4, H, H], db [4, H], then of each of kWarps warps those of the norm's
// weight and bias [kWarps, 2, H]. A piece starts at a block's or a graph's first tile, so block +
// graph names its slot.
template <int kWidth, int kWarps_>
struct MlpSlot {
  static constexpr int kWarps = kWarps_, kBiasesAt = kMlpLinears * kWidth * kWidth,
                       kNormsAt = kBiasesAt + kMlpLinears * kWidth,
                       kNorms = 2 * kWidth,  // of one warp
      kSums = kNormsAt + kNorms, kFloats = kNormsAt + kWarps * kNorms;
  static_assert(kFloats % 4 == 0, "slots are read 16 bytes at a time: pad them");
};

// Slot: a MlpSlot with place(to, graph, i), where the sum i belongs. Grid: (G, parts of a slot).
template <class Slot, class Work>
__global__ void sum_slots_kernel(const float* __restrict__ slots, Work work, int blocks,
                                 FusedMlpParameters<float> to) {
  const int g = int(blockIdx.x);
  int begin = 0;
  for (int k = 0; k < g; ++k) begin += work.tiles_of(k);
  const int end = begin + work.tiles_of(g);
  // The blocks that own tiles of this graph.
  int first = 0, last = -1;
  if (end > begin) {
    while (work.begin_of(first + 1, blocks) <= begin) ++first;
    last = first;
    while (last + 1 < blocks && work.begin_of(last + 1, blocks) < end) ++last;
  }
  const int i = int(blockIdx.y * blockDim.x + threadIdx.x);
  if (i >= Slot::kSums) return;
  float total = 0;
  for (int b = first; b <= last; ++b) {
    if (work.begin_of(b, blocks) == work.begin_of(b + 1, blocks)) continue;  // it has no tiles
    const float* slot = slots + size_t(b + g) * Slot::kFloats;
    if (i < Slot::kNormsAt) {
      total += slot[i];
    } else {
      for (int w = 0; w < Slot::kWarps; ++w) total += slot[i + w * Slot::kNorms];
    }
  }
  *Slot::place(to, size_t(g), i) = total;
}
template <class Slot, class Work>
void sum_slots(const float* slots, const Work& work, int blocks, int graphs,
               const FusedMlpParameters<float>& to, cudaStream_t stream) {
  constexpr int kThreads = 256;
  const dim3 grid(uint32_t(graphs), (Slot::kSums + kThreads - 1) / kThreads);
  sum_slots_kernel<Slot><<<grid, kThreads, 0, stream>>>(slots, work, blocks, to);
}

// ---- the current device
inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, attribute, device), "an attribute of the device");
  return value;
}
inline int multiprocessors() { return device_attribute(cudaDevAttrMultiProcessorCount); }

template <class Kernel>
void allow_shared(Kernel* kernel, int bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of fused_mlp");
}

}  // namespace lacuna::cuda
