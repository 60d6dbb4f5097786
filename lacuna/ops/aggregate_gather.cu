#include "lacuna/ops/aggregate_gather.cuh"

#include <algorithm>

namespace lacuna::cuda {
namespace {

constexpr int kWarps = 4;                // rows of a block of short rows
constexpr int64_t kEnoughWarps = 20000;  // that fill a device several times
constexpr int kLongWarps = 8;            // of a block of long rows: they share a row's neighbours
// Neighbours (of all types that an output row sums) from which on a row is long.
constexpr uint32_t kLong = 512;

// What a lane does: VEC adjacent columns of one sample, for every groups-th neighbour.
struct Lane {
  int lanes;  // lanes side by side that cover the tile's columns
  int group;  // which neighbours: group, group + groups, ...
  int groups;
  int64_t column;
  int sample;
  bool active;  // the column exists
  // Words of RemovedBits that the tile's samples lie in, and which bits of the first and the last.
  int word0, word1;
  uint32_t mask0, mask1;
};

template <class Real, int VEC>
__device__ __forceinline__ Lane make_lane(const GatherArgs<Real>& a, int lanes, int64_t tile) {
  Lane l;
  const int lane = threadIdx.x & 31;
  l.lanes = lanes;
  l.groups = 32 / lanes;
  l.group = lane / lanes;
  const int64_t first = tile * lanes * VEC, last = min(first + lanes * VEC, a.columns) - 1;
  l.column = first + lane % lanes * VEC;
  l.active = l.column < a.columns && l.group < l.groups;
  l.sample = l.active ? int(l.column / a.width) : 0;
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
template <class Real>
__device__ __forceinline__ bool is_removed_here(const GatherArgs<Real>& a, const Lane& l,
                                                uint32_t node) {
  const uint32_t* w = a.removed.word + int64_t(node) * a.removed.words;
  if (l.word0 == l.word1) return (w[l.word0] & l.mask0 & l.mask1) != 0;
  uint32_t bits = (w[l.word0] & l.mask0) | (w[l.word1] & l.mask1);
  for (int i = l.word0 + 1; i < l.word1; ++i) bits |= w[i];
  return bits != 0;
}

// Adds neighbours [begin, end) of a row of type t to sum, a few in flight. All lanes of the warp
// call it.
template <class Real, int VEC, bool WEIGHTED, bool MASKED>
__device__ __forceinline__ void add_neighbours(const GatherArgs<Real>& a, const Lane& l, int t,
                                               uint32_t begin, uint32_t end,
                                               Sum<Real> (&sum)[VEC]) {
  using S = Sum<Real>;
  constexpr int kAhead = WEIGHTED || MASKED || sizeof(Real) == 8 ? 4 : 8;
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
    // Neighbours that have to be looked up sample by sample.
    const uint32_t some = __ballot_sync(~0u, odd);
    for (int j = 0; j * l.groups < count; j += kAhead) {
      Pack<Real, VEC> piece[kAhead];
      S weight[kAhead];
      bool use[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int k = (j + i) * l.groups + l.group;
        const uint32_t u = __shfl_sync(~0u, node, k & 31);
        const uint32_t e = MASKED ? __shfl_sync(~0u, edge, k & 31) : 0;
        const S w = WEIGHTED ? __shfl_sync(~0u, value, k & 31) : S(1);
        const bool look = some >> (k & 31) & 1;
        use[i] = k < count && l.active;
        if (use[i] && look) {
          use[i] = MASKED ? a.masks.base[l.sample * a.masks.stride + a.masks.offset[t] + e] != 0
                          : !is_removed(a, u, l.sample);
        }
        weight[i] = w;
        if (WEIGHTED && use[i] && a.neighbour_scale != nullptr) {
          const int64_t batch = a.columns / a.width;
          const S s = a.neighbour_scale[(int64_t(t) * a.nodes + u) * batch + l.sample];
          weight[i] *= s;
          use[i] = s != 0;  // without kept in-edges it counts as nothing, even an infinite one
        }
        if (use[i]) piece[i].load(source + int64_t(u) * a.columns);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (!use[i]) continue;
#pragma unroll
        for (int c = 0; c < VEC; ++c) {
          const S x = widen(piece[i].value[c]);
          sum[c] = WEIGHTED ? fma(weight[i], x, sum[c]) : sum[c] + x;
        }
      }
    }
  }
}

// Adds types [t0, t1) of a row to total: the part [part, part + 1) / parts of each one's
// neighbours. A type's sum is scaled before it is added where there is a scale.
template <class Real, int VEC, bool WEIGHTED, bool MASKED, bool SCALED>
__device__ __forceinline__ void add_types(const GatherArgs<Real>& a, const Lane& l, int t0, int t1,
                                          uint32_t row, uint32_t part, uint32_t parts,
                                          Sum<Real> (&total)[VEC]) {
  using S = Sum<Real>;
  const int lane = threadIdx.x & 31;
  // Of type t0 + lane: all types' rows are looked up at once.
  uint32_t its_first = 0, its_count = 0;
  for (int t = t0; t < t1; ++t) {
    if ((t - t0) % 32 == 0) {
      const int mine = t + lane;
      if (mine < t1) {
        its_first = a.csr.of[mine].ptr[row];
        its_count = a.csr.of[mine].ptr[row + 1] - its_first;
      }
    }
    const uint32_t from = __shfl_sync(~0u, its_first, (t - t0) % 32);
    const uint32_t count = __shfl_sync(~0u, its_count, (t - t0) % 32);
    if (count == 0) continue;
    const uint32_t share = (count + parts - 1) / parts;
    const uint32_t begin = from + min(count, part * share);
    const uint32_t end = from + min(count, (part + 1) * share);
    if (!SCALED) {
      add_neighbours<Real, VEC, WEIGHTED, MASKED>(a, l, t, begin, end, total);
      continue;
    }
    S sum[VEC] = {};
    add_neighbours<Real, VEC, WEIGHTED, MASKED>(a, l, t, begin, end, sum);
    const int64_t batch = a.columns / a.width;
    const S scale = l.active ? a.row_scale[(int64_t(t) * a.nodes + row) * batch + l.sample] : S(0);
    if (scale == 0) continue;  // no kept in-edges
#pragma unroll
    for (int c = 0; c < VEC; ++c) total[c] = fma(scale, sum[c], total[c]);
  }
  if (l.groups == 1) return;
  // The groups of lanes that hold the same columns add up, into the first one.
  S own[VEC];
#pragma unroll
  for (int c = 0; c < VEC; ++c) own[c] = total[c];
  const bool even = (l.lanes & (l.lanes - 1)) == 0;
  for (int g = 1; g < l.groups; g = even ? 2 * g : g + 1) {
#pragma unroll
    for (int c = 0; c < VEC; ++c) {
      total[c] += even ? __shfl_xor_sync(~0u, total[c], g * l.lanes)
                       : __shfl_down_sync(~0u, own[c], g * l.lanes);
    }
  }
}

// Removed rows, the self term, and the row is written.
template <class Real, int VEC, bool MASKED>
__device__ __forceinline__ void close_row(const GatherArgs<Real>& a, const Lane& l, int t0, int t1,
                                          uint32_t row, Sum<Real> (&total)[VEC]) {
  using S = Sum<Real>;
  if (l.group != 0 || !l.active) return;
  if (!MASKED && is_removed(a, row, l.sample)) {
#pragma unroll
    for (int c = 0; c < VEC; ++c) total[c] = 0;
  }
  for (int t = t0; t < t1 && a.eps != nullptr; ++t) {
    Pack<Real, VEC> own;
    own.load(a.source + t * a.source_stride + int64_t(row) * a.columns + l.column);
    const S scale = 1 + a.eps[t];
#pragma unroll
    for (int c = 0; c < VEC; ++c) total[c] = fma(scale, S(widen(own.value[c])), total[c]);
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

// Rows that are not long: a warp a row and tiles_each tiles, one after another, so that finding the
// neighbours is paid once.
template <class Real, int VEC, bool WEIGHTED, bool MASKED, bool SCALED>
__global__ void __launch_bounds__(kWarps * 32)
    short_rows(const __grid_constant__ GatherArgs<Real> a, int lanes, int tiles_each) {
  const int64_t place = int64_t(blockIdx.x) * kWarps + (threadIdx.x >> 5);
  if (place >= int64_t(a.nodes) * (a.all_types ? 1 : a.types)) return;
  const int t0 = a.all_types ? 0 : int(place / a.nodes), t1 = a.all_types ? a.types : t0 + 1;
  const uint32_t row = uint32_t(a.all_types ? place : place - int64_t(t0) * a.nodes);
  if (row_length(a, t0, t1, row) > kLong) return;
  for (int k = 0; k < tiles_each; ++k) {
    const int64_t tile = int64_t(blockIdx.y) * tiles_each + k;
    if (tile * lanes * VEC >= a.columns) break;
    const Lane l = make_lane<Real, VEC>(a, lanes, tile);
    Sum<Real> total[VEC] = {};
    add_types<Real, VEC, WEIGHTED, MASKED, SCALED>(a, l, t0, t1, row, 0, 1, total);
    close_row<Real, VEC, MASKED>(a, l, t0, t1, row, total);
  }
}

// Long rows: every warp of the block takes an eighth of a type's neighbours, the first one adds the
// eighths in order.
template <class Real, int VEC, bool WEIGHTED, bool MASKED, bool SCALED>
__global__ void __launch_bounds__(kLongWarps * 32)
    long_rows(const __grid_constant__ GatherArgs<Real> a, int lanes, int rows_at_once) {
  using S = Sum<Real>;
  __shared__ S part[kLongWarps][32][VEC];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int64_t places = int64_t(a.nodes) * (a.all_types ? 1 : a.types);
  const int64_t first = int64_t(blockIdx.x) * rows_at_once;
  auto types_of = [&](int64_t place, int& t0, int& t1) {  // and the row
    t0 = a.all_types ? 0 : int(place / a.nodes);
    t1 = a.all_types ? a.types : t0 + 1;
    return uint32_t(a.all_types ? place : place - int64_t(t0) * a.nodes);
  };
  bool is_long = false;
  if (lane < rows_at_once && first + lane < places) {
    int t0, t1;
    const uint32_t row = types_of(first + lane, t0, t1);
    is_long = row_length(a, t0, t1, row) > kLong;
  }
  // All warps find the same ones.
  for (uint32_t left = __ballot_sync(~0u, is_long); left != 0; left &= left - 1) {
    int t0, t1;
    const uint32_t row = types_of(first + __ffs(int(left)) - 1, t0, t1);
    const Lane l = make_lane<Real, VEC>(a, lanes, blockIdx.y);
    S total[VEC] = {};
    add_types<Real, VEC, WEIGHTED, MASKED, SCALED>(a, l, t0, t1, row, warp, kLongWarps, total);
#pragma unroll
    for (int c = 0; c < VEC; ++c) part[warp][lane][c] = total[c];
    __syncthreads();
    if (warp == 0) {
      S all[VEC] = {};
      for (int p = 0; p < kLongWarps; ++p) {
#pragma unroll
        for (int c = 0; c < VEC; ++c) all[c] += part[p][lane][c];
      }
      close_row<Real, VEC, MASKED>(a, l, t0, t1, row, all);
    }
    __syncthreads();
  }
}

template <class Real, int VEC, bool WEIGHTED, bool MASKED, bool SCALED>
void launch(const GatherArgs<Real>& a, cudaStream_t stream) {
  const int lanes = int(std::min<int64_t>(divide_up(a.columns, VEC), 32));
  const int64_t rows = int64_t(a.nodes) * (a.all_types ? 1 : a.types);
  const int64_t tiles = divide_up(a.columns, lanes * VEC);
  const int tiles_each =
      int(std::clamp<int64_t>(rows * tiles / kEnoughWarps, 1, std::min<int64_t>(tiles, 8)));
  const dim3 grid(uint32_t(divide_up(rows, kWarps)), uint32_t(divide_up(tiles, tiles_each)));
  short_rows<Real, VEC, WEIGHTED, MASKED, SCALED>
      <<<grid, kWarps * 32, 0, stream>>>(a, lanes, tiles_each);
  // Rows that a block of long rows looks through: with all types in a row many are long.
  const int rows_at_once = a.all_types && a.types > 1 ? 2 : 32;
  const dim3 long_grid(uint32_t(divide_up(rows, rows_at_once)), uint32_t(tiles));
  long_rows<Real, VEC, WEIGHTED, MASKED, SCALED>
      <<<long_grid, kLongWarps * 32, 0, stream>>>(a, lanes, rows_at_once);
  check_launch("aggregate (gather)");
}

template <class Real, int VEC, bool WEIGHTED>
void launch(const GatherArgs<Real>& a, cudaStream_t stream) {
  if (a.masks.base != nullptr) {
    a.row_scale != nullptr ? launch<Real, VEC, WEIGHTED, true, true>(a, stream)
                           : launch<Real, VEC, WEIGHTED, true, false>(a, stream);
  } else {
    a.row_scale != nullptr ? launch<Real, VEC, WEIGHTED, false, true>(a, stream)
                           : launch<Real, VEC, WEIGHTED, false, false>(a, stream);
  }
}

template <class Real, int VEC>
void launch(const GatherArgs<Real>& a, cudaStream_t stream) {
  const bool weighted = a.values != nullptr || a.neighbour_scale != nullptr;
  weighted ? launch<Real, VEC, true>(a, stream) : launch<Real, VEC, false>(a, stream);
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
