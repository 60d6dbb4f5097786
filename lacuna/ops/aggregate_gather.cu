#include "lacuna/ops/aggregate_gather.cuh"

namespace lacuna::cuda {
namespace {

constexpr int kWarps = 4;        // rows of a block of short rows
constexpr int kLongWarps = 8;    // of a block of long rows: they share a row's neighbours
constexpr int kRowsAtOnce = 16;  // rows that a block of long rows looks through
constexpr uint32_t kLong =
    512;  // neighbours (of all types that an output row sums) from which on a row is long

// What a lane does: in each of TILES tiles of columns, VEC adjacent ones of one sample, for every (32 / lanes)th neighbour.
template <int TILES>
struct Lane {
  int lanes;  // lanes side by side that cover a tile's columns; a power of two, 32 with several tiles
  int group;  // which neighbours: group, group + groups, ...
  int groups;
  int64_t column;  // in the first tile; the next ones are `step` on
  int step;
  int sample[TILES];
  bool active[TILES];  // the column exists
  int word0,
      word1;  // words of RemovedBits that the samples lie in, and which bits of the first and the last
  uint32_t mask0, mask1;
};

template <class Real, int VEC, int TILES>
__device__ __forceinline__ Lane<TILES> make_lane(const GatherArgs<Real>& a, int lanes,
                                                 int64_t tile) {
  Lane<TILES> l;
  const int lane = threadIdx.x & 31;
  l.lanes = lanes;
  l.groups = 32 / lanes;
  l.group = lane / lanes;
  l.step = lanes * VEC;
  const int64_t first = tile * TILES * l.step;
  l.column = first + lane % lanes * VEC;
#pragma unroll
  for (int i = 0; i < TILES; ++i) {
    l.active[i] = l.column + i * l.step < a.columns;
    l.sample[i] = l.active[i] ? int((l.column + i * l.step) / a.width) : 0;
  }
  const int64_t last = min(first + TILES * l.step, a.columns) - 1;
  const int b0 = int(first / a.width), b1 = int(last / a.width);
  l.word0 = b0 >> 5;
  l.word1 = b1 >> 5;
  l.mask0 = ~0u << (b0 & 31);
  l.mask1 = ~0u >> (31 - (b1 & 31));
  return l;
}

template <class Real>
__device__ __forceinline__ bool is_removed(const GatherArgs<Real>& a, uint32_t node, int sample) {
  return a.removed.word[int64_t(node) * a.removed.words + (sample >> 5)] >> (sample & 31) & 1;
}

// Whether a sample of the warp's tiles removes the node.
template <class Real, int TILES>
__device__ __forceinline__ bool is_removed_here(const GatherArgs<Real>& a, const Lane<TILES>& l,
                                                uint32_t node) {
  const uint32_t* w = a.removed.word + int64_t(node) * a.removed.words;
  if (l.word0 == l.word1) return (w[l.word0] & l.mask0 & l.mask1) != 0;
  uint32_t bits = (w[l.word0] & l.mask0) | (w[l.word1] & l.mask1);
  for (int i = l.word0 + 1; i < l.word1; ++i) bits |= w[i];
  return bits != 0;
}

// Adds neighbours [begin, end) of a row of type t to sum, a few in flight. All lanes of the warp call it.
template <class Real, int VEC, int TILES, bool WEIGHTED, bool MASKED>
__device__ __forceinline__ void add_neighbours(const GatherArgs<Real>& a, const Lane<TILES>& l,
                                               int t, uint32_t begin, uint32_t end,
                                               Sum<Real> (&sum)[TILES][VEC]) {
  using S = Sum<Real>;
  constexpr int kAhead = TILES > 1 ? 2 : WEIGHTED || MASKED || sizeof(Real) == 8 ? 4 : 8;
  const Csr& csr = a.csr.of[t];
  const Real* const source = a.source + t * a.source_stride + l.column;
  const int lane = threadIdx.x & 31;
  for (uint32_t base = begin; base < end; base += 32) {
    const int count = min(32u, end - base);
    uint32_t node = 0, edge = 0;
    S value = 1;
    bool odd = MASKED;
    if (lane < count) {
      node = csr.node(base + lane, a.wide_index);
      if (MASKED || (WEIGHTED && a.values != nullptr)) edge = csr.edge[base + lane];
      if (WEIGHTED && a.values != nullptr) value = a.values[csr.first_edge + edge];
      if (!MASKED) odd = is_removed_here(a, l, node);
    }
    const uint32_t some =
        __ballot_sync(~0u, odd);  // neighbours that have to be looked up sample by sample
    for (int j = 0; j * l.groups < count; j += kAhead) {
      Pack<Real, VEC> piece[kAhead][TILES];
      S weight[kAhead][WEIGHTED ? TILES : 1];
      bool use[kAhead][TILES];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int k = (j + i) * l.groups + l.group;
        const uint32_t u = __shfl_sync(~0u, node, k & 31);
        const uint32_t e = MASKED ? __shfl_sync(~0u, edge, k & 31) : 0;
        const S w = WEIGHTED ? __shfl_sync(~0u, value, k & 31) : S(1);
        const bool look = some >> (k & 31) & 1;
        const Real* const row = source + int64_t(u) * a.columns;
#pragma unroll
        for (int p = 0; p < TILES; ++p) {
          bool good = k < count && l.active[p];
          if (good && look) {
            good = MASKED ? a.masks.base[l.sample[p] * a.masks.stride + a.masks.offset[t] + e] != 0
                          : !is_removed(a, u, l.sample[p]);
          }
          if (WEIGHTED) {
            weight[i][p] = w;
            if (good && a.neighbour_scale != nullptr) {
              const int64_t batch = a.columns / a.width;
              const S s = a.neighbour_scale[(int64_t(t) * a.nodes + u) * batch + l.sample[p]];
              weight[i][p] *= s;
              good =
                  s !=
                  0;  // a neighbour without kept in-edges counts as nothing, even an infinite one
            }
          }
          use[i][p] = good;
          if (good) piece[i][p].load(row + p * l.step);
        }
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
#pragma unroll
        for (int p = 0; p < TILES; ++p) {
          if (!use[i][p]) continue;
#pragma unroll
          for (int c = 0; c < VEC; ++c) {
            const S x = widen(piece[i][p].value[c]);
            sum[p][c] = WEIGHTED ? fma(weight[i][p], x, sum[p][c]) : sum[p][c] + x;
          }
        }
      }
    }
  }
}

// Adds types [t0, t1) of a row to total: the part [part, part + 1) / parts of each one's neighbours. A type's sum is
// scaled before it is added where there is a scale.
template <class Real, int VEC, int TILES, bool WEIGHTED, bool MASKED, bool SCALED>
__device__ __forceinline__ void add_types(const GatherArgs<Real>& a, const Lane<TILES>& l, int t0,
                                          int t1, uint32_t row, uint32_t part, uint32_t parts,
                                          Sum<Real> (&total)[TILES][VEC]) {
  using S = Sum<Real>;
  for (int t = t0; t < t1; ++t) {
    const uint32_t first = a.csr.of[t].ptr[row], count = a.csr.of[t].ptr[row + 1] - first;
    const uint32_t share = (count + parts - 1) / parts;
    const uint32_t begin = first + min(count, part * share);
    const uint32_t end = first + min(count, (part + 1) * share);
    if (!SCALED) {
      add_neighbours<Real, VEC, TILES, WEIGHTED, MASKED>(a, l, t, begin, end, total);
      continue;
    }
    S sum[TILES][VEC] = {};
    add_neighbours<Real, VEC, TILES, WEIGHTED, MASKED>(a, l, t, begin, end, sum);
#pragma unroll
    for (int p = 0; p < TILES; ++p) {
      const int64_t batch = a.columns / a.width;
      const S scale =
          l.active[p] ? a.row_scale[(int64_t(t) * a.nodes + row) * batch + l.sample[p]] : S(0);
      if (scale == 0) continue;  // no kept in-edges
#pragma unroll
      for (int c = 0; c < VEC; ++c) total[p][c] = fma(scale, sum[p][c], total[p][c]);
    }
  }
  for (int step = l.lanes; step < 32; step *= 2) {  // lanes that hold the same columns add up
#pragma unroll
    for (int p = 0; p < TILES; ++p) {
#pragma unroll
      for (int c = 0; c < VEC; ++c) total[p][c] += __shfl_xor_sync(~0u, total[p][c], step);
    }
  }
}

// Removed rows, the self term, and the row is written.
template <class Real, int VEC, int TILES, bool MASKED>
__device__ __forceinline__ void close_row(const GatherArgs<Real>& a, const Lane<TILES>& l, int t0,
                                          int t1, uint32_t row, Sum<Real> (&total)[TILES][VEC]) {
  using S = Sum<Real>;
  if (l.group != 0) return;
  const bool odd = !MASKED && is_removed_here(a, l, row);
  const int64_t out_row = a.all_types ? row : int64_t(t0) * a.nodes + row;
#pragma unroll
  for (int p = 0; p < TILES; ++p) {
    if (!l.active[p]) continue;
    const int64_t column = l.column + p * l.step;
    if (odd && is_removed(a, row, l.sample[p])) {
#pragma unroll
      for (int c = 0; c < VEC; ++c) total[p][c] = 0;
    }
    for (int t = t0; t < t1 && a.eps != nullptr; ++t) {
      Pack<Real, VEC> own;
      own.load(a.source + t * a.source_stride + int64_t(row) * a.columns + column);
      const S scale = 1 + a.eps[t];
#pragma unroll
      for (int c = 0; c < VEC; ++c) total[p][c] = fma(scale, S(widen(own.value[c])), total[p][c]);
    }
    Pack<Real, VEC> result;
#pragma unroll
    for (int c = 0; c < VEC; ++c) result.value[c] = round_to<Real>(total[p][c]);
    result.store(a.out + out_row * a.columns + column);
  }
}

template <class Real>
__device__ __forceinline__ uint32_t row_length(const GatherArgs<Real>& a, int t0, int t1,
                                               uint32_t row) {
  uint32_t length = 0;
  for (int t = t0; t < t1; ++t) length += a.csr.of[t].ptr[row + 1] - a.csr.of[t].ptr[row];
  return length;
}

// Rows that are not long: a warp a row and TILES tiles.
template <class Real, int VEC, int TILES, bool WEIGHTED, bool MASKED, bool SCALED>
__global__ void __launch_bounds__(kWarps * 32)
    short_rows(const __grid_constant__ GatherArgs<Real> a, int lanes) {
  const int64_t place = int64_t(blockIdx.x) * kWarps + (threadIdx.x >> 5);
  if (place >= int64_t(a.nodes) * (a.all_types ? 1 : a.types)) return;
  const int t0 = a.all_types ? 0 : int(place / a.nodes), t1 = a.all_types ? a.types : t0 + 1;
  const uint32_t row = uint32_t(a.all_types ? place : place - int64_t(t0) * a.nodes);
  if (row_length(a, t0, t1, row) > kLong) return;
  const Lane<TILES> l = make_lane<Real, VEC, TILES>(a, lanes, blockIdx.y);
  Sum<Real> total[TILES][VEC] = {};
  add_types<Real, VEC, TILES, WEIGHTED, MASKED, SCALED>(a, l, t0, t1, row, 0, 1, total);
  close_row<Real, VEC, TILES, MASKED>(a, l, t0, t1, row, total);
}

// Long rows: every warp of the block takes an eighth of a type's neighbours, the first one adds the eighths in order.
template <class Real, int VEC, bool WEIGHTED, bool MASKED, bool SCALED>
__global__ void __launch_bounds__(kLongWarps * 32)
    long_rows(const __grid_constant__ GatherArgs<Real> a, int lanes) {
  using S = Sum<Real>;
  __shared__ S part[kLongWarps][32][VEC];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int64_t places = int64_t(a.nodes) * (a.all_types ? 1 : a.types);
  for (int64_t place = int64_t(blockIdx.x) * kRowsAtOnce;
       place < min(int64_t(blockIdx.x + 1) * kRowsAtOnce, places); ++place) {
    const int t0 = a.all_types ? 0 : int(place / a.nodes), t1 = a.all_types ? a.types : t0 + 1;
    const uint32_t row = uint32_t(a.all_types ? place : place - int64_t(t0) * a.nodes);
    if (row_length(a, t0, t1, row) <= kLong) continue;
    const Lane<1> l = make_lane<Real, VEC, 1>(a, lanes, blockIdx.y);
    S total[1][VEC] = {};
    add_types<Real, VEC, 1, WEIGHTED, MASKED, SCALED>(a, l, t0, t1, row, warp, kLongWarps, total);
#pragma unroll
    for (int c = 0; c < VEC; ++c) part[warp][lane][c] = total[0][c];
    __syncthreads();
    if (warp == 0) {
      S all[1][VEC] = {};
      for (int p = 0; p < kLongWarps; ++p) {
#pragma unroll
        for (int c = 0; c < VEC; ++c) all[0][c] += part[p][lane][c];
      }
      close_row<Real, VEC, 1, MASKED>(a, l, t0, t1, row, all);
    }
    __syncthreads();
  }
}

template <class Real, int VEC, int TILES, bool WEIGHTED, bool MASKED, bool SCALED>
void launch(const GatherArgs<Real>& a, cudaStream_t stream) {
  int lanes = 1;
  while (lanes < 32 && lanes * VEC < a.columns) lanes *= 2;
  const int64_t rows = int64_t(a.nodes) * (a.all_types ? 1 : a.types);
  const dim3 grid(uint32_t(divide_up(rows, kWarps)),
                  uint32_t(divide_up(a.columns, lanes * VEC * TILES)));
  short_rows<Real, VEC, TILES, WEIGHTED, MASKED, SCALED>
      <<<grid, kWarps * 32, 0, stream>>>(a, lanes);
  const dim3 long_grid(uint32_t(divide_up(rows, kRowsAtOnce)),
                       uint32_t(divide_up(a.columns, lanes * VEC)));
  long_rows<Real, VEC, WEIGHTED, MASKED, SCALED>
      <<<long_grid, kLongWarps * 32, 0, stream>>>(a, lanes);
  check_launch("aggregate (gather)");
}

template <class Real, int VEC, int TILES, bool WEIGHTED>
void launch(const GatherArgs<Real>& a, cudaStream_t stream) {
  if (a.masks.base != nullptr) {
    a.row_scale != nullptr ? launch<Real, VEC, TILES, WEIGHTED, true, true>(a, stream)
                           : launch<Real, VEC, TILES, WEIGHTED, true, false>(a, stream);
  } else {
    a.row_scale != nullptr ? launch<Real, VEC, TILES, WEIGHTED, false, true>(a, stream)
                           : launch<Real, VEC, TILES, WEIGHTED, false, false>(a, stream);
  }
}

template <class Real, int VEC>
void launch(const GatherArgs<Real>& a, cudaStream_t stream) {
  const bool weighted = a.values != nullptr || a.neighbour_scale != nullptr;
  const bool plain = a.masks.base == nullptr && a.row_scale == nullptr;
  if constexpr (VEC > 1 && sizeof(Real) < 8) {  // many columns: four tiles a warp
    if (plain && a.columns > 2 * 32 * VEC) {
      return weighted ? launch<Real, VEC, 4, true, false, false>(a, stream)
                      : launch<Real, VEC, 4, false, false, false>(a, stream);
    }
  }
  weighted ? launch<Real, VEC, 1, true>(a, stream) : launch<Real, VEC, 1, false>(a, stream);
}

bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

}  // namespace

template <class Real>
void gather(const GatherArgs<Real>& a, cudaStream_t stream) {
  if (a.nodes == 0 || a.columns == 0 || a.types == 0) return;
  if (a.width % kWide<Real> == 0 && is_aligned(a.source) && is_aligned(a.out)) {
    launch<Real, kWide<Real>>(a, stream);
  } else {
    launch<Real, 1>(a, stream);
  }
}

template void gather<float>(const GatherArgs<float>&, cudaStream_t);
template void gather<BFloat16>(const GatherArgs<BFloat16>&, cudaStream_t);
template void gather<double>(const GatherArgs<double>&, cudaStream_t);

}  // namespace lacuna::cuda
