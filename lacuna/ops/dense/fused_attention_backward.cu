// The backward pass of fused_attention.h; see fused_attention_mma.cuh.
//
// With dz of a row and a head, shares p_ij = a_ij / G and w_j = dz . v_j:
//
//   dv_j = sum over i of p_ij dz             ds_ij = p_ij (w_j - sum over k of a_ik w_k) / sqrt(d)
//   dq_i = sum over j of ds_ij k_j           dk_j = sum over i of ds_ij q_i
//
// (the bias of v adds the same to all w and drops out). Each is formed twice, tokens x columns for
// the gradient of the tokens and columns x tokens for those of the weights, which a warp sums in
// registers over all its rows; at the end they go to the block's slot, and a last kernel adds the
// slots in order. A head's part of the gradient of the tokens goes to shared memory as bf16, where
// all threads together add the four parts, for y and for the position.
//
// Width 128: the sums of one Linear alone fill the registers. So there are four launches, one for y
// and one for each Linear, and each computes all of the attention again.
//
// Waiting: __syncthreads() and a thread's own copies only, and every thread of a block goes through
// the same tiles.
#include "lacuna/ops/dense/fused_attention_mma.cuh"

namespace lacuna::mma {
namespace {

using Gradients = FusedAttentionParameters<float>;

constexpr int kBlocksAMultiprocessor = 2;
// What a launch makes: bits 1 << linear, and that of the tokens.
constexpr int kOfTokens = 1 << kAttentionLinears, kAll = 2 * kOfTokens - 1;

// A block's sums, as they lie in the gradients: weights [3, in, out], the biases of q and v [2, out],
// positions [G, H].
template <class Sizes>
struct AttentionSlot {
  static constexpr int kBiasesAt = kAttentionLinears * Sizes::kWidth * Sizes::kWidth,
                       kPositionAt = kBiasesAt + 2 * Sizes::kWidth;
  static int floats(int graphs) { return kPositionAt + graphs * Sizes::kWidth; }
};

// Shared memory of a block: two stages of tokens and dz, the parts of the four heads, and the sums
// of the positions.
template <int kWidth>
struct BackwardMemory {
  int graphs, tile_rows;

  __host__ __device__ int token_bytes() const {
    return TokenTile<kWidth>::bytes(graphs, tile_rows);
  }
  __host__ __device__ int dz_at(int stage) const {
    return 2 * token_bytes() + stage * tile_rows * 2 * kWidth;
  }
  __host__ __device__ int parts_at() const { return dz_at(2); }
  __host__ __device__ int sums_at() const { return parts_at() + kHeads * token_bytes(); }
  __host__ __device__ int bytes() const { return sums_at() + graphs * kWidth * 4; }
};

// One head: what it keeps over all rows, and the way of a row through it.
template <class Sizes, int kParts>
struct HeadBack {
  static constexpr int kWidth = Sizes::kWidth, kBlocks = Sizes::kBlocks, kSteps = Sizes::kSteps;
  __host__ __device__ static constexpr bool makes(int part) { return (kParts & part) != 0; }
  static constexpr int kSummed = kParts == kAll ? kAttentionLinears : 1;  // Linears at a time
  const uint8_t* packed;
  int head, lane, graphs;
  const HeadWeights<kWidth> weights;
  const HeadBias<kWidth> bias;
  const TokenMask mask;
  const float scale = score_scale<kWidth>();
  Sums16 weight_sums[kSummed][kBlocks][kSteps];  // columns x inputs
  float query_bias[kBlocks][2] = {}, value_bias[kBlocks][2] = {};

  __device__ HeadBack(const uint8_t* packed_, int head_, int lane_, int graphs_)
      : packed(packed_),
        head(head_),
        lane(lane_),
        graphs(graphs_),
        weights(packed_, head_, lane_),
        bias(packed_, head_, lane_),
        mask(graphs_, lane_) {}

  // d (columns x tokens) times the tokens.
  __device__ __forceinline__ void add_weights(int linear, const Operand (&d)[kBlocks],
                                              const TokenRow<kWidth>& tokens) {
    const int place = kSummed > 1 ? linear : 0;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const Operand t = tokens.across(step);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block)
        multiply_by(weight_sums[place][block][step], d[block], t);
    }
  }

  // dz: the head's 16 bit numbers of the row. parts: where the row's part of the gradient of the
  // tokens goes, row `part` of a tile and on.
  __device__ __forceinline__ void row(const TokenRow<kWidth>& tokens, const BFloat16* dz,
                                      uint8_t* parts, int part) {
    const int q = lane / 4, t = lane % 4;
    Operand of_q[kBlocks], of_k[kBlocks], of_v[kBlocks];  // tokens x columns
    {
      Sums16 sums[kAttentionLinears][kBlocks];
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) sums[kQuery][block] = bias.start(block);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const Operand a = tokens.get(step);
#pragma unroll
        for (int block = 0; block < kBlocks; ++block)
#pragma unroll
          for (int l = 0; l < kAttentionLinears; ++l)
            multiply_by(sums[l][block], a, weights.get(l, step, block));
      }
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        of_q[block] = operand_of(sums[kQuery][block]);
        of_k[block] = operand_of(sums[kKey][block]);
        of_v[block] = operand_of(sums[kValue][block]);
      }
    }
    Sums16 shares = scores_of(of_q, of_k, mask);
    softmax_rows(shares, mask.share, scale * kLog2E);

    // dz in every row, and in every column.
    Operand dz_rows[kBlocks], dz_columns[kBlocks];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const auto pair = [&](int column) {
        return column < Sizes::kHeadWidth ? *reinterpret_cast<const uint32_t*>(dz + column) : 0u;
      };
      const auto both = [&](int column) {
        return column < Sizes::kHeadWidth ? uint32_t(dz[column].bits) * 0x10001u : 0u;
      };
      const uint32_t near = pair(16 * block + 2 * t), far = pair(16 * block + 8 + 2 * t);
      const uint32_t upper = both(16 * block + q), lower = both(16 * block + 8 + q);
      dz_rows[block] = {near, near, far, far};
      dz_columns[block] = {upper, lower, upper, lower};
      if constexpr (makes(1 << kValue)) {
        value_bias[block][0] += low_of(upper);
        value_bias[block][1] += low_of(lower);
      }
    }
    Sums16 ds;  // first w, the same in every row
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) multiply_by(ds, dz_rows[block], of_v[block]);
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      float mean = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        mean = fmaf(shares.s[i >> 1][e + (i & 1)], ds.s[i >> 1][e + (i & 1)], mean);
      mean = quad_sum(mean) * float(graphs);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& v = ds.s[i >> 1][e + (i & 1)];
        v = shares.s[i >> 1][e + (i & 1)] * (v - mean) * scale;
      }
    }
    const Operand of_ds = operand_of(ds), ds_across = transposed(of_ds),
                  shares_across = transposed(operand_of(shares));
    Operand of_tokens[kAttentionLinears][kBlocks];  // dq, dk, dv: tokens x columns
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const Operand k_across = transposed(of_k[block]), q_across = transposed(of_q[block]);
      if constexpr (makes(kOfTokens)) {
        Sums16 dq, dk, dv;
        multiply_by(dq, of_ds, k_across);
        multiply_by(dk, ds_across, q_across);
        multiply_by(dv, shares_across, dz_columns[block]);
        of_tokens[kQuery][block] = operand_of(dq);
        of_tokens[kKey][block] = operand_of(dk);
        of_tokens[kValue][block] = operand_of(dv);
      }
      of_k[block] = k_across;
      of_q[block] = q_across;
    }
    if constexpr (makes(kOfTokens)) store_part(of_tokens, parts, part);
    // The same as columns x tokens.
    Operand d[kBlocks];
    if constexpr (makes(1 << kQuery)) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        Sums16 dq;
        multiply_by(dq, of_k[block], of_ds);
        query_bias[block][0] += dq.s[0][0] + dq.s[0][1] + dq.s[1][0] + dq.s[1][1];
        query_bias[block][1] += dq.s[0][2] + dq.s[0][3] + dq.s[1][2] + dq.s[1][3];
        d[block] = operand_of(dq);
      }
      add_weights(kQuery, d, tokens);
    }
    if constexpr (makes(1 << kKey)) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        Sums16 dk;
        multiply_by(dk, of_q[block], ds_across);
        d[block] = operand_of(dk);
      }
      add_weights(kKey, d, tokens);
    }
    if constexpr (makes(1 << kValue)) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        Sums16 dv;
        multiply_by(dv, dz_columns[block], shares_across);
        d[block] = operand_of(dv);
      }
      add_weights(kValue, d, tokens);
    }
  }

  // dq, dk, dv times their weights.
  __device__ __forceinline__ void store_part(const Operand (&d)[kAttentionLinears][kBlocks],
                                             uint8_t* parts, int part) const {
    const int q = lane / 4, t = lane % 4;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Sums16 sums;  // tokens x inputs
#pragma unroll
      for (int l = 0; l < kAttentionLinears; ++l)
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          const uint4 w =
              load_unit(packed + Sizes::kBackAt, Sizes::unit(l, head, step, block), lane);
          multiply_by(sums, d[l][block], Operand{w.x, w.y, w.z, w.w});
        }
      const Operand pairs = operand_of(sums);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = q + 8 * (i & 1);
        if (token < graphs)
          *reinterpret_cast<uint32_t*>(
              parts + place_in_tile<kWidth>(part + token, 2 * step + (i >> 1)) + 4 * t) =
              pairs.p[i];
      }
    }
  }

  __device__ __forceinline__ void store_sums(float* slot) const {
    using Slot = AttentionSlot<Sizes>;
    const int q = lane / 4, t = lane % 4;
#pragma unroll
    for (int l = 0; l < kAttentionLinears; ++l) {
      if (!makes(1 << l)) continue;
      const int place = kSummed > 1 ? l : 0;
#pragma unroll
      for (int i = 0; i < 8 * kBlocks * kSteps; ++i) {
        const int n = (i >> 2) & 1, e = i & 3, block = (i >> 3) % kBlocks,
                  step = (i >> 3) / kBlocks;
        const int column = 16 * block + q + 8 * (e >> 1),
                  input = 16 * step + 8 * n + 2 * t + (e & 1);
        if (column < Sizes::kHeadWidth)
          slot[(l * kWidth + input) * kWidth + head * Sizes::kHeadWidth + column] =
              weight_sums[place][block][step].s[n][e];
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) {
      const int column = 16 * (i >> 1) + q + 8 * (i & 1);
      float* to = slot + Slot::kBiasesAt + head * Sizes::kHeadWidth + column;
      const float of_query = quad_sum(query_bias[i >> 1][i & 1]);
      if (t != 0 || column >= Sizes::kHeadWidth) continue;
      if (makes(1 << kQuery)) to[0] = of_query;
      if (makes(1 << kValue)) to[kWidth] = value_bias[i >> 1][i & 1];
    }
  }
};

// The four heads' parts -> the gradients of y, and of the positions in f32. A thread has the same
// pieces of the same graphs in every tile.
template <int kWidth>
__device__ __forceinline__ void add_parts(const AttentionWork& work, const uint8_t* parts,
                                          float* position_sums, BFloat16* grad_y, int first,
                                          int rows, int used) {
  constexpr int kPieces = kWidth / 8;
  for (int i = int(threadIdx.x); i < work.graphs * kPieces; i += kAttentionThreads) {
    const int piece = i % kPieces, g = i / kPieces;
    float total[8] = {};
    for (int row = 0; row < rows; ++row) {
      float sum[8] = {};
      if (row < used) {
#pragma unroll
        for (int head = 0; head < kHeads; ++head) {
          const int part = (row * kHeads + head) * work.graphs + g;
          const uint4 v =
              *reinterpret_cast<const uint4*>(parts + place_in_tile<kWidth>(part, piece));
          const uint32_t p[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            sum[2 * k] += low_of(p[k]);
            sum[2 * k + 1] += high_of(p[k]);
          }
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) total[k] += sum[k];
      }
      *reinterpret_cast<uint4*>(
          grad_y + (size_t(g) * work.rows + size_t(first + row)) * kWidth + 8 * piece) =
          make_uint4(bf16_pair(sum[0], sum[1]), bf16_pair(sum[2], sum[3]),
                     bf16_pair(sum[4], sum[5]), bf16_pair(sum[6], sum[7]));
    }
    float* to = position_sums + 8 * i;
#pragma unroll
    for (int k = 0; k < 8; ++k) to[k] += total[k];
  }
}

template <class Sizes, int kParts>
__global__ void __launch_bounds__(kAttentionThreads, kBlocksAMultiprocessor)
    backward_kernel(const uint8_t* __restrict__ packed, const BFloat16* __restrict__ y,
                    const BFloat16* __restrict__ grad_z, BFloat16* __restrict__ grad_y,
                    float* slots, AttentionWork work) {
  constexpr int kWidth = Sizes::kWidth;
  constexpr bool kTokens = (kParts & kOfTokens) != 0;
  using Slot = AttentionSlot<Sizes>;
  extern __shared__ __align__(1024) uint8_t memory[];
  const BackwardMemory<kWidth> plan = {work.graphs, work.tile_rows};
  const int lane = int(threadIdx.x) % 32, head = int(threadIdx.x) / 32;
  HeadBack<Sizes, kParts> back(packed, head, lane, work.graphs);
  const auto* position = reinterpret_cast<const float*>(packed + Sizes::kPositionAt);
  auto* position_sums = reinterpret_cast<float*>(memory + plan.sums_at());
  // The thread that clears a number is not the one that adds to it: the first tile's barrier lies
  // between.
  for (int i = int(threadIdx.x); i < work.graphs * kWidth; i += kAttentionThreads)
    position_sums[i] = 0;
  __syncthreads();

  const TokenTile<kWidth> tile = {work};
  const int rows = work.count(), tiles = (work.rows + work.tile_rows - 1) / work.tile_rows;
  const auto used_of = [&](int i) {
    return i < tiles ? min(work.tile_rows, rows - i * work.tile_rows) : 0;
  };
  const auto fetch = [&](int i, int stage) {
    const int first = i * work.tile_rows, used = used_of(i);
    const uint32_t to = shared_address(memory);
    tile.fetch(to + uint32_t(stage * plan.token_bytes()), y, first, used);
    for (int k = int(threadIdx.x); k < used * kWidth / 8; k += kAttentionThreads)
      copy_16(to + uint32_t(plan.dz_at(stage) + 16 * k), grad_z + size_t(first) * kWidth + 8 * k);
    copies_commit();
  };
  fetch(int(blockIdx.x), 0);
  int stage = 0;
  for (int i = int(blockIdx.x); i < tiles; i += int(gridDim.x), stage ^= 1) {
    const int first = i * work.tile_rows, used = used_of(i);
    copies_wait<0>();
    tile.add_position(memory + stage * plan.token_bytes(), position, used);
    __syncthreads();  // the tokens are there; nobody reads the other stage or the parts any more
    fetch(i + int(gridDim.x), stage ^ 1);
    const uint32_t at = shared_address(memory) + uint32_t(stage * plan.token_bytes());
    const auto* dz = reinterpret_cast<const BFloat16*>(memory + plan.dz_at(stage)) +
                     head * Sizes::kHeadWidth;
#pragma unroll 1
    for (int row = 0; row < used; ++row)
      back.row(TokenRow<kWidth>(at, row, work.graphs, lane), dz + row * kWidth,
               memory + plan.parts_at(), (row * kHeads + head) * work.graphs);
    if constexpr (kTokens) {
      __syncthreads();  // the parts are there
      add_parts<kWidth>(work, memory + plan.parts_at(), position_sums, grad_y, first,
                        min(work.tile_rows, work.rows - first), used);
    }
  }
  copies_wait<0>();
  const size_t slot_floats = size_t(Slot::kPositionAt + work.graphs * kWidth);
  float* slot = slots + blockIdx.x * slot_floats;
  back.store_sums(slot);
  if constexpr (kTokens) {
    __syncthreads();
    for (int i = int(threadIdx.x); i < work.graphs * kWidth; i += kAttentionThreads)
      slot[Slot::kPositionAt + i] = position_sums[i];
  }
}

// Adds the slots, a thread a number.
template <class Sizes>
__global__ void sum_attention_kernel(const float* __restrict__ slots, int blocks, int graphs,
                                     Gradients to) {
  using Slot = AttentionSlot<Sizes>;
  constexpr int kWidth = Sizes::kWidth;
  const int floats = Slot::kPositionAt + graphs * kWidth;
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= floats) return;
  float total = 0;
#pragma unroll 8
  for (int block = 0; block < blocks; ++block) total += slots[size_t(block) * size_t(floats) + i];
  if (i < Slot::kBiasesAt) {
    to.weight[i / (kWidth * kWidth)][i % (kWidth * kWidth)] = total;
  } else if (i < Slot::kPositionAt) {
    const int k = i - Slot::kBiasesAt;
    to.bias[k < kWidth ? kQuery : kValue][k % kWidth] = total;
    if (k < kWidth) to.bias[kKey][k] = 0;
  } else {
    to.position[i - Slot::kPositionAt] = total;
  }
}

template <class Sizes, int kParts>
void launch_backward(const AttentionWork& work, int blocks, const uint8_t* packed,
                     const BFloat16* y, const BFloat16* grad_z, BFloat16* grad_y, float* slots,
                     cudaStream_t stream) {
  auto* kernel = backward_kernel<Sizes, kParts>;
  const int bytes = BackwardMemory<Sizes::kWidth>{work.graphs, work.tile_rows}.bytes();
  allow_shared(kernel, bytes);
  kernel<<<uint32_t(blocks), kAttentionThreads, size_t(bytes), stream>>>(packed, y, grad_z, grad_y,
                                                                         slots, work);
}

}  // namespace

uint64_t attention_backward_workspace(const FusedAttentionShape& shape) {
  uint64_t floats = 0;
  with_attention_width(shape.width, [&](auto sizes) {
    floats = uint64_t(AttentionSlot<decltype(sizes)>::floats(int(shape.graphs)));
  });
  return floats * sizeof(float) * uint64_t(multiprocessors() * kBlocksAMultiprocessor);
}

void attention_backward(const FusedAttentionShape& shape, int shared, const void* packed_,
                        const BFloat16* y, const BFloat16* grad_z, BFloat16* grad_y,
                        const Gradients& gradients, void* workspace, cudaStream_t stream) {
  const int blocks = multiprocessors() * kBlocksAMultiprocessor, graphs = int(shape.graphs);
  const auto* packed = static_cast<const uint8_t*>(packed_);
  auto* slots = static_cast<float*>(workspace);
  with_attention_width(shape.width, [&](auto sizes) {
    using Sizes = decltype(sizes);
    const AttentionWork work = {
        graphs, int(shape.rows), shape.used,
        attention_tile_rows(shared, kBlocksAMultiprocessor, [&](int rows) {
          return BackwardMemory<Sizes::kWidth>{graphs, rows}.bytes();
        })};
    if constexpr (Sizes::kKeeps) {
      launch_backward<Sizes, kAll>(work, blocks, packed, y, grad_z, grad_y, slots, stream);
    } else {
      launch_backward<Sizes, kOfTokens>(work, blocks, packed, y, grad_z, grad_y, slots, stream);
      launch_backward<Sizes, 1>(work, blocks, packed, y, grad_z, grad_y, slots, stream);
      launch_backward<Sizes, 2>(work, blocks, packed, y, grad_z, grad_y, slots, stream);
      launch_backward<Sizes, 4>(work, blocks, packed, y, grad_z, grad_y, slots, stream);
    }
    constexpr int kThreads = 128;
    const int floats = AttentionSlot<Sizes>::floats(graphs);
    sum_attention_kernel<Sizes>
        <<<uint32_t(divide_up(floats, kThreads)), kThreads, 0, stream>>>(slots, blocks, graphs,
                                                                         gradients);
  });
  check_launch("fused_attention_backward");
}

}  // namespace lacuna::mma
