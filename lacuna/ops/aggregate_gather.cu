#include "lacuna/ops/aggregate_gather.cuh"

namespace lacuna::cuda {
namespace {

constexpr int kWarps = 4;  // of a block of short rows: up to four tiles of columns, then more rows
constexpr int kLongWarps = 8;    // of a block of long rows: they share a row's neighbours
constexpr int kRowsAtOnce = 16;  // rows that a block of long rows looks through
constexpr uint32_t kLong =
    512;  // neighbours (of all types that an output row sums) from which on a row is long

// What a lane does: VEC adjacent columns of one sample, for every (32 / lanes)th neighbour.
struct Lane {
  int lanes;  // lanes side by side that cover the tile's columns; a power of two
  int group;  // which neighbours: group, group + groups, ...
  int groups;
  int64_t column;
  int64_t sample;
  bool active;  // the column exists
  int word[2];  // words of RemovedBits that the tile's samples lie in, and which bits of them
  uint32_t mask[2];
};

template <class Real, int VEC>
__device__ Lane make_lane(const GatherArgs<Real>& a, int lanes, int64_t tile) {
  Lane l;
  const int lane = threadIdx.x & 31;
  l.lanes = lanes;
  l.groups = 32 / lanes;
  l.group = lane / lanes;
  const int64_t first = tile * lanes * VEC;
  l.column = first + lane % lanes * VEC;
  l.active = l.column < a.columns;
  l.sample = l.active ? l.column / a.width : 0;
  const int64_t last = min(first + lanes * VEC, a.columns) - 1;
  const int64_t b0 = first / a.width, b1 = last / a.width;
  l.word[0] = int(b0 >> 5);
  l.word[1] = int(b1 >> 5);
  l.mask[0] = ~0u << (b0 & 31);
  l.mask[1] = ~0u >> (31 - (b1 & 31));
  if (l.word[0] == l.word[1]) l.mask[0] = l.mask[1] = l.mask[0] & l.mask[1];
  return l;
}

template <class Real>
__device__ __forceinline__ bool is_removed(const GatherArgs<Real>& a, uint32_t node,
                                           int64_t sample) {
  return a.removed.word[int64_t(node) * a.removed.words + (sample >> 5)] >> (sample & 31) & 1;
}

// Neighbours that the lanes of a warp hold, one each, and what they bring.
template <class Real>
struct Held {
  uint32_t node, edge;
  Sum<Real> value;
  int count;
};

// Adds the held neighbours to sum, AHEAD of them in flight. CHECKED: some of them are removed from
// some sample of the tile.
template <class Real, int VEC, bool WEIGHTED, bool MASKED, bool CHECKED, int AHEAD>
__device__ __forceinline__ void add_held(const GatherArgs<Real>& a, const Lane& l, int t,
                                         const Held<Real>& held, const Real* source,
                                         Sum<Real> (&sum)[VEC]) {
  using S = Sum<Real>;
  for (int j = 0; j * l.groups < held.count; j += AHEAD) {
    Pack<Real, VEC> piece[AHEAD];
    S weight[AHEAD];
    bool use[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      const int k = (j + i) * l.groups + l.group;
      const uint32_t u = __shfl_sync(~0u, held.node, k & 31);
      const uint32_t e = MASKED ? __shfl_sync(~0u, held.edge, k & 31) : 0;
      weight[i] = WEIGHTED ? __shfl_sync(~0u, held.value, k & 31) : S(1);
      use[i] = k < held.count && l.active;
      if (MASKED && use[i]) {
        use[i] = a.masks.base[l.sample * a.masks.stride + a.masks.offset[t] + e] != 0;
      }
      if (CHECKED && use[i]) use[i] = !is_removed(a, u, l.sample);
      if (WEIGHTED && use[i] && a.neighbour_scale != nullptr) {
        const int64_t batch = a.columns / a.width;
        const S s = a.neighbour_scale[(int64_t(t) * a.nodes + u) * batch + l.sample];
        weight[i] *= s;
        use[i] =
            s != 0;  // a neighbour without kept in-edges counts as nothing, even an infinite one
      }
      if (use[i]) piece[i].load(source + int64_t(u) * a.columns);
    }
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      if (!use[i]) continue;
#pragma unroll
      for (int c = 0; c < VEC; ++c) {
        const S x = widen(piece[i].value[c]);
        sum[c] = WEIGHTED ? fma(weight[i], x, sum[c]) : sum[c] + x;
      }
    }
  }
}

// Adds neighbours [begin, end) of a row of type t to sum. All lanes of the warp call it.
template <class Real, int VEC, bool WEIGHTED, bool MASKED>
__device__ __forceinline__ void add_neighbours(const GatherArgs<Real>& a, const Lane& l, int t,
                                               uint32_t begin, uint32_t end,
                                               Sum<Real> (&sum)[VEC]) {
  const Csr& csr = a.csr.of[t];
  const Real* source = a.source + t * a.source_stride + l.column;
  const int lane = threadIdx.x & 31;
  for (uint32_t base = begin; base < end; base += 32) {
    Held<Real> held = {0, 0, 1, int(min(32u, end - base))};
    uint32_t flags = 0;
    if (lane < held.count) {
      held.node = csr.node(base + lane, a.wide_index);
      if (MASKED || (WEIGHTED && a.values != nullptr)) held.edge = csr.edge[base + lane];
      if (WEIGHTED && a.values != nullptr) held.value = a.values[csr.first_edge + held.edge];
      if (!MASKED) {
        const uint32_t* w = a.removed.word + int64_t(held.node) * a.removed.words;
        flags = (w[l.word[0]] & l.mask[0]) | (w[l.word[1]] & l.mask[1]);
      }
    }
    if (__any_sync(~0u, flags != 0)) {
      add_held<Real, VEC, WEIGHTED, MASKED, true, 2>(a, l, t, held, source, sum);
    } else {
      constexpr int kAhead = WEIGHTED || MASKED || sizeof(Real) == 8 ? 4 : 8;
      add_held<Real, VEC, WEIGHTED, MASKED, false, kAhead>(a, l, t, held, source, sum);
    }
  }
}

// The lanes of a warp that hold the same columns add up.
template <class S, int VEC>
__device__ __forceinline__ void join_groups(const Lane& l, S (&sum)[VEC]) {
  for (int step = l.lanes; step < 32; step *= 2) {
#pragma unroll
    for (int c = 0; c < VEC; ++c) sum[c] += __shfl_xor_sync(~0u, sum[c], step);
  }
}

// One row of one type, its sum already there, to be added to what is written.
template <class Real, int VEC>
__device__ __forceinline__ void close_type(const GatherArgs<Real>& a, const Lane& l, int t,
                                           uint32_t row, bool gone, const Sum<Real> (&sum)[VEC],
                                           Sum<Real> (&total)[VEC]) {
  if (gone || !l.active) return;
  Sum<Real> scale = 1;
  if (a.row_scale != nullptr) {
    const int64_t batch = a.columns / a.width;
    scale = a.row_scale[(int64_t(t) * a.nodes + row) * batch + l.sample];
    if (scale == 0) return;  // no kept in-edges
  }
#pragma unroll
  for (int c = 0; c < VEC; ++c) total[c] = fma(scale, sum[c], total[c]);
}

// The self term, and the row is written.
template <class Real, int VEC>
__device__ __forceinline__ void close_row(const GatherArgs<Real>& a, const Lane& l, int t0, int t1,
                                          uint32_t row, Sum<Real> (&total)[VEC]) {
  using S = Sum<Real>;
  if (!l.active || l.group != 0) return;
  if (a.eps != nullptr) {
    for (int t = t0; t < t1; ++t) {
      Pack<Real, VEC> own;
      own.load(a.source + t * a.source_stride + int64_t(row) * a.columns + l.column);
      const S scale = 1 + a.eps[t];
#pragma unroll
      for (int c = 0; c < VEC; ++c) total[c] = fma(scale, S(widen(own.value[c])), total[c]);
    }
  }
  Pack<Real, VEC> result;
#pragma unroll
  for (int c = 0; c < VEC; ++c) result.value[c] = round_to<Real>(total[c]);
  const int64_t out_row = a.all_types ? row : int64_t(t0) * a.nodes + row;
  result.store(a.out + out_row * a.columns + l.column);
}

template <class Real>
__device__ __forceinline__ uint32_t row_length(const GatherArgs<Real>& a, int t0, int t1,
                                               uint32_t row) {
  uint32_t length = 0;
  for (int t = t0; t < t1; ++t) length += a.csr.of[t].ptr[row + 1] - a.csr.of[t].ptr[row];
  return length;
}

// Rows that are not long: a warp a row and tile.
template <class Real, int VEC, bool WEIGHTED, bool MASKED>
__global__ void __launch_bounds__(kWarps * 32)
    short_rows(const __grid_constant__ GatherArgs<Real> a, int lanes, int tiles_here) {
  const int warp = threadIdx.x >> 5;
  const int64_t tile = int64_t(blockIdx.y) * tiles_here + warp % tiles_here;
  const int64_t place = int64_t(blockIdx.x) * (kWarps / tiles_here) + warp / tiles_here;
  if (tile * lanes * VEC >= a.columns || place >= int64_t(a.nodes) * (a.all_types ? 1 : a.types)) {
    return;
  }
  const int t0 = a.all_types ? 0 : int(place / a.nodes), t1 = a.all_types ? a.types : t0 + 1;
  const uint32_t row = uint32_t(a.all_types ? place : place % a.nodes);
  if (row_length(a, t0, t1, row) > kLong) return;
  const Lane l = make_lane<Real, VEC>(a, lanes, tile);
  const bool gone = !MASKED && is_removed(a, row, l.sample);
  Sum<Real> total[VEC] = {};
  for (int t = t0; t < t1; ++t) {
    Sum<Real> sum[VEC] = {};
    add_neighbours<Real, VEC, WEIGHTED, MASKED>(a, l, t, a.csr.of[t].ptr[row],
                                                a.csr.of[t].ptr[row + 1], sum);
    join_groups(l, sum);
    close_type<Real, VEC>(a, l, t, row, gone, sum, total);
  }
  close_row<Real, VEC>(a, l, t0, t1, row, total);
}

// Long rows: every warp of the block takes an eighth of a type's neighbours, the first one adds the
// eighths in order.
template <class Real, int VEC, bool WEIGHTED, bool MASKED>
__global__ void __launch_bounds__(kLongWarps * 32)
    long_rows(const __grid_constant__ GatherArgs<Real> a, int lanes) {
  using S = Sum<Real>;
  __shared__ S part[kLongWarps][32][VEC];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int64_t places = int64_t(a.nodes) * (a.all_types ? 1 : a.types);
  for (int64_t place = int64_t(blockIdx.x) * kRowsAtOnce;
       place < min(int64_t(blockIdx.x + 1) * kRowsAtOnce, places); ++place) {
    const int t0 = a.all_types ? 0 : int(place / a.nodes), t1 = a.all_types ? a.types : t0 + 1;
    const uint32_t row = uint32_t(a.all_types ? place : place % a.nodes);
    if (row_length(a, t0, t1, row) <= kLong) continue;
    const Lane l = make_lane<Real, VEC>(a, lanes, blockIdx.y);
    const bool gone = !MASKED && is_removed(a, row, l.sample);
    S total[VEC] = {};
    for (int t = t0; t < t1; ++t) {
      const uint32_t begin = a.csr.of[t].ptr[row], count = a.csr.of[t].ptr[row + 1] - begin;
      const uint32_t share = (count + kLongWarps - 1) / kLongWarps;
      S sum[VEC] = {};
      add_neighbours<Real, VEC, WEIGHTED, MASKED>(a, l, t, begin + min(count, warp * share),
                                                  begin + min(count, (warp + 1) * share), sum);
      join_groups(l, sum);
      close_type<Real, VEC>(a, l, t, row, gone, sum, total);
    }
#pragma unroll
    for (int c = 0; c < VEC; ++c) part[warp][lane][c] = total[c];
    __syncthreads();
    if (warp == 0) {
      S all[VEC] = {};
      for (int p = 0; p < kLongWarps; ++p) {
#pragma unroll
        for (int c = 0; c < VEC; ++c) all[c] += part[p][lane][c];
      }
      close_row<Real, VEC>(a, l, t0, t1, row, all);
    }
    __syncthreads();
  }
}

template <class Real, int VEC, bool WEIGHTED, bool MASKED>
void launch(const GatherArgs<Real>& a, cudaStream_t stream) {
  int lanes = 1;
  while (lanes < 32 && lanes * VEC < a.columns) lanes *= 2;
  const int64_t tiles = divide_up(a.columns, lanes * VEC);
  const int tiles_here = tiles >= 4 ? 4 : tiles >= 2 ? 2 : 1;
  const int64_t rows = int64_t(a.nodes) * (a.all_types ? 1 : a.types);
  const dim3 grid(uint32_t(divide_up(rows, kWarps / tiles_here)),
                  uint32_t(divide_up(tiles, tiles_here)));
  short_rows<Real, VEC, WEIGHTED, MASKED><<<grid, kWarps * 32, 0, stream>>>(a, lanes, tiles_here);
  const dim3 long_grid(uint32_t(divide_up(rows, kRowsAtOnce)), uint32_t(tiles));
  long_rows<Real, VEC, WEIGHTED, MASKED><<<long_grid, kLongWarps * 32, 0, stream>>>(a, lanes);
  check_launch("aggregate (gather)");
}

template <class Real, int VEC>
void launch(const GatherArgs<Real>& a, cudaStream_t stream) {
  const bool weighted = a.values != nullptr || a.neighbour_scale != nullptr;
  if (a.masks.base != nullptr) {
    weighted ? launch<Real, VEC, true, true>(a, stream) : launch<Real, VEC, false, true>(a, stream);
  } else {
    weighted ? launch<Real, VEC, true, false>(a, stream)
             : launch<Real, VEC, false, false>(a, stream);
  }
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
