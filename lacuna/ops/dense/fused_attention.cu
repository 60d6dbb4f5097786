// Packing and the forward pass of fused_attention.h; see fused_attention_mma.cuh.
//
// Waiting: __syncthreads() and a thread's own copies only, and every thread of a block goes through
// the same tiles.
#include <algorithm>

#include "lacuna/ops/dense/fused_attention_mma.cuh"

namespace lacuna {
namespace mma {
namespace {

using Parameters = FusedAttentionParameters<const float>;

// Grid: (units, 2): the way there, the way back. 32 threads.
template <class Sizes>
__global__ void pack_weights_kernel(Parameters from, uint8_t* packed) {
  const int lane = int(threadIdx.x), q = lane / 4, t = lane % 4;
  int i = int(blockIdx.x);
  const int block = i % Sizes::kBlocks, step = (i /= Sizes::kBlocks) % Sizes::kSteps;
  const int head = (i /= Sizes::kSteps) % kHeads, linear = i / kHeads;
  const bool back = blockIdx.y == 1;
  const auto weight = [&](int input, int column) {
    return column < Sizes::kHeadWidth ? from.weight[linear][size_t(input) * Sizes::kWidth +
                                                            head * Sizes::kHeadWidth + column]
                                      : 0.0f;
  };
  uint32_t p[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int row = q + 8 * (k & 1), pair = 16 * block + 2 * t + 8 * (k >> 1);  // of an operand
    // On the way back a lane's four sums of a row are inputs side by side.
    const int input = 16 * step + 4 * (row % 8 / 2) + 2 * (row / 8) + row % 2;
    p[k] = back ? bf16_pair(weight(input, pair), weight(input, pair + 1))
                : bf16_pair(weight(16 * step + pair - 16 * block, 16 * block + row),
                            weight(16 * step + pair - 16 * block + 1, 16 * block + row));
  }
  const int unit =
      back ? Sizes::kUnits +
                 Sizes::back_unit(step, (linear * kHeads + head) * Sizes::kBlocks + block)
           : int(blockIdx.x);
  reinterpret_cast<uint4*>(packed)[unit * 32 + lane] =
      make_uint4(p[0], p[2], p[1], p[3]);  // load_unit()
}

template <class Sizes>
__global__ void pack_vectors_kernel(Parameters from, int graphs, uint8_t* packed) {
  auto* bias = reinterpret_cast<float*>(packed + Sizes::kBiasAt);
  auto* position = reinterpret_cast<float*>(packed + Sizes::kPositionAt);
  constexpr int kBiases = kHeads * Sizes::kColumns;
  for (int i = int(threadIdx.x); i < 2 * kBiases; i += int(blockDim.x)) {
    const int head = i % kBiases / Sizes::kColumns, column = i % Sizes::kColumns;
    bias[i] = column < Sizes::kHeadWidth
                  ? from.bias[i < kBiases ? kQuery : kValue][head * Sizes::kHeadWidth + column]
                  : 0.0f;
  }
  for (int i = int(threadIdx.x); i < graphs * Sizes::kWidth; i += int(blockDim.x))
    position[i] = from.position[i];
}

// Blocks of a multiprocessor, as many as registers allow.
template <class Sizes>
constexpr int kForwardBlocks = Sizes::kKeeps ? 4 : 3;

// A row of a head: its tokens -> z, in the 16 lanes below 16: lane's column of block b in z[b].
template <class Sizes>
__device__ __forceinline__ void attend_row(const TokenRow<Sizes::kWidth>& tokens,
                                           const HeadWeights<Sizes::kWidth>& weights,
                                           const HeadBias<Sizes::kWidth>& bias,
                                           const TokenMask& mask, float to_log2, int lane,
                                           float (&z)[Sizes::kBlocks]) {
  constexpr int kBlocks = Sizes::kBlocks;
  Sums16 q[kBlocks], k[kBlocks], v[kBlocks];  // tokens x columns; v: columns x tokens
  const auto add = [&](int step, bool first) {
    const Operand a = tokens.get(step);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      multiply_step(first, q[block], a, weights.get(kQuery, step, block), bias.of[block]);
      multiply_step(first, k[block], a, weights.get(kKey, step, block));
      multiply_step(first, v[block], weights.get(kValue, step, block), a);
    }
  };
  add(0, true);
#pragma unroll Sizes::kUnrolled
  for (int step = 1; step < Sizes::kSteps; ++step) add(step, false);
  Operand of_q[kBlocks], of_k[kBlocks];
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    of_q[block] = operand_of(q[block]);
    of_k[block] = operand_of(k[block]);
  }
  Sums16 shares = scores_of(of_q, of_k, mask);
  const TwoRows scale = softmax_rows(shares, mask.share, to_log2);
  const Operand of_shares = operand_of(shares);
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    Sums16 seen;  // tokens x columns, to be summed over tokens
    multiply_new(seen, of_shares, operand_of(v[block]));
    float sum[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum[i] = fmaf(seen.s[i >> 1][i & 1], scale.upper, seen.s[i >> 1][2 + (i & 1)] * scale.lower);
    z[block] = fold(fold(sum[0], sum[1], lane, 4), fold(sum[2], sum[3], lane, 4), lane, 8);
    z[block] += __shfl_xor_sync(~0u, z[block], 16);
  }
}

template <class Sizes>
__global__ void __launch_bounds__(kAttentionThreads, kForwardBlocks<Sizes>)
    forward_kernel(const uint8_t* __restrict__ packed, const BFloat16* __restrict__ y,
                   BFloat16* __restrict__ z, AttentionWork work) {
  constexpr int kWidth = Sizes::kWidth;
  extern __shared__ __align__(1024) uint8_t memory[];
  const int lane = int(threadIdx.x) % 32, head = int(threadIdx.x) / 32;
  const HeadWeights<kWidth> weights(packed, head, lane);
  const HeadBias<kWidth> bias(packed, head, lane);
  const TokenMask mask(work.graphs, lane);
  const float to_log2 = score_scale<kWidth>() * kLog2E;
  const auto* position = reinterpret_cast<const float*>(packed + Sizes::kPositionAt);
  // Of lanes below 16: as attend_row() leaves z.
  const int column = 8 * ((lane >> 3) & 1) + 2 * (lane & 3) + ((lane >> 2) & 1);
  const bool writes = lane < 16 && column < Sizes::kHeadWidth;
  float value_bias[Sizes::kBlocks];
#pragma unroll
  for (int block = 0; block < Sizes::kBlocks; ++block)
    value_bias[block] = reinterpret_cast<const float*>(
        packed + Sizes::kBiasAt)[(kHeads + head) * Sizes::kColumns + 16 * block + column];

  const TokenTile<kWidth> tile = {work};
  const int rows = work.count(), tiles = (work.rows + work.tile_rows - 1) / work.tile_rows;
  const int stage_bytes = TokenTile<kWidth>::bytes(work.graphs, work.tile_rows);
  const auto rows_of = [&](int i) {
    return i < tiles ? min(work.tile_rows, rows - i * work.tile_rows) : 0;
  };
  const auto fetch = [&](int i, int stage) {
    tile.fetch(shared_address(memory) + uint32_t(stage * stage_bytes), y, i * work.tile_rows,
               rows_of(i));
    copies_commit();
  };
  fetch(int(blockIdx.x), 0);
  int stage = 0;
  for (int i = int(blockIdx.x); i < tiles; i += int(gridDim.x), stage ^= 1) {
    const int first = i * work.tile_rows, there = rows_of(i);
    copies_wait<0>();
    tile.add_position(memory + stage * stage_bytes, position, there);
    __syncthreads();  // the tokens are there, and nobody reads the other stage any more
    fetch(i + int(gridDim.x), stage ^ 1);
    const uint32_t at = shared_address(memory) + uint32_t(stage * stage_bytes);
#pragma unroll 1
    for (int row = 0; row < min(work.tile_rows, work.rows - first); ++row) {
      float seen[Sizes::kBlocks] = {};
      const bool is_used = row < there;
      if (is_used)
        attend_row<Sizes>(TokenRow<kWidth>(at, row, work.graphs, lane), weights, bias, mask,
                          to_log2, lane, seen);
      BFloat16* to = z + size_t(first + row) * kWidth + head * Sizes::kHeadWidth + column;
      if (writes)
#pragma unroll
        for (int block = 0; block < Sizes::kBlocks; ++block)
          to[16 * block] = round_to<BFloat16>(is_used ? seen[block] + value_bias[block] : 0.0f);
    }
  }
}

int shared_of(const FusedAttentionShape& shape) {
  const int most = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return shape.shared_limit > 0 ? std::min(most, shape.shared_limit) : most;
}

void check_shape(const FusedAttentionShape& shape) {
  if (!fused_attention_fits(shape.graphs, shape.width))
    throw_error("fused_attention: the device has no kernel for this width and number of graphs");
  if (shape.rows >= (int64_t(1) << 31) - 4096) throw_error("fused_attention: too many rows");
}

}  // namespace
}  // namespace mma

bool fused_attention_fits(int64_t graphs, int64_t width) {
  return graphs >= 1 && graphs <= mma::kMostTokens &&
         (width == 32 || width == 64 || width == 128) &&
         cuda::device_attribute(cudaDevAttrComputeCapabilityMajor) >= 8;
}

uint64_t fused_attention_packed_bytes(const FusedAttentionShape& shape) {
  uint64_t bytes = 0;
  mma::with_attention_width(shape.width, [&](auto sizes) {
    bytes = uint64_t(sizes.kPositionAt) + uint64_t(shape.graphs * shape.width) * sizeof(float);
  });
  return bytes;
}

void fused_attention_pack(const FusedAttentionShape& shape,
                          const FusedAttentionParameters<const float>& parameters, void* packed_,
                          CudaStream stream_) {
  mma::check_shape(shape);
  const auto stream = static_cast<cudaStream_t>(stream_);
  auto* packed = static_cast<uint8_t*>(packed_);
  mma::with_attention_width(shape.width, [&](auto sizes) {
    using Sizes = decltype(sizes);
    mma::pack_weights_kernel<Sizes><<<dim3(Sizes::kUnits, 2), 32, 0, stream>>>(parameters, packed);
    mma::pack_vectors_kernel<Sizes><<<1, 512, 0, stream>>>(parameters, int(shape.graphs), packed);
  });
  cuda::check_launch("fused_attention_pack");
}

void fused_attention(const FusedAttentionShape& shape, const void* packed, const BFloat16* y,
                     BFloat16* z, CudaStream stream) {
  mma::check_shape(shape);
  if (shape.rows == 0) return;
  mma::with_attention_width(shape.width, [&](auto sizes) {
    using Sizes = decltype(sizes);
    constexpr int kBlocksAMultiprocessor = mma::kForwardBlocks<Sizes>;
    const int graphs = int(shape.graphs);
    const auto bytes = [&](int rows) {
      return 2 * mma::TokenTile<Sizes::kWidth>::bytes(graphs, rows);
    };
    const int rows = mma::attention_tile_rows(mma::shared_of(shape), kBlocksAMultiprocessor, bytes);
    auto* kernel = mma::forward_kernel<Sizes>;
    cuda::allow_shared(kernel, bytes(rows));
    const int blocks = cuda::multiprocessors() * kBlocksAMultiprocessor;
    kernel<<<uint32_t(blocks), mma::kAttentionThreads, size_t(bytes(rows)),
             static_cast<cudaStream_t>(stream)>>>(
        static_cast<const uint8_t*>(packed), y, z,
        mma::AttentionWork{graphs, int(shape.rows), shape.used, rows});
  });
  cuda::check_launch("fused_attention");
}

uint64_t fused_attention_backward_workspace(const FusedAttentionShape& shape) {
  return mma::attention_backward_workspace(shape);
}

void fused_attention_backward(const FusedAttentionShape& shape, const void* packed,
                              const BFloat16* y, const BFloat16* grad_z, BFloat16* grad_y,
                              const FusedAttentionParameters<float>& gradients, void* workspace,
                              CudaStream stream) {
  mma::check_shape(shape);
  mma::attention_backward(shape, mma::shared_of(shape), packed, y, grad_z, grad_y, gradients,
                          workspace, static_cast<cudaStream_t>(stream));
}

}  // namespace lacuna
