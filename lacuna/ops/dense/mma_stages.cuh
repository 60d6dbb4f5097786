// Weights of a fused MLP on their way to the tensor cores (mma_parts.cuh): how a graph's parameters
// are packed, how many of them are in shared memory at a time, and who waits for them.
#pragma once

#include "lacuna/ops/dense/fused_mlp.h"
#include "lacuna/ops/dense/mma_parts.cuh"

namespace lacuna::mma {

// A graph's packed parameters: of each Linear the tile, the bias, and the norm's weight and bias
// (those of the last Linear are read). Every column is where memory_column() says.
template <int kWidth>
struct Packing {
  static constexpr int kTileBytes = 2 * kWidth * kWidth, kBiasAt = kTileBytes,
                       kNormAt = kBiasAt + 4 * kWidth, kLinearBytes = kNormAt + 8 * kWidth,
                       kGraphBytes = kMlpLinears * kLinearBytes;
  static_assert(kLinearBytes % 128 == 0, "tiles start at multiples of 128 bytes: pad a Linear");
};

// This lane's addresses inside a Linear's packed parameters in shared memory.
template <int kWidth>
struct Packed {
  uint32_t tile, columns;
  __device__ Packed(uint32_t at, int t)
      : tile(at), columns(opaque(at + Packing<kWidth>::kBiasAt + uint32_t(t) * 8)) {}
  __device__ float2 bias(int j) const { return load_shared2(columns + j * 32); }
  __device__ float2 norm_weight(int j) const { return load_shared2(columns + 4 * kWidth + j * 32); }
  __device__ float2 norm_bias(int j) const { return load_shared2(columns + 8 * kWidth + j * 32); }
};

// a -> d, the Linear. Biases start in the accumulator: no addition later.
template <int kWidth>
__device__ __forceinline__ void biased_linear(float (&d)[kWidth / 2],
                                              const uint32_t (&a)[kWidth / 4],
                                              const Packed<kWidth>& packed, int lane) {
#pragma unroll
  for (int j = 0; j < kWidth / 8; ++j) {
    const float2 v = packed.bias(j);
    d[4 * j] = v.x, d[4 * j + 1] = v.y, d[4 * j + 2] = v.x, d[4 * j + 3] = v.y;
  }
  linear<kWidth>(d, a, packed.tile, lane);
}

// ---- sizes of a kernel
// kLinearsAStage Linears (4: a graph) come to shared memory together, into one of kStages stages.
template <int kWidth_, int kLinearsAStage_, int kStages_>
struct Plan {
  static constexpr int kWidth = kWidth_, kLinearsAStage = kLinearsAStage_, kStages = kStages_;
  static constexpr int kParts = kMlpLinears / kLinearsAStage;  // stages' worth of a graph
  // Sums, operands and what is read ahead take 1.5 H registers a thread; 8 warps have 255 each.
  static constexpr int kWarps = kWidth == 128 ? 8 : 16, kThreads = 32 * kWarps;
  static constexpr int kTileRows = 16 * kWarps;
  static constexpr int kStageBytes = kLinearsAStage * Packing<kWidth>::kLinearBytes;
  static constexpr int kWeightBytes = kStages * kStageBytes;
  static_assert(kParts == 1 || kStages == 2, "parts of a graph alternate between two stages");
};

template <class Plan>
struct Place {  // of a thread
  int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, t = lane % 4;
  int row = warp * 16 + lane / 4;  // the upper of its two rows in a tile
};

// The stages. A part of the packed parameters has a number: graph * kParts + part.
template <class Plan>
class Stages {
 public:
  __device__ Stages(uint32_t base, const uint8_t* packed) : base_(base), packed_(packed) {}

  // The address of a part, for every thread of the block at once; what was given before may be
  // overwritten. next: the part that is certain to be asked for next, or -1.
  __device__ __forceinline__ uint32_t enter(int part, int next) {
    if (part != here_) {
      if (part != there_) {
        __syncthreads();  // with one stage: nobody reads it any more
        fetch(part);
      }
      copies_wait<0>();
      __syncthreads();  // everybody's copies are there, and nobody reads the other stage any more
      there_ = Plan::kStages == 1 ? -1 : here_;
      here_ = part;
      stage_ = other();
    }
    if (Plan::kStages == 2 && next >= 0 && next != here_ && next != there_) {
      fetch(next);
      there_ = next;
    }
    return base_ + uint32_t(stage_ * Plan::kStageBytes);
  }

 private:
  __device__ int other() const { return Plan::kStages == 1 ? 0 : stage_ ^ 1; }
  __device__ __forceinline__ void fetch(int part) {
    const uint8_t* from = packed_ + size_t(part) * Plan::kStageBytes;
    const uint32_t to = base_ + uint32_t(other() * Plan::kStageBytes);
    for (int i = int(threadIdx.x) * 16; i < Plan::kStageBytes; i += Plan::kThreads * 16)
      copy_16(to + uint32_t(i), from + i);
    copies_commit();
  }

  uint32_t base_;
  const uint8_t* packed_;
  int stage_ = 0, here_ = -1, there_ = -1;  // the parts in this stage and in the other one
};

inline constexpr int kLeastShared = 99 * 1024;  // of compute capabilities 8.6 and 8.9

}  // namespace lacuna::mma
