// The backward pass of fused_attention.h; see fused_attention_mma.cuh.
//
// With dz of a row and a head, shares p_ij = a_ij / G and w_j = dz . v_j:
//
//   dv_j = sum over i of p_ij dz             ds_ij = p_ij (w_j - sum over k of a_ik w_k) / sqrt(d)
//   dq_i = sum over j of ds_ij k_j           dk_j = sum over i of ds_ij q_i
//
// (the bias of v adds the same to all w and drops out). They go to shared memory, those of all
// heads side by side and a tile's tokens without gaps. From there, times the tokens, they are
// gradients of weights, which a warp sums in registers for its head over all tiles; times the
// weights, gradients of y, a warp a quarter of the inputs; and added up over the rows, gradients of
// biases and positions. At the end a block's sums go to its slot; two last kernels add the slots in
// order.
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

// A block's sums: gradients of weights [3, in, out] as they are, then those of q, k and v over all
// rows [G, across].
template <class Sizes>
struct AttentionSlot {
  static constexpr int kSumsAt = kAttentionLinears * Sizes::kWidth * Sizes::kWidth;
  __host__ __device__ static int floats(int graphs) { return kSumsAt + graphs * Sizes::kAcross; }
};

// Shared memory of a block: two stages of tokens and dz, the gradients of a tile, which graph each
// of its tokens is of, and every thread's sums over rows.
template <class Sizes>
struct BackwardMemory {
  static constexpr int kThreadSums = kAttentionLinears * Sizes::kBlocks * 8;  // columns x graphs
  int graphs, tile_rows;

  __host__ __device__ int steps() const { return sixteens(graphs * tile_rows); }  // of tokens
  __host__ __device__ int token_bytes() const {
    return TokenTile<Sizes::kWidth>::bytes(graphs, tile_rows);
  }
  __host__ __device__ int dz_at(int stage) const {
    return 2 * token_bytes() + stage * tile_rows * 2 * Sizes::kWidth;
  }
  __host__ __device__ int gradients_at() const { return (dz_at(2) + 127) / 128 * 128; }
  __host__ __device__ int owners_at() const {
    return gradients_at() + steps() * 32 * Sizes::kAcross;
  }
  __host__ __device__ int sums_at() const { return owners_at() + steps() * 512; }
  __host__ __device__ int bytes() const {
    return sums_at() + kThreadSums * kAttentionThreads * int(sizeof(float));
  }
};
// Rows of all gradients of a token; pieces of 16 bytes turned as in mma_parts.cuh.
template <class Sizes>
__device__ __forceinline__ uint32_t place_across(int token, int piece) {
  static_assert(Sizes::kAcross % 64 == 0, "say how the pieces of such rows are to be turned");
  return uint32_t(token * 2 * Sizes::kAcross + ((piece ^ (token & 7)) << 4));
}

// One head: what it keeps over all rows, and the way of a row through it.
template <class Sizes, int kParts>
struct HeadBack {
  static constexpr int kWidth = Sizes::kWidth, kBlocks = Sizes::kBlocks, kSteps = Sizes::kSteps;
  static constexpr bool kTokens = (kParts & kOfTokens) != 0, kQueries = kParts & (1 << kQuery),
                        kKeys = kParts & (1 << kKey), kValues = kParts & (1 << kValue);
  static constexpr int kSummed = kQueries + kKeys + kValues;  // Linears
  int head, lane, graphs;
  const HeadWeights<kWidth> weights;
  const HeadBias<kWidth> bias;
  const TokenMask mask;
  const float scale = score_scale<kWidth>();
  Sums16 weight_sums[kSummed ? kSummed : 1][kBlocks][kSteps];  // columns x inputs

  __device__ HeadBack(const uint8_t* packed, int head_, int lane_, int graphs_)
      : head(head_),
        lane(lane_),
        graphs(graphs_),
        weights(packed, head_, lane_),
        bias(packed, head_, lane_),
        mask(graphs_, lane_) {
#pragma unroll
    for (int i = 0; i < kSummed * kBlocks * kSteps * 8; ++i)
      weight_sums[i / (8 * kBlocks * kSteps)][i / (8 * kSteps) % kBlocks][i / 8 % kSteps]
          .s[i / 4 % 2][i % 4] = 0;
  }

  // The tokens of a row -> q, k, v as tokens x columns.
  __device__ __forceinline__ void recompute(const TokenRow<kWidth>& tokens, Operand (&q)[kBlocks],
                                            Operand (&k)[kBlocks], Operand (&v)[kBlocks]) const {
    Sums16 sums[kAttentionLinears][kBlocks];
    const auto add = [&](int step, bool first) {
      const Operand a = tokens.get(step);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        multiply_step(first, sums[kQuery][block], a, weights.get(kQuery, step, block),
                      bias.of[block]);
        multiply_step(first, sums[kKey][block], a, weights.get(kKey, step, block));
        multiply_step(first, sums[kValue][block], a, weights.get(kValue, step, block));
      }
    };
    add(0, true);
#pragma unroll Sizes::kUnrolled
    for (int step = 1; step < kSteps; ++step) add(step, false);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      q[block] = operand_of(sums[kQuery][block]);
      k[block] = operand_of(sums[kKey][block]);
      v[block] = operand_of(sums[kValue][block]);
    }
  }

  // dz: the head's of the row. across: where gradients go, from row `token` on.
  __device__ __forceinline__ void row(const TokenRow<kWidth>& tokens, const BFloat16* dz,
                                      uint8_t* across, int token) {
    Operand q[kBlocks], k[kBlocks], v[kBlocks];
    recompute(tokens, q, k, v);
    Sums16 shares = scores_of(q, k, mask);
    const TwoRows to_shares = softmax_rows(shares, mask.share, scale * kLog2E);
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
      const uint32_t near = pair(16 * block + 2 * (lane % 4)),
                     far = pair(16 * block + 8 + 2 * (lane % 4));
      const uint32_t upper = both(16 * block + lane / 4), lower = both(16 * block + 8 + lane / 4);
      dz_rows[block] = {near, near, far, far};
      dz_columns[block] = {upper, lower, upper, lower};
    }
    Sums16 ds;  // first w, the same in every row
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
      multiply_step(block == 0, ds, dz_rows[block], v[block]);
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      float mean = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& share = shares.s[i >> 1][e + (i & 1)];
        share *= e ? to_shares.lower : to_shares.upper;
        mean = fmaf(share, ds.s[i >> 1][e + (i & 1)], mean);
      }
      mean = quad_sum(mean) * float(graphs) * scale;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& d = ds.s[i >> 1][e + (i & 1)];
        d = shares.s[i >> 1][e + (i & 1)] * fmaf(d, scale, -mean);
      }
    }
    const Operand of_ds = operand_of(ds);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      if constexpr (kTokens || kQueries)
        store(across, token, kQuery, block, of_ds, transposed(k[block]));
      if constexpr (kTokens || kKeys)
        store(across, token, kKey, block, transposed(of_ds), transposed(q[block]));
      if constexpr (kTokens || kValues)
        store(across, token, kValue, block, transposed(operand_of(shares)), dz_columns[block]);
    }
  }

  // After all rows of a tile of this warp. owners: [steps, 32] of the tokens' graphs.
  __device__ __forceinline__ void sum_tile(uint32_t tokens, uint32_t across, const uint4* owners,
                                           int steps, float4* thread_sums) {
    // Gradients as columns x tokens, tokens as inputs x tokens: lanes give the rows of tokens.
    const uint32_t x_at = across + uint32_t(((lane & 7) + ((lane >> 4) << 3)) * 2 * Sizes::kAcross);
    const uint32_t t_at = tokens + uint32_t((lane & 15) * 2 * kWidth);
    Sums16 sums[kAttentionLinears][kBlocks] = {};
#pragma unroll 1
    for (int m = 0; m < steps; ++m) {
      Operand x[kAttentionLinears][kBlocks];
#pragma unroll
      for (int l = 0; l < kAttentionLinears; ++l)
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          if (!(kTokens || (kParts & (1 << l)))) continue;
          const int piece = ((l * kHeads + head) * kBlocks + block) * 2 + ((lane >> 3) & 1);
          load_transposed(x[l][block].p, x_at + uint32_t(m * 32 * Sizes::kAcross) +
                                             uint32_t((piece ^ (lane & 7)) << 4));
          if constexpr (kTokens) {
            const uint4 owner = owners[m * 32 + lane];
            multiply(sums[l][block].s[0], x[l][block].p, owner.x, owner.y);
            multiply(sums[l][block].s[1], x[l][block].p, owner.z, owner.w);
          }
        }
      if constexpr (kSummed > 0) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          uint32_t t[4];
          load_transposed(t, t_at + uint32_t(m * 32 * kWidth) +
                                 turned_piece(2 * step, lane >> 4, turn<kWidth>(lane & 15)));
          int place = 0;
#pragma unroll
          for (int l = 0; l < kAttentionLinears; ++l) {
            if (!(kParts & (1 << l))) continue;
#pragma unroll
            for (int block = 0; block < kBlocks; ++block) {
              multiply(weight_sums[place][block][step].s[0], x[l][block].p, t[0], t[1]);
              multiply(weight_sums[place][block][step].s[1], x[l][block].p, t[2], t[3]);
            }
            ++place;
          }
        }
      }
    }
    if constexpr (kTokens) {
#pragma unroll
      for (int i = 0; i < 2 * kAttentionLinears * kBlocks; ++i) {
        const float* s = sums[i / 2 / kBlocks][i / 2 % kBlocks].s[i % 2];
        float4& to = thread_sums[i * kAttentionThreads + int(threadIdx.x)];
        to.x += s[0], to.y += s[1], to.z += s[2], to.w += s[3];
      }
    }
  }

  __device__ __forceinline__ static Operand product(const Operand& a, const Operand& b) {
    Sums16 sums;
    multiply_new(sums, a, b);
    return operand_of(sums);
  }
  // a b^T, tokens x columns.
  __device__ __forceinline__ void store(uint8_t* across, int first, int linear, int block,
                                        const Operand& a, const Operand& b) const {
    const Operand pairs = product(a, b);
    const int piece = ((linear * kHeads + head) * kBlocks + block) * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = lane / 4 + 8 * (i & 1);
      if (token < graphs)
        *reinterpret_cast<uint32_t*>(across + place_across<Sizes>(first + token, piece + (i >> 1)) +
                                     4 * (lane % 4)) = pairs.p[i];
    }
  }

  __device__ __forceinline__ void store_sums(float* slot, const float4* thread_sums) const {
    if constexpr (kTokens) {
#pragma unroll
      for (int i = 0; i < 2 * kAttentionLinears * kBlocks; ++i) {
        const float4 v = thread_sums[i * kAttentionThreads + int(threadIdx.x)];
        const float s[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = (i / 2 / kBlocks * kHeads + head) * Sizes::kColumns +
                             i / 2 % kBlocks * 16 + lane / 4 + 8 * (e >> 1);
          const int g = 8 * (i % 2) + 2 * (lane % 4) + (e & 1);
          if (g < graphs) slot[AttentionSlot<Sizes>::kSumsAt + g * Sizes::kAcross + column] = s[e];
        }
      }
    }
    int place = 0;
#pragma unroll
    for (int l = 0; l < kAttentionLinears; ++l) {
      if (!(kParts & (1 << l))) continue;
#pragma unroll
      for (int i = 0; i < 8 * kBlocks * kSteps; ++i) {
        const int n = (i >> 2) & 1, e = i & 3, block = (i >> 3) % kBlocks,
                  step = (i >> 3) / kBlocks;
        const int column = 16 * block + lane / 4 + 8 * (e >> 1),
                  input = 16 * step + 8 * n + 2 * (lane % 4) + (e & 1);
        if (column < Sizes::kHeadWidth)
          slot[(l * kWidth + input) * kWidth + head * Sizes::kHeadWidth + column] =
              weight_sums[place][block][step].s[n][e];
      }
      ++place;
    }
  }
};

// The gradients of a tile's tokens times their weights -> those of y. A warp has 16 inputs or more;
// where warps are left over, they share the tokens.
template <class Sizes>
struct TokenGradients {
  static constexpr int kWidth = Sizes::kWidth;
  static constexpr int kGroups = Sizes::kSteps < kHeads ? kHeads / Sizes::kSteps : 1;
  static constexpr int kOut = Sizes::kSteps * kGroups / kHeads;  // of 16 inputs, a warp
  const uint8_t* packed;
  const AttentionWork& work;
  BFloat16* grad_y;

  // rows: that are in use, from row `first` on. All steps of 16 tokens are computed.
  __device__ __forceinline__ void run(uint32_t across, int steps, int first, int rows) const {
    // Eight rows of nine graphs are five steps, four are three.
    constexpr int kMany = kOut == 1 ? 5 : 3, kSome = kOut == 1 ? 3 : 2;
    const int warp = int(threadIdx.x) / 32, step = warp * kOut % Sizes::kSteps;
    int m = warp * kOut / Sizes::kSteps * (steps / kGroups);
    const int end = warp * kOut / Sizes::kSteps + 1 == kGroups ? steps : m + steps / kGroups;
    const int tokens = rows * work.graphs;
    for (; m + kMany <= end; m += kMany) some<kMany>(across, first, tokens, step, m);
    for (; m + kSome <= end; m += kSome) some<kSome>(across, first, tokens, step, m);
    for (; m < end; ++m) some<1>(across, first, tokens, step, m);
  }

 private:
  template <int kAtOnce>
  __device__ __forceinline__ void some(uint32_t across, int first, int tokens, int step,
                                       int m) const {
    const int lane = int(threadIdx.x) % 32;
    const uint32_t at = across + uint32_t((16 * m + (lane & 15)) * 2 * Sizes::kAcross);
    Sums16 sums[kAtOnce][kOut] = {};
#pragma unroll 1
    for (int four = 0; four < Sizes::kAcross / 64; ++four)
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        Operand w[kOut];
#pragma unroll
        for (int out = 0; out < kOut; ++out)
          w[out] = load_unit(packed + Sizes::kBackAt, Sizes::back_unit(step + out, 4 * four + part),
                             lane);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          Operand a;
          load_matrices(a.p, at + uint32_t(i * 32 * Sizes::kAcross + four * 128) +
                                 turned_piece(2 * part, lane >> 4, lane & 7));
#pragma unroll
          for (int out = 0; out < kOut; ++out) multiply_by(sums[i][out], a, w[out]);
        }
      }
    const int to_row = 65536 / work.graphs + 1;  // token / G for fewer than 4096 tokens
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int token = 16 * (m + i) + lane / 4 + 8 * half;
        if (token >= tokens) continue;
        const int row = token * to_row >> 16, g = token - row * work.graphs;
        BFloat16* to = grad_y + (size_t(g) * work.rows + size_t(first + row)) * kWidth + 16 * step +
                       4 * (lane % 4);
#pragma unroll
        for (int out = 0; out < kOut; ++out) {
          const auto& s = sums[i][out].s;
          *reinterpret_cast<uint2*>(to + 16 * out) =
              make_uint2(bf16_pair(s[0][2 * half], s[0][2 * half + 1]),
                         bf16_pair(s[1][2 * half], s[1][2 * half + 1]));
        }
      }
  }
};

// For every step of 16 tokens, as a right factor: graphs x tokens, 1 where a token is of a graph.
__device__ __forceinline__ void write_owners(uint4* owners, int steps, int graphs, int tokens) {
  for (int i = int(threadIdx.x); i < 32 * steps; i += kAttentionThreads) {
    const int q = i % 32 / 4, t = i % 4;
    const auto pair = [&](int g, int token) {
      const auto is = [&](int k) { return k < tokens && k % graphs == g ? 1.0f : 0.0f; };
      return bf16_pair(is(token), is(token + 1));
    };
    const int token = i / 32 * 16 + 2 * t;
    owners[i] =
        make_uint4(pair(q, token), pair(q, token + 8), pair(q + 8, token), pair(q + 8, token + 8));
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
  const BackwardMemory<Sizes> plan = {work.graphs, work.tile_rows};
  const int lane = int(threadIdx.x) % 32, head = int(threadIdx.x) / 32;
  HeadBack<Sizes, kParts> back(packed, head, lane, work.graphs);
  const auto* position = reinterpret_cast<const float*>(packed + Sizes::kPositionAt);
  auto* sums = reinterpret_cast<float4*>(memory + plan.sums_at());
  auto* owners = reinterpret_cast<uint4*>(memory + plan.owners_at());
  uint8_t* across = memory + plan.gradients_at();
  // Tokens that no row has are 0 in all products.
  for (int i = 16 * int(threadIdx.x); i < plan.bytes(); i += 16 * kAttentionThreads)
    *reinterpret_cast<uint4*>(memory + i) = make_uint4(0, 0, 0, 0);
  __syncthreads();
  write_owners(owners, plan.steps(), work.graphs, work.graphs * work.tile_rows);

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
    __syncthreads();  // the tokens are there; nobody reads the other stage or gradients any more
    fetch(i + int(gridDim.x), stage ^ 1);
    const uint32_t at = shared_address(memory) + uint32_t(stage * plan.token_bytes());
    const auto* dz =
        reinterpret_cast<const BFloat16*>(memory + plan.dz_at(stage)) + head * Sizes::kHeadWidth;
    if (used < work.tile_rows) {  // the last tile: what the one before has left
      for (int k = max(used, 0) * work.graphs * 2 * Sizes::kAcross + 16 * int(threadIdx.x);
           k < plan.owners_at() - plan.gradients_at(); k += 16 * kAttentionThreads)
        *reinterpret_cast<uint4*>(across + k) = make_uint4(0, 0, 0, 0);
      __syncthreads();
    }
#pragma unroll 1
    for (int row = 0; row < used; ++row)
      back.row(TokenRow<kWidth>(at, row, work.graphs, lane), dz + row * kWidth, across,
               row * work.graphs);
    __syncwarp();
    back.sum_tile(at, shared_address(across), owners, plan.steps(), sums);
    if constexpr (kTokens) {
      __syncthreads();  // the gradients are there
      if (used > 0)
        TokenGradients<Sizes>{packed, work, grad_y}.run(shared_address(across), plan.steps(), first,
                                                        used);
      const int there = min(work.tile_rows, work.rows - first);
      if (used < there)
        tile.each(there, [&](int row, int g, int piece) {
          if (row >= used)
            *reinterpret_cast<uint4*>(
                grad_y + (size_t(g) * work.rows + size_t(first + row)) * kWidth + 8 * piece) =
                make_uint4(0, 0, 0, 0);
        });
    }
  }
  copies_wait<0>();
  float* slot = slots + blockIdx.x * size_t(Slot::floats(work.graphs));
  back.store_sums(slot, sums);
}

// ---- from slots to gradients
// Adds the slots, a thread a number; sums [G, across].
template <class Sizes>
__global__ void sum_attention_kernel(const float* __restrict__ slots, int blocks, int graphs,
                                     Gradients to, float* sums) {
  using Slot = AttentionSlot<Sizes>;
  constexpr int kWeights = Sizes::kWidth * Sizes::kWidth;
  const int floats = Slot::floats(graphs), i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= floats) return;
  float total = 0;
#pragma unroll 8
  for (int block = 0; block < blocks; ++block) total += slots[size_t(block) * size_t(floats) + i];
  if (i < Slot::kSumsAt)
    to.weight[i / kWeights][i % kWeights] = total;
  else
    sums[i - Slot::kSumsAt] = total;
}

// A weight as it was packed for the way there.
template <class Sizes>
__device__ float packed_weight(const uint8_t* packed, int linear, int input, int head, int column) {
  const int unit = Sizes::unit(linear, head, input / 16, column / 16);
  const int lane = column % 8 * 4 + input % 8 / 2, k = column % 16 / 8 * 2 + input % 16 / 8;
  const auto* pairs = reinterpret_cast<const uint32_t*>(packed + size_t(unit) * 512);
  const uint32_t pair = pairs[lane * 4 + k];
  return input % 2 ? high_of(pair) : low_of(pair);
}
// From the sums over all rows: biases and positions. A block a graph, a thread an input.
template <class Sizes>
__global__ void vectors_kernel(const uint8_t* __restrict__ packed, const float* __restrict__ sums,
                               int graphs, Gradients to) {
  const int g = int(blockIdx.x), i = int(threadIdx.x);
  const float* mine = sums + g * Sizes::kAcross;
  float total = 0;
  for (int l = 0; l < kAttentionLinears; ++l)
    for (int head = 0; head < kHeads; ++head)
      for (int column = 0; column < Sizes::kHeadWidth; ++column)
        total = fmaf(mine[(l * kHeads + head) * Sizes::kColumns + column],
                     packed_weight<Sizes>(packed, l, i, head, column), total);
  to.position[g * Sizes::kWidth + i] = total;
  if (g != 0) return;
  const int column = i / Sizes::kHeadWidth * Sizes::kColumns + i % Sizes::kHeadWidth;
  float query = 0, value = 0;
  for (int k = 0; k < graphs; ++k) {
    query += sums[k * Sizes::kAcross + column];
    value += sums[k * Sizes::kAcross + kValue * kHeads * Sizes::kColumns + column];
  }
  to.bias[kQuery][i] = query;
  to.bias[kKey][i] = 0;
  to.bias[kValue][i] = value;
}

template <class Sizes, int kParts>
void launch_backward(const AttentionWork& work, int blocks, const uint8_t* packed,
                     const BFloat16* y, const BFloat16* grad_z, BFloat16* grad_y, float* slots,
                     cudaStream_t stream) {
  auto* kernel = backward_kernel<Sizes, kParts>;
  const int bytes = BackwardMemory<Sizes>{work.graphs, work.tile_rows}.bytes();
  allow_shared(kernel, bytes);
  kernel<<<uint32_t(blocks), kAttentionThreads, size_t(bytes), stream>>>(packed, y, grad_z, grad_y,
                                                                         slots, work);
}

template <class Sizes>
uint64_t slots_floats(int graphs) {
  return uint64_t(AttentionSlot<Sizes>::floats(graphs)) *
         uint64_t(multiprocessors() * kBlocksAMultiprocessor);
}

}  // namespace

uint64_t attention_backward_workspace(const FusedAttentionShape& shape) {
  uint64_t floats = 0;
  with_attention_width(shape.width, [&](auto sizes) {
    floats = slots_floats<decltype(sizes)>(int(shape.graphs)) +
             uint64_t(shape.graphs) * uint64_t(sizes.kAcross);
  });
  return floats * sizeof(float);
}

void attention_backward(const FusedAttentionShape& shape, int shared, const void* packed_,
                        const BFloat16* y, const BFloat16* grad_z, BFloat16* grad_y,
                        const Gradients& gradients, void* workspace, cudaStream_t stream) {
  const int blocks = multiprocessors() * kBlocksAMultiprocessor, graphs = int(shape.graphs);
  const auto* packed = static_cast<const uint8_t*>(packed_);
  auto* slots = static_cast<float*>(workspace);
  with_attention_width(shape.width, [&](auto sizes) {
    using Sizes = decltype(sizes);
    const auto bytes = [&](int rows) { return BackwardMemory<Sizes>{graphs, rows}.bytes(); };
    const AttentionWork work = {graphs, int(shape.rows), shape.used,
                                attention_tile_rows(shared, kBlocksAMultiprocessor, bytes)};
    if constexpr (Sizes::kKeeps) {
      launch_backward<Sizes, kAll>(work, blocks, packed, y, grad_z, grad_y, slots, stream);
    } else {
      launch_backward<Sizes, kOfTokens>(work, blocks, packed, y, grad_z, grad_y, slots, stream);
      launch_backward<Sizes, 1>(work, blocks, packed, y, grad_z, grad_y, slots, stream);
      launch_backward<Sizes, 2>(work, blocks, packed, y, grad_z, grad_y, slots, stream);
      launch_backward<Sizes, 4>(work, blocks, packed, y, grad_z, grad_y, slots, stream);
    }
    constexpr int kThreads = 128;
    float* sums = slots + slots_floats<Sizes>(graphs);
    const int floats = AttentionSlot<Sizes>::floats(graphs);
    sum_attention_kernel<Sizes><<<uint32_t(divide_up(floats, kThreads)), kThreads, 0, stream>>>(
        slots, blocks, graphs, gradients, sums);
    vectors_kernel<Sizes>
        <<<uint32_t(graphs), Sizes::kWidth, 0, stream>>>(packed, sums, graphs, gradients);
  });
  check_launch("fused_attention_backward");
}

}  // namespace lacuna::mma
