#include "lacuna/ops/aggregate/aggregate_gather.cuh"

#include <algorithm>

namespace lacuna::cuda {
namespace {

constexpr int kWarps = 4;                // of a block of short rows
constexpr int64_t kEnoughWarps = 20000;  // that fill a device several times
constexpr int kLongWarps = 8;            // of a block of long rows: they share a row's neighbours
// Neighbours (of all types that an output row sums) from which on a row is long: at least, and at
// most where rows are long on average.
constexpr int64_t kLong = 512, kLongest = 2048;
constexpr int64_t kManyRows = 200'000;
constexpr int kTogether = 4;  // lanes from which on they look up neighbours together
constexpr int64_t kCacheBytes = int64_t(64) << 20;  // about what an L2 cache holds

// How the lanes of a warp are dealt out. A row has `lanes` x `groups` of them: `lanes` side by side
// cover the columns of a tile, and the groups (a power of two) take the row's neighbours in turn.
struct Shape {
  int lanes, groups;
  int tiles_each;    // tiles that a warp takes one after another
  uint32_t longest;  // neighbours of a row that is not long
  __host__ __device__ int per_row() const { return lanes * groups; }
  __host__ __device__ int rows() const { return 32 / (lanes * groups); }  // of a warp
};

// What a lane does: VEC adjacent columns of one sample, for every groups-th neighbour.
struct Lane {
  int lanes, group, groups;
  int64_t column;
  int sample;
  bool active;  // the column exists
};

template <class Real, int VEC>
__device__ __forceinline__ Lane make_lane(const GatherArgs<Real>& a, const Shape& shape,
                                          int64_t tile) {
  Lane l;
  const int in_row = (threadIdx.x & 31) % shape.per_row();
  l.lanes = shape.lanes;
  l.groups = shape.groups;
  l.group = in_row / shape.lanes;
  l.column = (tile * shape.lanes + in_row % shape.lanes) * VEC;
  l.active = l.column < a.columns;
  l.sample = l.active ? int(l.column / a.width) : 0;
  return l;
}

// Whether some sample of the batch removes the node.
template <class Real>
__device__ __forceinline__ bool is_odd(const GatherArgs<Real>& a, uint32_t node) {
  return __ldg(a.removed.any + (node >> 5)) >> (node & 31) & 1;
}
template <class Real>
__device__ __forceinline__ bool is_removed(const GatherArgs<Real>& a, uint32_t node, int sample) {
  return a.removed.word[int64_t(node) * a.removed.words + (sample >> 5)] >> (sample & 31) & 1;
}

// A neighbour as a lane looks it up.
template <class S>
struct Neighbour {
  uint32_t node, edge;
  S value;  // of its edge
};
template <class Real, bool WEIGHTED, bool MASKED>
__device__ __forceinline__ Neighbour<Sum<Real>> look_up(const GatherArgs<Real>& a, const Csr& csr,
                                                        uint32_t place) {
  Neighbour<Sum<Real>> n = {csr.node(place, a.wide_index), 0, 1};
  const bool values = WEIGHTED && a.values != nullptr;
  if (MASKED || values) n.edge = csr.edge[place];
  if (values) n.value = a.values[csr.first_edge + n.edge];
  return n;
}
// Whether sample `sample` sums it. odd: some sample of the batch removes it.
template <class Real, bool MASKED>
__device__ __forceinline__ bool is_kept(const GatherArgs<Real>& a, int t, uint32_t node,
                                        uint32_t edge, bool odd, int sample) {
  if (MASKED) return a.masks.base[sample * a.masks.stride + a.masks.offset[t] + edge] != 0;
  return !odd || !is_removed(a, node, sample);
}
// Its weight with the scale of its node; false: it counts as nothing, even an infinite one, because
// it has no kept in-edges.
template <class Real>
__device__ __forceinline__ bool scale_weight(const GatherArgs<Real>& a, int t, uint32_t node,
                                             int sample, Sum<Real>& weight) {
  if (a.neighbour_scale == nullptr) return true;
  const int64_t batch = a.columns / a.width;
  const Sum<Real> s = a.neighbour_scale[(int64_t(t) * a.nodes + node) * batch + sample];
  weight *= s;
  return s != 0;
}
template <bool WEIGHTED, class Real, int VEC>
__device__ __forceinline__ void add_piece(const Pack<Real, VEC>& piece, Sum<Real> weight,
                                          Sum<Real> (&sum)[VEC]) {
#pragma unroll
  for (int c = 0; c < VEC; ++c) {
    const Sum<Real> x = widen(piece.value[c]);
    sum[c] = WEIGHTED ? fma(weight, x, sum[c]) : sum[c] + x;
  }
}

template <class Real, bool WEIGHTED, bool MASKED>
inline constexpr int kAhead = WEIGHTED || MASKED || sizeof(Real) == 8 ? 4 : 8;  // pieces in flight

// Adds neighbours [begin, end) of a row of type t to sum. Two ways: every lane looks up its
// group's neighbours itself,
template <class Real, int VEC, bool WEIGHTED, bool MASKED>
__device__ __forceinline__ void add_alone(const GatherArgs<Real>& a, const Lane& l, int t,
                                          uint32_t begin, uint32_t end, Sum<Real> (&sum)[VEC]) {
  using S = Sum<Real>;
  constexpr int kMost = kAhead<Real, WEIGHTED, MASKED>;
  const Csr& csr = a.csr.of[t];
  const Real* const source = a.source + t * a.source_stride + l.column;
  if (!l.active) return;
  for (uint32_t base = begin + l.group; base < end; base += kMost * l.groups) {
    Neighbour<S> n[kMost];
    bool use[kMost];
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const uint32_t place = base + i * l.groups;
      use[i] = place < end;
      if (use[i]) n[i] = look_up<Real, WEIGHTED, MASKED>(a, csr, place);
    }
    // A piece sets out before it is known whether it is kept: nearly all are.
    Pack<Real, VEC> piece[kMost];
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (use[i]) piece[i].load(source + int64_t(n[i].node) * a.columns);
    }
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (!use[i]) continue;
      use[i] = is_kept<Real, MASKED>(a, t, n[i].node, n[i].edge, !MASKED && is_odd(a, n[i].node),
                                     l.sample);
      if (WEIGHTED) use[i] = scale_weight(a, t, n[i].node, l.sample, n[i].value) && use[i];
    }
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (use[i]) add_piece<WEIGHTED>(piece[i], n[i].value, sum);
    }
  }
}

// or the lanes of a row look up one neighbour each and tell each other: better for wide tiles. All
// lanes of the warp call it.
template <class Real, int VEC, bool WEIGHTED, bool MASKED>
__device__ __forceinline__ void add_together(const GatherArgs<Real>& a, const Lane& l, int t,
                                             uint32_t begin, uint32_t end, Sum<Real> (&sum)[VEC]) {
  using S = Sum<Real>;
  constexpr int kMost = kAhead<Real, WEIGHTED, MASKED>;
  const Csr& csr = a.csr.of[t];
  const Real* const source = a.source + t * a.source_stride + l.column;
  const int lane = threadIdx.x & 31, per_row = l.lanes * l.groups;
  const int first_lane = lane / per_row * per_row;
  for (uint32_t base = begin; __any_sync(~0u, base < end); base += per_row) {
    const int count = base < end ? int(min(uint32_t(per_row), end - base)) : 0;
    Neighbour<S> mine = {0, 0, 1};
    bool odd = false;
    if (lane - first_lane < count) {
      mine = look_up<Real, WEIGHTED, MASKED>(a, csr, base + (lane - first_lane));
      odd = !MASKED && is_odd(a, mine.node);
    }
    const uint32_t some = __ballot_sync(~0u, odd);
    const int most = __reduce_max_sync(~0u, count);
    for (int j = 0; j * l.groups < most; j += kMost) {
      Pack<Real, VEC> piece[kMost];
      S weight[kMost];
      bool use[kMost];
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        const int k = (j + i) * l.groups + l.group, from = (first_lane + k) & 31;
        const uint32_t u = __shfl_sync(~0u, mine.node, from);
        const uint32_t e = MASKED ? __shfl_sync(~0u, mine.edge, from) : 0;
        weight[i] = WEIGHTED ? __shfl_sync(~0u, mine.value, from) : S(1);
        use[i] =
            k < count && l.active && is_kept<Real, MASKED>(a, t, u, e, some >> from & 1, l.sample);
        if (WEIGHTED && use[i]) use[i] = scale_weight(a, t, u, l.sample, weight[i]);
        if (use[i]) piece[i].load(source + int64_t(u) * a.columns);
      }
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        if (use[i]) add_piece<WEIGHTED>(piece[i], weight[i], sum);
      }
    }
  }
}

// Whether some lane of the row sums it for a sample that keeps it: else no neighbour need be read.
// All lanes of the warp call it.
template <class Real, bool MASKED>
__device__ __forceinline__ bool is_wanted(const GatherArgs<Real>& a, const Lane& l, uint32_t row,
                                          bool there) {
  if (MASKED) return there;
  const bool kept = there && l.active && !(is_odd(a, row) && is_removed(a, row, l.sample));
  const int lane = threadIdx.x & 31, per_row = l.lanes * l.groups;
  const uint32_t lanes_of_row = (per_row == 32 ? ~0u : (1u << per_row) - 1)
                                << (lane / per_row * per_row);
  return (__ballot_sync(~0u, kept) & lanes_of_row) != 0;
}

// Adds types [t0, t1) of a row to total: the part [part, part + 1) / parts of each one's
// neighbours. A type's sum is scaled before it is added where there is a scale. All lanes of the
// warp call it, with equally many types; there: it has a row. The first group gets the total.
template <class Real, int VEC, bool WEIGHTED, bool MASKED, bool SCALED>
__device__ __forceinline__ void add_types(const GatherArgs<Real>& a, const Lane& l, int t0, int t1,
                                          uint32_t row, bool there, uint32_t part, uint32_t parts,
                                          Sum<Real> (&total)[VEC]) {
  using S = Sum<Real>;
  uint32_t first = a.csr.of[t0].ptr[row], last = a.csr.of[t0].ptr[row + 1];
  const bool wanted = is_wanted<Real, MASKED>(a, l, row, there);
  for (int t = t0; t < t1; ++t) {
    const uint32_t from = first, count = wanted ? last - first : 0;
    if (t + 1 < t1) {  // where the next type's lie is looked up meanwhile
      first = a.csr.of[t + 1].ptr[row];
      last = a.csr.of[t + 1].ptr[row + 1];
    }
    const uint32_t share = (count + parts - 1) / parts;
    const uint32_t begin = from + min(count, part * share);
    const uint32_t end = from + min(count, (part + 1) * share);
    S sum[VEC] = {};
    S(&to)[VEC] = SCALED ? sum : total;
    if (l.lanes < kTogether) {
      add_alone<Real, VEC, WEIGHTED, MASKED>(a, l, t, begin, end, to);
    } else {
      add_together<Real, VEC, WEIGHTED, MASKED>(a, l, t, begin, end, to);
    }
    if (!SCALED || !there || !l.active) continue;
    const int64_t batch = a.columns / a.width;
    const S scale = a.row_scale[(int64_t(t) * a.nodes + row) * batch + l.sample];
    if (scale == 0) continue;  // no kept in-edges
#pragma unroll
    for (int c = 0; c < VEC; ++c) total[c] = fma(scale, sum[c], total[c]);
  }
  for (int step = l.groups / 2; step > 0; step /= 2) {
#pragma unroll
    for (int c = 0; c < VEC; ++c) total[c] += __shfl_down_sync(~0u, total[c], step * l.lanes);
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

// Output row `place`: its types [t0, t1) and its node.
struct RowPlace {
  int t0, t1;
  uint32_t row;
};
template <class Real>
__device__ __forceinline__ RowPlace row_place(const GatherArgs<Real>& a, int64_t place) {
  if (a.all_types) return {0, a.types, uint32_t(place)};
  const int t = int(place / a.nodes);
  return {t, t + 1, uint32_t(place - int64_t(t) * a.nodes)};
}
template <class Real>
__device__ __forceinline__ bool is_long(const GatherArgs<Real>& a, const RowPlace& p,
                                        uint32_t longest) {
  uint32_t length = 0;
  for (int t = p.t0; t < p.t1; ++t) length += a.csr.of[t].ptr[p.row + 1] - a.csr.of[t].ptr[p.row];
  return length > longest;
}

// Rows that are not long.
template <class Real, int VEC, bool WEIGHTED, bool MASKED, bool SCALED>
__global__ void __launch_bounds__(kWarps * 32)
    short_rows(const __grid_constant__ GatherArgs<Real> a, const __grid_constant__ Shape shape) {
  const int lane = threadIdx.x & 31, in_warp = lane / shape.per_row();
  const int64_t warp = int64_t(blockIdx.x) * kWarps + (threadIdx.x >> 5);
  const int64_t place = warp * shape.rows() + in_warp;
  bool there = in_warp < shape.rows() && place < int64_t(a.nodes) * (a.all_types ? 1 : a.types);
  const RowPlace p = row_place(a, there ? place : 0);
  there = there && !is_long(a, p, shape.longest);
  for (int k = 0; k < shape.tiles_each; ++k) {
    const int64_t tile = int64_t(blockIdx.y) * shape.tiles_each + k;
    if (tile * shape.lanes * VEC >= a.columns) break;
    const Lane l = make_lane<Real, VEC>(a, shape, tile);
    Sum<Real> total[VEC] = {};
    add_types<Real, VEC, WEIGHTED, MASKED, SCALED>(a, l, p.t0, p.t1, p.row, there, 0, 1, total);
    if (there) close_row<Real, VEC, MASKED>(a, l, p.t0, p.t1, p.row, total);
  }
}

// Long rows: every warp of the block takes an eighth of a type's neighbours, the first one adds the
// eighths in order.
template <class Real, int VEC, bool WEIGHTED, bool MASKED, bool SCALED>
__global__ void __launch_bounds__(kLongWarps * 32)
    long_rows(const __grid_constant__ GatherArgs<Real> a, const __grid_constant__ Shape shape,
              int rows_at_once) {
  using S = Sum<Real>;
  __shared__ S part[kLongWarps][32][VEC];
  __shared__ uint32_t found[kLongWarps];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int64_t places = int64_t(a.nodes) * (a.all_types ? 1 : a.types);
  const int64_t first = int64_t(blockIdx.x) * rows_at_once;
  const bool mine = int(threadIdx.x) < rows_at_once && first + threadIdx.x < places;
  const bool look = mine && is_long(a, row_place(a, first + threadIdx.x), shape.longest);
  const uint32_t some = __ballot_sync(~0u, look);
  if (lane == 0) found[warp] = some;
  if (!__syncthreads_or(look)) return;
  for (int r = 0; r < rows_at_once; ++r) {
    if (!(found[r >> 5] >> (r & 31) & 1)) continue;
    const RowPlace p = row_place(a, first + r);
    for (int64_t tile = blockIdx.y; tile * shape.lanes * VEC < a.columns; tile += gridDim.y) {
      Lane l = make_lane<Real, VEC>(a, shape, tile);
      l.active = l.active && lane < shape.per_row();
      S total[VEC] = {};
      add_types<Real, VEC, WEIGHTED, MASKED, SCALED>(a, l, p.t0, p.t1, p.row, true, warp,
                                                     kLongWarps, total);
#pragma unroll
      for (int c = 0; c < VEC; ++c) part[warp][lane][c] = total[c];
      __syncthreads();
      if (warp == 0) {
        S all[VEC] = {};
        for (int k = 0; k < kLongWarps; ++k) {
#pragma unroll
          for (int c = 0; c < VEC; ++c) all[c] += part[k][lane][c];
        }
        close_row<Real, VEC, MASKED>(a, l, p.t0, p.t1, p.row, all);
      }
      __syncthreads();
    }
  }
}

// The lanes that cover a tile: those that leave fewest idle.
int tile_lanes(int64_t pieces) {
  int best = 1;
  double least = 1e30;
  for (int lanes = 1; lanes <= 32; ++lanes) {
    const double cost = double(divide_up(pieces, lanes)) * (32.0 / (32 / lanes) + 2);
    if (cost <= least) {
      least = cost;
      best = lanes;
    }
  }
  return best;
}

template <class Real, int VEC, bool WEIGHTED, bool MASKED, bool SCALED>
void launch(const GatherArgs<Real>& a, cudaStream_t stream) {
  const int64_t rows = int64_t(a.nodes) * (a.all_types ? 1 : a.types);
  const int64_t pieces = divide_up(a.columns, VEC);
  Shape shape = {tile_lanes(pieces), 1, 1, uint32_t(kLong)};
  const int64_t tiles = divide_up(pieces, shape.lanes);
  const auto warps = [&] { return divide_up(rows, shape.rows()) * tiles; };
  // Few rows are shared by more lanes, and narrow ones: a lane has more in flight.
  while (shape.per_row() * 2 <= 32 && (warps() < kEnoughWarps || shape.per_row() < 4)) {
    shape.groups *= 2;
  }
  if (warps() >= kEnoughWarps) {
    shape.longest = uint32_t(std::clamp<int64_t>(4 * a.edges / rows, kLong, kLongest));
  }
  // Tiles of a source that the cache holds are taken in turn, so that finding the neighbours is
  // paid once; of a larger one all rows take the same tile.
  const bool cached = int64_t(a.nodes) * a.columns * int64_t(sizeof(Real)) <= kCacheBytes;
  shape.tiles_each =
      cached ? int(std::clamp<int64_t>(warps() / kEnoughWarps, 1, std::min<int64_t>(tiles, 8))) : 1;
  const dim3 grid(uint32_t(divide_up(divide_up(rows, shape.rows()), kWarps)),
                  uint32_t(divide_up(tiles, shape.tiles_each)));
  short_rows<Real, VEC, WEIGHTED, MASKED, SCALED><<<grid, kWarps * 32, 0, stream>>>(a, shape);
  // A row's neighbours are shared by as many lanes as there are.
  while (shape.per_row() * 2 <= 32) shape.groups *= 2;
  // Rows that a block of long rows looks through: with all types in a row many are long; where
  // there are very many rows, few are.
  const int rows_at_once = a.all_types && a.types > 1 ? 2 : rows < kManyRows ? 32 : kLongWarps * 32;
  const dim3 long_grid(uint32_t(divide_up(rows, rows_at_once)),
                       uint32_t(std::min<int64_t>(tiles, rows_at_once == 2 ? tiles : 8)));
  long_rows<Real, VEC, WEIGHTED, MASKED, SCALED>
      <<<long_grid, kLongWarps * 32, 0, stream>>>(a, shape, rows_at_once);
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
