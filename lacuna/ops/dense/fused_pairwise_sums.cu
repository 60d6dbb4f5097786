// The last step of the backward pass of fused_pairwise_backward.cuh: adds what the blocks have left
// in their slots, in order, and takes the gradients of V W and V d + c back to V, W, d and c.
#include "lacuna/ops/dense/fused_pairwise_backward.cuh"

namespace lacuna::wgmma {
namespace {

using Parameters = FusedPairwiseParameters<const float>;
using Gradients = FusedPairwiseParameters<float>;

constexpr int kSumThreads = 256;
// Slots are read eight at a time: each is far away.
#define LACUNA_FAR_READS _Pragma("unroll 8")

// Adds the slots of a pair. Grid: (P, parts of a slot).
__global__ void sum_kernel(Between from, PairDeal deal, Rows work, Gradients to) {
  const int pair = int(blockIdx.x), i = int(blockIdx.y * blockDim.x + threadIdx.x);
  if (i >= kSlotFloats) return;
  const int rows = work.count(), tiles = (rows + kTileRows - 1) / kTileRows;
  const float* slots = from.pair_slots + i;
  float total = 0;
  if (pair < deal.whole) {
    for (int range = 0; range < deal.ranges; ++range)
      if (deal.begin_of(range, tiles) < deal.begin_of(range + 1, tiles))
        total += slots[size_t(range * deal.whole + pair) * kSlotFloats];
  } else if (tiles > 0) {
    const int64_t left = int64_t(deal.pairs - deal.whole) * tiles;
    const int64_t begin = int64_t(pair - deal.whole) * tiles, end = begin + tiles;
    int first = int(max(begin * deal.blocks / left - 1, int64_t(0)));  // no later than the first
    while (deal.left_begin(first + 1, tiles) <= begin) ++first;
    int last = int(min(end * deal.blocks / left + 1, int64_t(deal.blocks)));  // one past the last
    while (deal.left_begin(last - 1, tiles) >= end) --last;
    if (left >= deal.blocks) {  // every block has tiles
      LACUNA_FAR_READS
      for (int block = first; block < last; ++block)
        total += slots[size_t(deal.left_slot(block, pair)) * kSlotFloats];
    } else {
      for (int block = first; block < last; ++block)
        if (deal.left_begin(block, tiles) < deal.left_begin(block + 1, tiles))
          total += slots[size_t(deal.left_slot(block, pair)) * kSlotFloats];
    }
  }
  if (i < kSlotOut)
    to.hidden_weight[size_t(pair) * kSlotOut + i] = total;
  else if (i >= kSlotHiddenBias)
    to.hidden_bias[pair * kHidden + i - kSlotHiddenBias] = total;
  else
    from.sums[size_t(pair) * kSlotFloats + i] = total;
}

// Of a pair: gradients of W and d, and its part of that of V. A block a pair.
__global__ void fold_kernel(Between from, Parameters parameters, Gradients to) {
  __shared__ float fold[kHidden][kHidden + 1], fold_bias[kHidden];  // M by input and output
  __shared__ float scorer[kWidth][kHidden + 1];
  const int pair = int(blockIdx.x), first = int(threadIdx.x), step = int(blockDim.x);
  const float* sums = from.sums + size_t(pair) * kSlotFloats;
  for (int i = first; i < kHidden * kHidden; i += step)
    fold[i / kHidden][i % kHidden] = sums[kSlotFold + i];
  for (int i = first; i < kHidden; i += step) fold_bias[i] = sums[kSlotFoldBias + i];
  for (int i = first; i < kWidth * kHidden; i += step)
    scorer[i / kHidden][i % kHidden] = parameters.score_hidden_weight[i];
  __syncthreads();
  const float* weight = parameters.out_weight + size_t(pair) * kHidden * kWidth;
  const float* bias = parameters.out_bias + size_t(pair) * kWidth;
  for (int i = first; i < kHidden * kWidth; i += step) {
    const int k = i / kWidth, m = i % kWidth;  // input and output of W
    float sum = sums[kSlotOut + m * kHidden + k];
    for (int j = 0; j < kHidden; ++j) sum = fmaf(fold[k][j], scorer[m][j], sum);
    to.out_weight[size_t(pair) * kHidden * kWidth + i] = sum;
  }
  for (int m = first; m < kWidth; m += step) {
    float sum = sums[kSlotOutBias + m];
    for (int j = 0; j < kHidden; ++j) sum = fmaf(fold_bias[j], scorer[m][j], sum);
    to.out_bias[pair * kWidth + m] = sum;
  }
  for (int i = first; i < kWidth * kHidden; i += step) {
    const int m = i / kHidden, j = i % kHidden;
    float sum = bias[m] * fold_bias[j];
    for (int k = 0; k < kHidden; ++k) sum = fmaf(weight[k * kWidth + m], fold[k][j], sum);
    from.scorer_parts[size_t(pair) * kWidth * kHidden + i] = sum;
  }
}

// What all pairs share: a thread a number. rows: whether there are any, else the slots of the rows
// were never written.
__global__ void shared_kernel(Between from, int pairs, int blocks, bool rows, bool normed,
                              Gradients to) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i > kRowSlotFloats) return;
  if (i == kRowSlotFloats) {
    *to.score_bias = 0;
    return;
  }
  float total = 0;
  if (rows) {
    LACUNA_FAR_READS
    for (int block = 0; block < blocks; ++block)
      total += from.row_slots[size_t(block) * kRowSlotFloats + i];
  }
  if (i < kWidth * kHidden) {
    LACUNA_FAR_READS
    for (int pair = 0; pair < pairs; ++pair)
      total += from.scorer_parts[size_t(pair) * kWidth * kHidden + i];
    to.score_hidden_weight[i] = total;
    return;
  }
  const int k = i - kWidth * kHidden;
  if (k < 2 * kWidth) {
    if (normed) (k < kWidth ? to.norm_weight : to.norm_bias)[memory_column(k % kWidth)] = total;
  } else if (k < 2 * kWidth + kHidden) {
    const int j = k - 2 * kWidth;
    LACUNA_FAR_READS
    for (int pair = 0; pair < pairs; ++pair)
      total += from.sums[size_t(pair) * kSlotFloats + kSlotFoldBias + j];
    to.score_hidden_bias[j] = total;
  } else {
    const int j = k - 2 * kWidth - kHidden;
    if (rows) {
      LACUNA_FAR_READS
      for (int block = 0; block < blocks; ++block) total += from.score_slots[block * kHidden + j];
    }
    to.score_weight[j] = total;
  }
}

}  // namespace

void launch_sums(const FusedPairwiseShape& shape, const Parameters& parameters, const Between& from,
                 int blocks, const Gradients& gradients, CudaStream stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  const int pairs = pairs_of(int(shape.graphs));
  sum_kernel<<<dim3(uint32_t(pairs), uint32_t(divide_up(kSlotFloats, kSumThreads))), kSumThreads, 0,
               stream>>>(from, PairDeal(pairs, blocks), Rows{int(shape.rows), shape.used},
                         gradients);
  fold_kernel<<<uint32_t(pairs), 512, 0, stream>>>(from, parameters, gradients);
  shared_kernel<<<uint32_t(divide_up(kRowSlotFloats + 1, kSumThreads)), kSumThreads, 0, stream>>>(
      from, pairs, blocks, shape.rows > 0, shape.normed, gradients);
}

}  // namespace lacuna::wgmma
