#include "lacuna/ops/aggregate_slices.cuh"

#include <algorithm>

namespace lacuna::cuda {
namespace {

using namespace slice;

constexpr uint32_t kSlabAt =
    1024;  // where dynamic shared memory starts when there is no static one (sm_80 and later)
constexpr int kSliceColumns = 16;

// Shared memory after the slab: the panel's node_at, two bits a node (removed from the sample of
// half 0, of half 1), the task counter.
constexpr uint32_t kCardBytes = 48;
struct Places {
  uint32_t table, bits, counter, cards, scales, bytes;  // in bytes from the start
  uint32_t bit_words;                                   // two bits a node
};
__host__ __device__ inline Places places(uint32_t slab_rows, uint32_t nodes, int types) {
  Places p;
  p.table = slab_rows * 32;
  p.bits = p.table + (slab_rows * 2 + 15) / 16 * 16;
  p.bit_words = (nodes + 63) / 64 * 4;
  p.counter = p.bits + p.bit_words * 4;
  p.cards = p.counter + 16;
  p.scales = p.cards + 2 * kCardBytes;
  p.bytes = p.scales + (types * 4 + 15) / 16 * 16;
  return p;
}

// 16-byte piece of the slab where half h of a row lies. Equal halves of the eight classes of a
// group lie in different banks. ADJACENT: a row is 32 bytes in one place, which is faster to load;
// the halves of classes 4 to 7 are swapped. Otherwise a group is eight pieces of half 0, then eight
// of half 1, which is faster to gather.
template <bool ADJACENT>
__device__ __forceinline__ uint32_t piece(uint32_t position, uint32_t h) {
  if (ADJACENT) return 2 * position + (h ^ (position >> 2 & 1));
  return (position >> 3) * 16 + h * 8 + (position & 7);
}

template <uint32_t AT>
__device__ __forceinline__ void gather_rows(uint32_t (&r)[4], uint32_t offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4 + %5];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(offset), "n"(AT));
}
__device__ __forceinline__ void read_own_rows(uint32_t (&r)[4], uint32_t offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4 + %5];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(offset), "n"(kSlabAt));
}
__device__ __forceinline__ void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void copy_async(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from));
}
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
__device__ __forceinline__ void add_to(float* p, const float (&v)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(p), "f"(v[0]), "f"(v[1]),
               "f"(v[2]), "f"(v[3])
               : "memory");
#else
  for (int i = 0; i < 4; ++i) atomicAdd(p + i, v[i]);
#endif
}
__device__ __forceinline__ float low(uint32_t v) { return __uint_as_float(v << 16); }
__device__ __forceinline__ float high(uint32_t v) { return __uint_as_float(v & 0xffff0000u); }
__device__ __forceinline__ uint32_t pack(float a, float b) {
  const __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
  return *reinterpret_cast<const uint32_t*>(&v);
}

// A step: gathers 32 neighbours and adds them to the chunk's 16 lines. Slots 0 to 15 go into `lo`
// with membership 2 (bit 14 of a bf16), slots 16 to 31 into `hi` with membership 2^-63 (bit 13), so
// that one shift serves both; the close takes lo / 2 + hi * 2^63.
struct Pieces {
  uint32_t half0[4], half1[4];  // slots 0-7, 8-15, 16-23, 24-31
};
template <bool ADJACENT>
__device__ __forceinline__ Pieces gather_step(uint32_t offset) {
  Pieces p;
  gather_rows<kSlabAt>(p.half0, offset);
  if (ADJACENT) {
    gather_rows<kSlabAt>(p.half1, offset ^ 16);
  } else {
    gather_rows<kSlabAt + 128>(p.half1, offset);
  }
  return p;
}
// FIXED: the step is known to the compiler, which then shifts by multiplying: the other units are
// busier.
template <bool FIXED>
__device__ __forceinline__ void add_step(float (&lo)[2][4], float (&hi)[2][4], const Pieces& p,
                                         const uint32_t (&w)[4], int step) {
  uint32_t a[4], b[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t v = !FIXED      ? __funnelshift_l(w[i], w[i], 2 * step - 1)
                       : step == 0 ? w[i] >> 1
                                   : w[i] * (1u << ((2 * step - 1) & 31));
    a[i] = v & 0x40004000u;
    b[i] = v & 0x20002000u;
  }
  multiply_add(lo[0], a, p.half0[0], p.half0[1]);
  multiply_add(lo[1], a, p.half1[0], p.half1[1]);
  multiply_add(hi[0], b, p.half0[2], p.half0[3]);
  multiply_add(hi[1], b, p.half1[2], p.half1[3]);
}

// What a block does with the sums of a segment. Passes of one panel write them at once. With
// several panels, the first one stores them, the next ones add, and the last one reads, adds and
// writes; a helper stores them for the slice's owner.
enum class Mode { write, store, add, finish, help };
struct Segment {
  int slice, panel, task0, task1;
  Mode mode;
  bool helped;  // the slice's owner has helpers
};

// The work of a block, counted from 0. Slices are dealt out in rounds. Those of the last round that
// do not fill it have an owner each, and the other blocks share the tasks from `cut` on of all of
// them, in order: of the only panel, or of `shared_panel`.
template <bool MULTI>
struct Share {
  int rounds, rest, tail, low, high, count;
  __device__ explicit Share(const SliceArgs& a) {
    const int blocks = gridDim.x, b = blockIdx.x;
    rounds = a.slices / blocks;
    rest = a.slices % blocks;
    tail = a.shared_end - a.cut;
    low = high = 0;
    count = (rounds + (b < rest ? 1 : 0)) * int(a.panel_count);
    if (b >= rest) {
      range(b, low, high);
      if (high > low) count += (high - 1) / tail - low / tail + 1;
    }
  }
  // Tasks of the tails of all slices that block b helps with.
  __device__ void range(int b, int& first, int& last) const {
    const int helpers = gridDim.x - rest;
    const int64_t all = int64_t(rest) * tail;
    first = int((b - rest) * all / helpers);
    last = int((b - rest + 1) * all / helpers);
  }
  // Segments of helpers that a slice of the last round gets.
  __device__ int helpers_of(int s) const {
    int n = 0;
    for (int b = rest; b < int(gridDim.x) && tail > 0; ++b) {
      int first, last;
      range(b, first, last);
      n += max(first, s * tail) < min(last, (s + 1) * tail);
    }
    return n;
  }
  __device__ Segment get(const SliceArgs& a, int k) const {
    const int blocks = gridDim.x, b = blockIdx.x, panels = a.panel_count;
    const int round = k / panels, panel = k % panels;
    if (round < rounds || b < rest) {
      Segment seg = {round * blocks + b, panel,       0,
                     int(a.task_count),  Mode::write, round == rounds && tail > 0};
      if (MULTI) {
        seg.mode = panel == 0 ? Mode::store : panel + 1 == panels ? Mode::finish : Mode::add;
        // Samples go through the panels in turned order: loads of slabs spread over time.
        if (seg.mode == Mode::add) {
          const int sample = seg.slice * kSliceColumns / a.width;
          seg.panel = 1 + (panel - 1 + sample) % (panels - 2);
        }
        seg.task0 = a.panels[seg.panel].task0;
        seg.task1 = a.panels[seg.panel].task1;
      }
      if (seg.helped && seg.panel == a.shared_panel) seg.task1 = a.cut;
      return seg;
    }
    const int s = low / tail + (k - rounds * panels);
    return {rounds * blocks + s,
            a.shared_panel,
            a.cut + max(low, s * tail) - s * tail,
            a.cut + min(high, (s + 1) * tail) - s * tail,
            MULTI ? Mode::help : Mode::write,
            true};
  }
};

__device__ __forceinline__ int load_acquire(const int* p) {
  int v;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void add_release(int* p, int v) {
  asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// The sums of one line without tensor cores, term by term: where a term is not finite, 0 * x would
// reach other lines.
template <bool ADJACENT>
__device__ __noinline__ float4 exact_line(const SliceArgs& a, uint32_t panel, uint32_t type,
                                          uint32_t node) {
  const Csr& csr = a.csr.of[type];
  const uint16_t* place = a.place + size_t(panel) * a.nodes;
  const int t = threadIdx.x & 3;
  float4 v = {0, 0, 0, 0};
  for (uint32_t i = csr.ptr[node]; i < csr.ptr[node + 1]; ++i) {
    const uint32_t position = place[static_cast<const uint16_t*>(csr.neighbour)[i]];
    if (position == kNoNode) continue;
    uint32_t word[2];
    for (int h = 0; h < 2; ++h) {
      asm volatile("ld.shared.u32 %0, [%1];"
                   : "=r"(word[h])
                   : "r"(kSlabAt + piece<ADJACENT>(position, h) * 16 + t * 4));
    }
    v.x += low(word[0]);
    v.y += high(word[0]);
    v.z += low(word[1]);
    v.w += high(word[1]);
  }
  return v;
}

// Rows of removed nodes, once the others are written: the self term alone (of one type in the
// forward pass, of all in the backward pass), or nothing. Columns of halves [h0, h1), which are of
// one sample; a thread writes them in a row.
template <bool MULTI, bool SELF, int THREADS>
__device__ void write_removed_rows(const SliceArgs& a, int task0, int task1, int column, int h0,
                                   int h1) {
  const int b = (column + 8 * h0) / a.width;
  const int begin = a.removed.ptr[b], end = a.removed.ptr[b + 1];
  if (begin < 0 || end < begin || end > a.removed.capacity || (b == 0 && begin != 0)) return;
  const int types = a.forward ? a.types : 1;
  for (int64_t i = threadIdx.x; i < int64_t(end - begin) * types; i += THREADS) {
    const int32_t node = a.removed.index[begin + i / types];
    if (node < 0 || uint32_t(node) >= a.nodes) continue;
    const int type = int(i % types);
    const int64_t row = int64_t(type) * a.nodes + node;
    if (!MULTI) {  // another block writes the rows of tasks that are not in this segment
      const int task = int(a.task_of[row]);
      if (task < task0 || task >= task1) continue;
    }
    for (int h = h0; h < h1; ++h) {
      Pack<BFloat16, 8> result;
      if (SELF) {
        float v[8] = {};
        for (int t = a.forward ? type : 0; t < (a.forward ? type + 1 : a.types); ++t) {
          Pack<BFloat16, 8> own;
          own.load(a.source + t * a.source_stride + int64_t(node) * a.columns + column + 8 * h);
          for (int c = 0; c < 8; ++c) v[c] = fmaf(1 + a.eps[t], widen(own.value[c]), v[c]);
        }
        for (int c = 0; c < 8; ++c) result.value[c] = round_to<BFloat16>(v[c]);
      }
      result.store(a.out + row * a.columns + column + 8 * h);
    }
  }
}

// A segment as the block's threads read it, from shared memory: registers are short.
struct Card {
  int slice, panel, task0, task1, mode, helped,
      need;            // slice -1: no more. need: segments of helpers to wait for
  int type;            // of the panel's source
  uint32_t first_row;  // where its sums stand, in rows of 16
  int last_round;      // the slice's number among those of the last round
};
static_assert(sizeof(Card) <= kCardBytes);

template <bool MULTI>
__device__ void write_card(const SliceArgs& a, int k, volatile Card* card) {
  const Share<MULTI> share(a);
  if (k >= share.count) {
    card->slice = -1;
    card->panel = 0;
    return;
  }
  const Segment seg = share.get(a, k);
  const int last_round = seg.slice - share.rounds * int(gridDim.x);
  const uint32_t rows = uint32_t(a.forward ? a.types : 1) * a.nodes;
  card->slice = seg.slice;
  card->panel = seg.panel;
  card->task0 = seg.task0;
  card->task1 = seg.task1;
  card->mode = int(seg.mode);
  card->helped = seg.helped;
  card->need = seg.helped && seg.mode == Mode::finish ? share.helpers_of(last_round) : 0;
  card->type = a.forward ? 0 : int(a.panels[seg.panel].type);
  card->first_row = (seg.mode == Mode::help ? gridDim.x + last_round : blockIdx.x) * rows;
  card->last_round = last_round;
}

template <bool MULTI, bool SELF, bool SCALED, int THREADS>
__global__ void __launch_bounds__(THREADS, 1) slices_kernel(const __grid_constant__ SliceArgs a) {
  constexpr int WARPS = THREADS / 32;
  extern __shared__ __align__(128) uint4 shared[];
  const Places at = places(a.slab_rows, a.nodes, a.types);
  char* const memory = reinterpret_cast<char*>(shared);
  const uint16_t* const table = reinterpret_cast<const uint16_t*>(memory + at.table);
  uint32_t* const bits = reinterpret_cast<uint32_t*>(memory + at.bits);
  int* const next_task = reinterpret_cast<int*>(memory + at.counter);
  const uint32_t counter = kSlabAt + at.counter;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, t = lane & 3;
  if (uint32_t(__cvta_generic_to_shared(shared)) != kSlabAt) __trap();
  const uint32_t low_bits =
      piece<MULTI>(lane & 7, 0) * 16;  // address bits below the group, half 0: fixed for a lane
  volatile Card* const cards = reinterpret_cast<volatile Card*>(memory + at.cards);
  auto fetch_table = [&](uint32_t panel) {
    const uint16_t* from = a.node_at + size_t(panel) * a.slab_rows;
    for (uint32_t i = threadIdx.x; i < a.slab_rows / 8; i += THREADS) {
      copy_async(kSlabAt + at.table + i * 16, from + i * 8);
    }
  };
  float* const scales = reinterpret_cast<float*>(memory + at.scales);  // [T]
  if (SELF) {
    for (int i = threadIdx.x; i < a.types; i += THREADS) scales[i] = 1 + a.eps[i];
  }
  if (threadIdx.x == 0) write_card<MULTI>(a, 0, cards);
  __syncthreads();
  if (cards->slice < 0) return;
  fetch_table(cards->panel);
  int slice = -1;
  for (int k = 0;; ++k) {
    volatile Card* const card = reinterpret_cast<volatile Card*>(
        reinterpret_cast<volatile char*>(cards) + (k & 1) * kCardBytes);
    if (card->slice < 0) break;
    const int task1 = card->task1;
    const int column = card->slice * kSliceColumns;
    if (card->slice != slice) {  // the removed nodes of the samples of both halves
      slice = card->slice;
      __syncthreads();
      for (uint32_t i = threadIdx.x; i < at.bit_words; i += THREADS) bits[i] = 0;
      __syncthreads();
      for (int h = 0; h < 2; ++h) {
        if (column + 8 * h >= a.columns) break;
        const int b = (column + 8 * h) / a.width;
        const int64_t begin = a.removed.ptr[b], end = a.removed.ptr[b + 1];
        if (begin < 0 || end < begin || end > a.removed.capacity || (b == 0 && begin != 0)) {
          if (a.error != nullptr && threadIdx.x == 0) atomicOr(a.error, kBadRemovedPtr);
          continue;
        }
        for (int64_t i = begin + threadIdx.x; i < end; i += THREADS) {
          const int32_t node = a.removed.index[i];
          if (node < 0 || uint32_t(node) >= a.nodes) {
            if (a.error != nullptr) atomicOr(a.error, kBadRemovedIndex);
          } else {
            atomicOr(bits + (node >> 4), 1u << (2 * (node & 15) + h));
          }
        }
      }
    }
    wait_copies();    // the table
    __syncthreads();  // and the segment before is done with the slab
    if (threadIdx.x == 0) *next_task = card->task0 + WARPS;
    const BFloat16* const source = a.source + card->type * a.source_stride + column;
#pragma unroll 6
    for (uint32_t i = threadIdx.x; i < a.slab_rows * 2;
         i += THREADS) {  // two lanes a row, all copies in flight
      const uint32_t node = table[i >> 1], h = i & 1, to = piece<MULTI>(i >> 1, h);
      if (node == kNoNode || (bits[node >> 4] >> (2 * (node & 15) + h) & 1) ||
          column + 8 * h >= a.columns) {
        shared[to] = make_uint4(0, 0, 0, 0);
      } else {
        copy_async(kSlabAt + to * 16, source + int64_t(node) * a.columns + h * 8);
      }
    }
    // While they come: the first task's loads.
    int task = card->task0 + warp, after = 0;
    Task where = {};
    uint4 q = {}, m = {};
    const uint4* up = nullptr;
    uint32_t line[2] = {}, own = 0;
    uint32_t at_line = 0;  // of the chunk, this lane's first one
    auto open_task = [&] {
      up = reinterpret_cast<const uint4*>(a.units + size_t(where.unit) * kUnitBytes) + lane;
    };
    auto open_chunk = [&] {
      line[0] = __ldg(a.lines + at_line);
      line[1] = __ldg(a.lines + at_line + 8);
      if (SELF) own = __ldg(a.own + at_line - (lane >> 2) + (lane & 15));
    };
    if (task < task1) {
      where = a.tasks[task];
      open_task();
      q = __ldg(up);
      m = __ldg(up + 32);
      at_line = where.chunk * kLines + (lane >> 2);
      open_chunk();
    }
    wait_copies();
    if (MULTI && threadIdx.x == 0 && card->need > 0) {
      while (load_acquire(a.done + card->last_round) < card->need) {
      }
    }
    __syncthreads();
    // What comes next is found out meanwhile; its table is fetched once this panel's is no longer
    // needed.
    if (threadIdx.x == THREADS - 32) {
      write_card<MULTI>(a, k + 1,
                        reinterpret_cast<volatile Card*>(reinterpret_cast<volatile char*>(cards) +
                                                         (~k & 1) * kCardBytes));
    }
    auto ask = [&] {  // the next task, and where it lies
      if (lane == 0) {
        asm volatile("atom.shared.add.u32 %0, [%1], 1;" : "=r"(after) : "r"(counter) : "memory");
        where = a.tasks[min(after, task1 - 1)];
      }
    };
    const bool writes = column + 8 * (t & 1) < a.columns;
    const uint32_t out_bytes = 2 * (column + (t & 1 ? 6 + 2 * t : 2 * t));
    float lo[2][4] = {}, hi[2][4] = {};
    auto close_chunk = [&](bool task_ends, uint32_t next) {
      float v[2][4];
      float all = 0;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int h = c >> 1, e = 2 * i + (c & 1);
          v[i][c] = fmaf(hi[h][e], 0x1p63f, lo[h][e] * .5f);
          all += v[i][c];
        }
      }
      uint32_t s[4];  // own rows: lines 0-7 and 8-15 of half 0, then of half 1, in the layout of
                      // the sums
      if (SELF) read_own_rows(s, piece<MULTI>(own, lane >> 4) * 16);
      const bool exact = __any_sync(~0u, !(fabsf(all) < INFINITY));  // some sum may not be finite
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t node = line[i] & 0xffff, type = line[i] >> 16;
        const bool there = line[i] != kNoLine;
        const uint32_t row = type * a.nodes + node;
        if (exact && there) {
          const float4 f = exact_line<MULTI>(a, card->panel, a.forward ? type : card->type, node);
          v[i][0] = f.x;
          v[i][1] = f.y;
          v[i][2] = f.z;
          v[i][3] = f.w;
        }
        if (SCALED && there) {
          const int batch = a.columns / a.width, b0 = column / a.width;
          const int b1 = min((column + 8) / a.width, batch - 1);
          const float s0 = a.row_scale[int64_t(row) * batch + b0];
          const float s1 = a.row_scale[int64_t(row) * batch + b1];
          v[i][0] = s0 == 0 ? 0 : v[i][0] * s0;  // no kept neighbours
          v[i][1] = s0 == 0 ? 0 : v[i][1] * s0;
          v[i][2] = s1 == 0 ? 0 : v[i][2] * s1;
          v[i][3] = s1 == 0 ? 0 : v[i][3] * s1;
        }
        if (SELF) {
          const float scale = scales[!a.forward ? card->type : there ? type : 0];
          v[i][0] = fmaf(scale, low(s[i]), v[i][0]);
          v[i][1] = fmaf(scale, high(s[i]), v[i][1]);
          v[i][2] = fmaf(scale, low(s[i + 2]), v[i][2]);
          v[i][3] = fmaf(scale, high(s[i + 2]), v[i][3]);
        }
        if (MULTI) {
          const int mode = card->mode;
          float* const to = a.sums + size_t(card->first_row + row) * 16 + t * 4;
          if (mode != int(Mode::finish)) {
            if (!there) continue;
            if (mode == int(Mode::add)) {
              add_to(to, v[i]);
            } else {
              __stcg(reinterpret_cast<float4*>(to),
                     make_float4(v[i][0], v[i][1], v[i][2], v[i][3]));
            }
            continue;
          }
          if (there) {
            float4 f = __ldcg(reinterpret_cast<const float4*>(to));
            if (card->helped && int(__ldg(a.task_of + row)) >= a.cut) {
              const uint32_t rows = uint32_t(a.forward ? a.types : 1) * a.nodes;
              const size_t from = size_t(gridDim.x + card->last_round) * rows + row;
              const float4 g = __ldcg(reinterpret_cast<const float4*>(a.sums + from * 16 + t * 4));
              f = make_float4(f.x + g.x, f.y + g.y, f.z + g.z, f.w + g.w);
            }
            v[i][0] += f.x;
            v[i][1] += f.y;
            v[i][2] += f.z;
            v[i][3] += f.w;
          }
        }
        // Trade with the neighbour lane, so that each stores 8 bytes: even lanes of half 0, odd
        // ones of half 1.
        const uint32_t u = pack(v[i][0], v[i][1]), w = pack(v[i][2], v[i][3]);
        const uint32_t r = __shfl_xor_sync(~0u, t & 1 ? u : w, 1);
        if (there && writes) {
          char* const to = reinterpret_cast<char*>(a.out) +
                           (uint64_t(row) * (uint32_t(a.columns) * 2) + out_bytes);
          __stcs(reinterpret_cast<uint2*>(to), t & 1 ? make_uint2(r, w) : make_uint2(u, r));
        }
      }
      at_line = task_ends ? next * kLines + (lane >> 2) : at_line + kLines;
      open_chunk();
#pragma unroll
      for (int i = 0; i < 4; ++i) lo[0][i] = lo[1][i] = hi[0][i] = hi[1][i] = 0;
    };
    if (task < task1) ask();
    while (task < task1) {
      // Ids become addresses, then q and m are loaded anew in place: the loads have all eight steps
      // to arrive. `zero` makes their address depend on the last uses of q, else the compiler loads
      // first and waits at once to move the new value.
      const uint32_t flags = q.x | q.y | q.z | q.w, id[4] = {q.x, q.y, q.z, q.w};
      const uint32_t w[4] = {m.x, m.y, m.z, m.w};
      const uint32_t any = flags & (kChunkEnds | uint32_t(kChunkEnds) << 16);
      const bool stop = flags & (kTaskEnds | uint32_t(kTaskEnds)
                                                 << 16);  // the task ends here: load the next one's
      // Byte 0 of an address from low_bits, bytes 1 and 2 the id.
      auto address = [&](uint32_t two, bool second) {
        return __byte_perm(two, low_bits, second ? 0x5324 : 0x5104);
      };
      int ahead = int(kUnitBytes + ((any | id[0] | id[1] | id[2] | id[3]) & a.zero));
      uint32_t next_chunk = 0;
      if (stop) {
        task = __shfl_sync(~0u, after, 0);
        where.unit = __shfl_sync(~0u, where.unit, 0);
        next_chunk = __shfl_sync(~0u, where.chunk, 0);
        open_task();
        ahead -= kUnitBytes;
        ask();
      }
      up = reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(up) + ahead);
      q = __ldg(up);
      m = __ldg(up + 32);
      constexpr uint32_t kEnds = uint32_t(kChunkEnds) << 8, kStops = uint32_t(kTaskEnds) << 8;
      if (any == 0) {
#pragma unroll
        for (int s = 0; s < 8; ++s) {
          add_step<true>(lo, hi, gather_step<MULTI>(address(id[s / 2], s & 1)), w, s);
        }
      } else {
        uint32_t two = id[0], later[3] = {id[1], id[2], id[3]};
#pragma unroll 1
        for (int s = 0; s < 8; s += 2) {
          const uint32_t first = address(two, false), second = address(two, true);
          add_step<false>(lo, hi, gather_step<MULTI>(first & 0x3fffffu), w, s);
          if (first & kEnds) {
            close_chunk(first & kStops, next_chunk);
            if (first & kStops) break;
          }
          add_step<false>(lo, hi, gather_step<MULTI>(second & 0x3fffffu), w, s + 1);
          if (second & kEnds) {
            close_chunk(second & kStops, next_chunk);
            if (second & kStops) break;
          }
          two = later[0];
          later[0] = later[1];
          later[1] = later[2];
        }
      }
    }
    if (MULTI && card->mode == int(Mode::help)) {
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) add_release(a.done + card->last_round, 1);
    }
    if (card->mode == int(Mode::finish) || card->mode == int(Mode::write)) {
      __syncthreads();
      const bool two = column + 8 < a.columns;
      if (two && column / a.width == (column + 8) / a.width) {
        write_removed_rows<MULTI, SELF, THREADS>(a, card->task0, task1, column, 0, 2);
      } else {
        write_removed_rows<MULTI, SELF, THREADS>(a, card->task0, task1, column, 0, 1);
        if (two) write_removed_rows<MULTI, SELF, THREADS>(a, card->task0, task1, column, 1, 2);
      }
    }
    __syncthreads();  // the next card is there
    const int next_panel = reinterpret_cast<volatile Card*>(
                               reinterpret_cast<volatile char*>(cards) + (~k & 1) * kCardBytes)
                               ->panel;
    fetch_table(next_panel);
  }
  wait_copies();
}

struct Device {
  int multiprocessors, shared_bytes;
};
Device device() {
  int id = 0;
  Device d = {};
  check(cudaGetDevice(&id), "current device");
  check(cudaDeviceGetAttribute(&d.multiprocessors, cudaDevAttrMultiProcessorCount, id), "device");
  check(cudaDeviceGetAttribute(&d.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, id),
        "device");
  return d;
}

// What loading a slab costs, in the unit of slice::Pass::cost.
double slab_cost(const Pass& pass) { return (pass.panel_count > 1 ? 1.5 : 3.0) * pass.slab_rows; }
constexpr double kEarly = 0.05;  // helpers end before the last panel by this part of a slice
// A helper's change to another slice, in slab loads: nothing overlaps it.
constexpr double kSwitch = 1.2;

double panel_cost(const SlicePlan& plan, const Pass& pass, uint32_t panel) {
  const Panel p = plan.at<Panel>(pass.panels)[panel];
  const uint32_t* cost = plan.at<uint32_t>(pass.cost);
  double sum = slab_cost(pass);
  for (uint32_t k = p.task0; k < p.task1; ++k) sum += cost[k];
  return sum;
}

// Which tasks of a slice its helpers do, so that all blocks end together: those from `cut` to `end`
// of one panel.
struct Cut {
  int panel, cut, end;
};
Cut cut_tasks(const SlicePlan& plan, const Pass& pass, int rest, int helpers) {
  const Panel p = plan.at<Panel>(pass.panels)[pass.heaviest];
  const Cut none = {int(pass.heaviest), int(p.task1), int(p.task1)};
  const bool multi = pass.panel_count > 1;
  if (helpers == 0 || rest == 0 || (multi && pass.panel_count < 3)) return none;
  const double slab = slab_cost(pass),
               each = double(rest) / helpers;  // slices that a helper serves
  double all = 0;
  for (uint32_t k = 0; k < pass.panel_count; ++k) all += panel_cost(plan, pass, k);
  // Helpers of a pass of several panels must be done when the owners come to the last panel.
  const double early = multi ? panel_cost(plan, pass, pass.panel_count - 1) + kEarly * all : 0;
  double want =
      multi ? (all - each * slab * kSwitch - early) / (each + 1) : (all - slab) / (each + 1) - slab;
  const uint32_t* cost = plan.at<uint32_t>(pass.cost);
  uint32_t cut = p.task1;
  while (cut > p.task0 && want - cost[cut - 1] / 2 > 0) want -= cost[--cut];
  return {int(pass.heaviest), int(cut), int(p.task1)};
}

int64_t output_rows(const SlicePlan& plan, const Pass& pass) {
  return int64_t(pass.output_types) * plan.node_count();
}
// Helpers need room for the sums of every slice; with too many rows there are none.
constexpr int64_t kMostHelpBytes = int64_t(1) << 28;
int64_t help_bytes(const SlicePlan& plan, const Pass& pass, int blocks) {
  const int64_t bytes = output_rows(plan, pass) * 64 * blocks;
  return pass.panel_count < 3 || bytes > kMostHelpBytes ? 0 : bytes;
}

template <bool MULTI, bool SELF, bool SCALED>
void launch(const SliceArgs& a, int blocks, cudaStream_t stream) {
  constexpr int kThreads = MULTI ? 640 : 768;
  const auto kernel = slices_kernel<MULTI, SELF, SCALED, kThreads>;
  const int bytes = int(places(a.slab_rows, a.nodes, a.types).bytes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of the slice kernel");
  if (MULTI) {  // owners wait for helpers, so all blocks must run at the same time
    void* arguments[] = {const_cast<SliceArgs*>(&a)};
    check(
        cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(kThreads), arguments, bytes, stream),
        "aggregate (slices)");
  } else {
    kernel<<<blocks, kThreads, bytes, stream>>>(a);
  }
  check_launch("aggregate (slices)");
}

template <bool MULTI>
void launch(const SliceArgs& a, int blocks, cudaStream_t stream) {
  if (a.row_scale != nullptr) {
    a.eps != nullptr ? launch<MULTI, true, true>(a, blocks, stream)
                     : launch<MULTI, false, true>(a, blocks, stream);
  } else {
    a.eps != nullptr ? launch<MULTI, true, false>(a, blocks, stream)
                     : launch<MULTI, false, false>(a, blocks, stream);
  }
}

}  // namespace

bool slices_fit(const SlicePlan& plan, const Pass& pass, int64_t columns, int64_t width) {
  const Device d = device();
  if (width % 8 != 0 || columns == 0 || columns > INT32_MAX / 2) return false;
  if (int(places(pass.slab_rows, plan.node_count(), int(plan.type_count())).bytes) > d.shared_bytes)
    return false;
  // With several panels a block must do a whole slice: too few slices leave multiprocessors idle.
  return pass.panel_count == 1 || divide_up(columns, kSliceColumns) * 5 >= d.multiprocessors * 3;
}

uint64_t slice_sums_bytes(const SlicePlan& plan, const Pass& pass) {
  if (pass.panel_count == 1) return 0;
  const int blocks = device().multiprocessors;
  return uint64_t(output_rows(plan, pass) * 64 * blocks + help_bytes(plan, pass, blocks)) +
         aligned(uint64_t(blocks) * sizeof(int));
}

void aggregate_slices(const CudaGraph& graph, bool forward, SliceArgs a, cudaStream_t stream) {
  const SlicePlan& plan = *graph.slices;
  const Pass& pass = forward ? plan.forward() : plan.backward();
  auto moved = [&](auto* unused, uint64_t offset) {
    return reinterpret_cast<decltype(unused)>(graph.slices_device + offset);
  };
  a.units = graph.slices_device + pass.units;
  a.tasks = moved(static_cast<const Task*>(nullptr), pass.tasks);
  a.lines = moved(static_cast<const uint32_t*>(nullptr), pass.lines);
  a.own = moved(static_cast<const uint16_t*>(nullptr), pass.own);
  a.panels = moved(static_cast<const Panel*>(nullptr), pass.panels);
  a.node_at = moved(static_cast<const uint16_t*>(nullptr), pass.node_at);
  a.place = moved(static_cast<const uint16_t*>(nullptr), pass.place);
  a.task_of = moved(static_cast<const uint32_t*>(nullptr), pass.task_of);
  a.panel_count = pass.panel_count;
  a.task_count = pass.task_count;
  a.slab_rows = pass.slab_rows;
  a.forward = forward;
  a.csr = csr_table(graph, !forward);
  a.slices = divide_up(a.columns, kSliceColumns);
  a.zero = 0;
  const int blocks = device().multiprocessors, rest = a.slices % blocks;
  const int64_t sums = output_rows(plan, pass) * 16 * blocks;
  const int64_t help = help_bytes(plan, pass, blocks);
  const bool may_help = pass.panel_count == 1 || help > 0;
  const Cut cut = cut_tasks(plan, pass, rest, may_help && rest > 0 ? blocks - rest : 0);
  a.shared_panel = cut.panel;
  a.cut = cut.cut;
  a.shared_end = cut.end;
  if (pass.panel_count > 1) {
    a.done = reinterpret_cast<int*>(a.sums + sums + help / 4);
    check(cudaMemsetAsync(a.done, 0, sizeof(int) * blocks, stream), "clear the helpers' counters");
  }
  pass.panel_count > 1 ? launch<true>(a, blocks, stream) : launch<false>(a, blocks, stream);
}

}  // namespace lacuna::cuda
