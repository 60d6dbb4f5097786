// The rows layout with plain additions: f32 sums, and sums with edge values. Two lanes a line, 16
// bytes each: a step reads the slab rows of 16 lines' next neighbours, with few bank conflicts, and
// adds them in f32. Edge values are put into the order of the slots first (order_values), which
// costs about as much as reading them twice.
#include <algorithm>

#include "lacuna/ops/slab/slab_block.cuh"

namespace lacuna::cuda {
namespace {

using namespace slab;

// sum += value * 16 bytes of a slab row.
template <bool VALUES>
__device__ __forceinline__ float add_one(float sum, float x, float value) {
  return VALUES ? fmaf(value, x, sum) : sum + x;
}
template <bool VALUES>
__device__ __forceinline__ void add_piece(float (&sum)[4], uint4 p, float value) {
  sum[0] = add_one<VALUES>(sum[0], __uint_as_float(p.x), value);
  sum[1] = add_one<VALUES>(sum[1], __uint_as_float(p.y), value);
  sum[2] = add_one<VALUES>(sum[2], __uint_as_float(p.z), value);
  sum[3] = add_one<VALUES>(sum[3], __uint_as_float(p.w), value);
}
template <bool VALUES>
__device__ __forceinline__ void add_piece(float (&sum)[8], uint4 p, float value) {
  const uint32_t word[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum[2 * i] = add_one<VALUES>(sum[2 * i], __uint_as_float(word[i] << 16), value);
    sum[2 * i + 1] = add_one<VALUES>(sum[2 * i + 1], __uint_as_float(word[i] & 0xffff0000u), value);
  }
}
__device__ __forceinline__ uint4 read_slab(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address));
  return v;
}

template <class Real>
struct HalfSum {
  float v[kHalfColumns<Real>];
};
// A line's sum with edge values where it is not finite: a removed neighbour's row is zero, but zero
// times an infinite value is NaN.
template <class Real>
__device__ __noinline__ HalfSum<Real> sum_kept(const SlabArgs<Real>& a, const uint32_t* bits,
                                               uint32_t panel, uint32_t type, uint32_t node,
                                               uint32_t half) {
  const Csr& csr = a.csr.of[type];
  const uint16_t* place = a.place + size_t(panel) * a.nodes;
  HalfSum<Real> sum = {};
  for (uint32_t i = csr.ptr[node]; i < csr.ptr[node + 1]; ++i) {
    const uint32_t u = static_cast<const uint16_t*>(csr.neighbour)[i], position = place[u];
    if (position == kNoNode || is_marked(bits, u, half)) continue;
    add_piece<true>(sum.v, read_slab(kSlabAt + position * 32 + half * 16),
                    a.values[csr.first_edge + csr.edge[i]]);
  }
  return sum;
}

constexpr int kAhead = 4;  // steps of a line in flight

template <class Real, bool VALUES, bool MULTI>
struct RowWork {
  static constexpr int kHalf = kHalfColumns<Real>;
  const SlabArgs<Real>& a;
  uint32_t counter;      // the task counter's address
  const uint32_t* bits;  // removed nodes, in shared memory
  const float* scales;   // [T] 1 + eps, in shared memory
  int lane;
  uint32_t half, half_bytes;

  // Where the warp is.
  int task, after;  // after: the next task, of lane 0
  Task where;       // where it lies, of lane 0
  const uint4* up;  // this lane's positions of the unit that comes next
  uint4 q;
  const float4* value_up;
  float4 value[2];
  uint32_t chunk;            // the next unit's
  uint32_t head, line, own;  // of the chunk

  __device__ __forceinline__ explicit RowWork(const SlabArgs<Real>& args) : a(args) {
    extern __shared__ __align__(128) uint4 shared[];
    const Places at = places(a.slab_rows, a.nodes, a.types);
    const char* memory = reinterpret_cast<const char*>(shared);
    counter = kSlabAt + at.counter;
    bits = reinterpret_cast<const uint32_t*>(memory + at.bits);
    scales = reinterpret_cast<const float*>(memory + at.scales);
    lane = threadIdx.x & 31;
    half = lane & 1;
    half_bytes = half * 16;
    asm volatile("" : "+r"(half_bytes));  // or the compiler makes it anew at every use
  }
  __device__ __forceinline__ static uint32_t piece(uint32_t position, uint32_t h) {
    return 2 * position + h;
  }

  __device__ __forceinline__ void open_task(uint32_t unit) {
    up = reinterpret_cast<const uint4*>(a.units + size_t(unit) * kRowUnitBytes) + (lane >> 1);
    if (VALUES) {
      value_up = reinterpret_cast<const float4*>(a.slot_values + size_t(unit) * kRowUnitSlots) +
                 (lane >> 1) * 2;
    }
  }
  __device__ __forceinline__ void load_unit() {
    q = __ldg(up);
    if (VALUES) {
      value[0] = __ldg(value_up);
      value[1] = __ldg(value_up + 1);
    }
  }
  __device__ __forceinline__ void load_chunk() {
    head = __ldg(a.heads + chunk);
    line = __ldg(a.lines + chunk * kLines + (lane >> 1));
    own = __ldg(a.own + chunk * kLines + (lane >> 1));
  }
  __device__ __forceinline__ void open(volatile const Card* card, int) {
    task = card->task0 + int(threadIdx.x >> 5);
    after = 0;
    where = {};
    head = 0;
    if (task < card->task1) {
      const Task first = a.tasks[task];
      open_task(first.unit);
      load_unit();
      chunk = first.chunk;
      load_chunk();
    }
  }
  // The next task, and where it lies.
  __device__ __forceinline__ void ask(int task1) {
    if (lane == 0) {
      after = take_task(counter);
      where = a.tasks[min(after, task1 - 1)];
    }
  }

  __device__ __forceinline__ void sum(volatile const Card* card, int column) {
    const int task1 = card->task1;
    if (task < task1) ask(task1);
    float sum[kHalf] = {};
    int steps = int(head & kHeadSteps);
    while (task < task1) {
      // Positions become addresses, then q is loaded anew: `zero` makes its address depend on the
      // last uses of the old ones, else the compiler loads first and waits at once to move them.
      const uint32_t two[4] = {q.x, q.y, q.z, q.w};
      uint32_t at[kSteps], all = 0;
#pragma unroll
      for (int s = 0; s < int(kSteps); ++s) {
        at[s] = (s & 1 ? two[s / 2] >> 16 : two[s / 2] & 0xffff) * 32 | half_bytes;
        all |= at[s];
      }
      const float v[kSteps] = {value[0].x, value[0].y, value[0].z, value[0].w,
                               value[1].x, value[1].y, value[1].z, value[1].w};
      const bool ends = steps <= int(kSteps);
      const uint32_t this_head = head, this_line = line, this_own = own;
      if (ends && head & kHeadLast) {  // the next task
        task = __shfl_sync(~0u, after, 0);
        chunk = __shfl_sync(~0u, where.chunk, 0);
        open_task(__shfl_sync(~0u, where.unit, 0));
        ask(task1);
      } else {
        up += 16;
        if (VALUES) value_up += 32;
        chunk += ends;
      }
      up += all & a.zero;
      load_unit();
      if (ends) load_chunk();
      if (steps >= int(kSteps)) {
#pragma unroll
        for (int s0 = 0; s0 < int(kSteps); s0 += kAhead) {
          uint4 p[kAhead];
#pragma unroll
          for (int s = 0; s < kAhead; ++s) p[s] = read_slab(kSlabAt + at[s0 + s]);
#pragma unroll
          for (int s = 0; s < kAhead; ++s) add_piece<VALUES>(sum, p[s], v[s0 + s]);
        }
      } else {
#pragma unroll
        for (int s = 0; s < int(kSteps); s += 2) {  // a step too many reads a row of zeros
          if (s >= steps) break;
          const uint4 p0 = read_slab(kSlabAt + at[s]), p1 = read_slab(kSlabAt + at[s + 1]);
          add_piece<VALUES>(sum, p0, v[s]);
          add_piece<VALUES>(sum, p1, v[s + 1]);
        }
      }
      steps -= kSteps;
      if (ends) {
        for (uint32_t f = 0; f < (this_head >> kHeadFoldAt & 7); ++f) {
#pragma unroll
          for (int c = 0; c < kHalf; ++c) sum[c] += __shfl_xor_sync(~0u, sum[c], 2 << f);
        }
        if (this_line != kNoLine) close(card, column, this_line, this_own, sum);
#pragma unroll
        for (int c = 0; c < kHalf; ++c) sum[c] = 0;
        steps = int(head & kHeadSteps);
      }
    }
  }

  __device__ __forceinline__ void close(volatile const Card* card, int column, uint32_t this_line,
                                        uint32_t this_own, float (&sum)[kHalf]) const {
    const uint32_t node = this_line & 0xffff, type = this_line >> 16;
    const uint32_t row = type * a.nodes + node;
    if (VALUES) {
      float all = 0;
#pragma unroll
      for (int c = 0; c < kHalf; ++c) all += fabsf(sum[c]);
      if (!(all < INFINITY)) {
        const HalfSum<Real> kept =
            sum_kept(a, bits, card->panel, a.forward ? type : card->type, node, half);
#pragma unroll
        for (int c = 0; c < kHalf; ++c) sum[c] = kept.v[c];
      }
    }
    const int at = column + kHalf * int(half);
    if (at >= a.columns) return;
    if (a.row_scale != nullptr) {
      const float scale = a.row_scale[int64_t(row) * (a.columns / a.width) + at / a.width];
#pragma unroll
      for (int c = 0; c < kHalf; ++c) sum[c] = scale == 0 ? 0 : sum[c] * scale;  // none kept: 0
    }
    if (a.eps != nullptr) {
      add_piece<true>(sum, read_slab(kSlabAt + this_own * 32 + half * 16),
                      scales[a.forward ? type : card->type]);
    }
    if (MULTI && !add_up(card, row, sum)) return;
    Pack<Real, kHalf> result;
#pragma unroll
    for (int c = 0; c < kHalf; ++c) result.value[c] = round_to<Real>(sum[c]);
    __stcs(reinterpret_cast<uint4*>(a.out + int64_t(row) * a.columns + at), result.raw);
  }

  // Adds a row's sum to those of earlier panels. True: it is complete and can be written.
  __device__ __forceinline__ bool add_up(volatile const Card* card, uint32_t row,
                                         float (&sum)[kHalf]) const {
    const int mode = card->mode;
    float* const to = a.sums + size_t(card->first_row + row) * kStripColumns<Real> + half * kHalf;
    const uint32_t rows = uint32_t(a.forward ? a.types : 1) * a.nodes;
    const bool from_helper =
        mode == int(Mode::finish) && card->helped && int(__ldg(a.task_of + row)) >= a.cut;
    const float* const help =
        a.sums + (size_t(gridDim.x + card->last_round) * rows + row) * kStripColumns<Real> +
        half * kHalf;
#pragma unroll
    for (int c = 0; c < kHalf; c += 4) {
      if (mode == int(Mode::add)) {
        add_to(to + c, sum + c);
      } else if (mode != int(Mode::finish)) {
        __stcg(reinterpret_cast<float4*>(to + c),
               make_float4(sum[c], sum[c + 1], sum[c + 2], sum[c + 3]));
      } else {
        float4 f = __ldcg(reinterpret_cast<const float4*>(to + c));
        if (from_helper) {
          const float4 g = __ldcg(reinterpret_cast<const float4*>(help + c));
          f = make_float4(f.x + g.x, f.y + g.y, f.z + g.z, f.w + g.w);
        }
        sum[c] += f.x;
        sum[c + 1] += f.y;
        sum[c + 2] += f.z;
        sum[c + 3] += f.w;
      }
    }
    return mode == int(Mode::finish);
  }
};

template <class Real, bool VALUES, bool MULTI, int THREADS>
__global__ void __launch_bounds__(THREADS, 1)
    rows_kernel(const __grid_constant__ SlabArgs<Real> a) {
  RowWork<Real, VALUES, MULTI> work(a);
  do_segments<Real, MULTI, THREADS>(a, work);
}

__global__ void order_values_kernel(const float* values, const uint4* edge, uint64_t count,
                                    float4* slot_values) {
  const uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const uint4 e = __ldg(edge + i);
  auto value = [&](uint32_t k) { return k == kNoEdge ? 0.f : __ldg(values + k); };
  slot_values[i] = make_float4(value(e.x), value(e.y), value(e.z), value(e.w));
}

}  // namespace

template <class Real>
void launch_rows(const SlabArgs<Real>& a, int blocks, cudaStream_t stream) {
  constexpr int kPlain = 896, kValues = 768;
  const bool multi = a.panel_count > 1;
  if (a.values != nullptr) {
    launch_blocks<Real>(
        multi ? rows_kernel<Real, true, true, kValues> : rows_kernel<Real, true, false, kValues>, a,
        blocks, kValues, stream);
  } else if constexpr (sizeof(Real) == 4) {  // bf16 without values takes the chunks
    launch_blocks<Real>(
        multi ? rows_kernel<Real, false, true, kPlain> : rows_kernel<Real, false, false, kPlain>, a,
        blocks, kPlain, stream);
  }
}
template void launch_rows<float>(const SlabArgs<float>&, int, cudaStream_t);
template void launch_rows<BFloat16>(const SlabArgs<BFloat16>&, int, cudaStream_t);

void order_values(const float* values, const uint32_t* edge, uint64_t count, float* slot_values,
                  cudaStream_t stream) {
  if (count == 0) return;
  order_values_kernel<<<uint32_t(divide_up(int64_t(count / 4), 256)), 256, 0, stream>>>(
      values, reinterpret_cast<const uint4*>(edge), count / 4,
      reinterpret_cast<float4*>(slot_values));
  check_launch("order the edge values");
}

}  // namespace lacuna::cuda
