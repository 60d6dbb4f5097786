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
struct Places {
  uint32_t table, bits, counter, bytes;  // in bytes from the start
  uint32_t bit_words;                    // two bits a node
};
__host__ __device__ inline Places places(uint32_t slab_rows, uint32_t nodes) {
  Places p;
  p.table = slab_rows * 32;
  p.bits = p.table + (slab_rows * 2 + 15) / 16 * 16;
  p.bit_words = (nodes + 63) / 64 * 4;
  p.counter = p.bits + p.bit_words * 4;
  p.bytes = p.counter + 16;
  return p;
}

// 16-byte piece of the slab where half h of a row lies. The halves of classes 4 to 7 are swapped,
// so that equal halves of the eight classes lie in different banks.
__device__ __forceinline__ uint32_t piece(uint32_t position, uint32_t h) {
  return 2 * position + (h ^ (position >> 2 & 1));
}

__device__ __forceinline__ void gather_rows(uint32_t (&r)[4], uint32_t offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4 + %5];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(offset), "n"(kSlabAt));
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
__device__ __forceinline__ void step(float (&lo)[2][4], float (&hi)[2][4], uint32_t offset,
                                     const uint32_t (&w)[4], int turn) {
  uint32_t g[4], h[4], a[4], b[4];
  gather_rows(g, offset);
  gather_rows(h, offset ^ 16);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t v = __funnelshift_l(w[i], w[i], turn);  // step s: 2 s - 1
    a[i] = v & 0x40004000u;
    b[i] = v & 0x20002000u;
  }
  multiply_add(lo[0], a, g[0], g[1]);
  multiply_add(lo[1], a, h[0], h[1]);
  multiply_add(hi[0], b, g[2], g[3]);
  multiply_add(hi[1], b, h[2], h[3]);
}

enum Mode {
  kStore,
  kAdd,
  kFinish
};  // of a panel: the first, the next ones, the last (or only) one
struct Segment {
  int slice, panel, task0, task1;
};

// The work of a block, counted from 0. With one panel, the slices that do not fill a round of
// blocks are shared: a block each does the tasks below `cut`, the rest of the blocks do the others,
// in order.
template <bool MULTI>
struct Share {
  int rounds, rest, tail, low, high, count;
  __device__ explicit Share(const SliceArgs& a) {
    const int blocks = gridDim.x, b = blockIdx.x;
    rounds = a.slices / blocks;
    rest = a.slices % blocks;
    if (MULTI) {
      count = (rounds + (b < rest ? 1 : 0)) * a.panel_count;
      return;
    }
    tail = a.task_count - a.cut;
    low = high = 0;
    count = rounds + (b < rest ? 1 : 0);
    if (rest > 0 && b >= rest && tail > 0) {
      const int64_t all = int64_t(rest) * tail;
      low = int((b - rest) * all / (blocks - rest));
      high = int((b - rest + 1) * all / (blocks - rest));
      if (high > low) count += (high - 1) / tail - low / tail + 1;
    }
  }
  __device__ Segment get(const SliceArgs& a, int k) const {
    const int blocks = gridDim.x, b = blockIdx.x;
    if (MULTI) {
      const int panel = k % int(a.panel_count);
      const Panel p = a.panels[panel];
      return {k / int(a.panel_count) * blocks + b, panel, int(p.task0), int(p.task1)};
    }
    if (k < rounds) return {k * blocks + b, 0, 0, int(a.task_count)};
    if (b < rest) return {rounds * blocks + b, 0, 0, int(a.cut)};
    const int s = low / tail + (k - rounds);
    return {rounds * blocks + s, 0, int(a.cut) + max(low, s * tail) - s * tail,
            int(a.cut) + min(high, (s + 1) * tail) - s * tail};
  }
};

// The sums of one line without tensor cores, term by term: where a term is not finite, 0 * x would
// reach other lines.
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
                   : "r"(kSlabAt + piece(position, h) * 16 + t * 4));
    }
    v.x += low(word[0]);
    v.y += high(word[0]);
    v.z += low(word[1]);
    v.w += high(word[1]);
  }
  return v;
}

// A removed row keeps its self term alone: of one type in the forward pass, of all in the backward
// pass. Columns `column` and the next, and the same of the other half.
__device__ __noinline__ float4 self_alone(const SliceArgs& a, uint32_t type, uint32_t node,
                                          int column) {
  float4 v = {0, 0, 0, 0};
  if (a.eps == nullptr) return v;
  for (int t = a.forward ? type : 0; t < (a.forward ? int(type) + 1 : a.types); ++t) {
    const BFloat16* p = a.source + t * a.source_stride + int64_t(node) * a.columns + column;
    const float scale = 1 + a.eps[t];
    const uint32_t w0 = *reinterpret_cast<const uint32_t*>(p);
    const uint32_t w1 = column + 8 < a.columns ? *reinterpret_cast<const uint32_t*>(p + 8) : 0;
    v.x = fmaf(scale, low(w0), v.x);
    v.y = fmaf(scale, high(w0), v.y);
    v.z = fmaf(scale, low(w1), v.z);
    v.w = fmaf(scale, high(w1), v.w);
  }
  return v;
}

template <bool MULTI, bool SELF, bool SCALED, int THREADS>
__global__ void __launch_bounds__(THREADS, 1) slices_kernel(const __grid_constant__ SliceArgs a) {
  constexpr int WARPS = THREADS / 32;
  extern __shared__ __align__(128) uint4 shared[];
  const Places at = places(a.slab_rows, a.nodes);
  char* const memory = reinterpret_cast<char*>(shared);
  const uint16_t* const table = reinterpret_cast<const uint16_t*>(memory + at.table);
  uint32_t* const bits = reinterpret_cast<uint32_t*>(memory + at.bits);
  int* const next_task = reinterpret_cast<int*>(memory + at.counter);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, t = lane & 3;
  if (uint32_t(__cvta_generic_to_shared(shared)) != kSlabAt) __trap();
  const uint32_t low_bits =
      piece(lane & 7, 0) * 16;  // address bits below the group, half 0: fixed for a lane
  const Share<MULTI> share(a);
  auto fetch_table = [&](uint32_t panel) {
    const uint16_t* from = a.node_at + size_t(panel) * a.slab_rows;
    for (uint32_t i = threadIdx.x; i < a.slab_rows / 8; i += THREADS) {
      copy_async(kSlabAt + at.table + i * 16, from + i * 8);
    }
  };
  int slice = -1;
  for (int k = 0; k < share.count; ++k) {
    const Segment seg = share.get(a, k);
    const Mode mode = !MULTI || seg.panel + 1 == int(a.panel_count) ? kFinish
                      : seg.panel == 0                              ? kStore
                                                                    : kAdd;
    const uint32_t panel_type = a.forward || !MULTI ? 0 : a.panels[seg.panel].type;
    const int column = seg.slice * kSliceColumns;
    if (k == 0) fetch_table(seg.panel);
    if (seg.slice != slice) {  // the removed nodes of the samples of both halves
      slice = seg.slice;
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
    if (threadIdx.x == 0) *next_task = seg.task0 + WARPS;
    const BFloat16* const source = a.source + panel_type * a.source_stride + column;
#pragma unroll 6
    for (uint32_t i = threadIdx.x; i < a.slab_rows * 2;
         i += THREADS) {  // two lanes a row, all copies in flight
      const uint32_t node = table[i >> 1], h = i & 1, to = piece(i >> 1, h);
      if (node == kNoNode || (bits[node >> 4] >> (2 * (node & 15) + h) & 1) ||
          column + 8 * h >= a.columns) {
        shared[to] = make_uint4(0, 0, 0, 0);
      } else {
        copy_async(kSlabAt + to * 16, source + int64_t(node) * a.columns + h * 8);
      }
    }
    // While they come: the first task's loads.
    int task = seg.task0 + warp, after = 0;
    Task where = {};
    uint4 q = {}, m = {};
    const uint4* up = nullptr;
    uint32_t chunk = 0, line[2] = {}, own = 0;
    auto open_task = [&] {
      up = reinterpret_cast<const uint4*>(a.units + size_t(where.unit) * kUnitBytes) + lane;
    };
    auto open_chunk = [&](uint32_t c) {
      chunk = c;
      line[0] = __ldg(a.lines + size_t(c) * kLines + (lane >> 2));
      line[1] = __ldg(a.lines + size_t(c) * kLines + (lane >> 2) + 8);
      if (SELF) own = __ldg(a.own + size_t(c) * kLines + (lane & 15));
    };
    if (task < seg.task1) {
      where = a.tasks[task];
      open_task();
      q = __ldg(up);
      m = __ldg(up + 32);
      open_chunk(where.chunk);
    }
    wait_copies();
    __syncthreads();
    if (k + 1 < share.count) fetch_table(share.get(a, k + 1).panel);
    if (task >= seg.task1) continue;
    auto ask = [&] {  // the next task, and where it lies
      if (lane == 0) {
        after = atomicAdd(next_task, 1);
        where = a.tasks[min(after, seg.task1 - 1)];
      }
    };
    const float panel_scale = SELF && !a.forward ? 1 + __ldg(a.eps + panel_type) : 0.f;
    const bool writes = column + 8 * (t & 1) < a.columns;
    BFloat16* const out = a.out + column + (t & 1 ? 6 + 2 * t : 2 * t);
    float* const sums =
        MULTI ? a.sums + size_t(blockIdx.x) * (a.forward ? a.types : 1) * a.nodes * 16 + t * 4
              : nullptr;
    float lo[2][4] = {}, hi[2][4] = {};
    auto close_chunk = [&](uint32_t next) {
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
      if (SELF) read_own_rows(s, piece(own, lane >> 4) * 16);
      const bool exact = __any_sync(~0u, !(fabsf(all) < INFINITY));  // some sum may not be finite
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t node = line[i] & 0xffff, type = line[i] >> 16;
        const bool there = line[i] != kNoLine;
        const uint32_t row = type * a.nodes + node;
        if (exact && there) {
          const float4 f = exact_line(a, seg.panel, a.forward ? type : panel_type, node);
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
          const float scale = a.forward ? 1 + __ldg(a.eps + (there ? type : 0)) : panel_scale;
          v[i][0] = fmaf(scale, low(s[i]), v[i][0]);
          v[i][1] = fmaf(scale, high(s[i]), v[i][1]);
          v[i][2] = fmaf(scale, low(s[i + 2]), v[i][2]);
          v[i][3] = fmaf(scale, high(s[i + 2]), v[i][3]);
        }
        if (MULTI) {
          float* const to = sums + size_t(row) * 16;
          if (mode == kStore) {
            if (there) {
              __stcg(reinterpret_cast<float4*>(to),
                     make_float4(v[i][0], v[i][1], v[i][2], v[i][3]));
            }
            continue;
          }
          if (mode == kAdd) {
            if (there) add_to(to, v[i]);
            continue;
          }
          if (there) {
            const float4 f = __ldcg(reinterpret_cast<const float4*>(to));
            v[i][0] += f.x;
            v[i][1] += f.y;
            v[i][2] += f.z;
            v[i][3] += f.w;
          }
        }
        const uint32_t gone = there ? bits[node >> 4] >> (2 * (node & 15)) & 3 : 0;
        if (gone != 0) {
          const float4 f = self_alone(a, type, node, column + 2 * t);
          if (gone & 1) {
            v[i][0] = f.x;
            v[i][1] = f.y;
          }
          if (gone & 2) {
            v[i][2] = f.z;
            v[i][3] = f.w;
          }
        }
        // Trade with the neighbour lane, so that each stores 8 bytes: even lanes of half 0, odd
        // ones of half 1.
        const uint32_t u = pack(v[i][0], v[i][1]), w = pack(v[i][2], v[i][3]);
        const uint32_t r = __shfl_xor_sync(~0u, t & 1 ? u : w, 1);
        if (there && writes) {
          __stcs(reinterpret_cast<uint2*>(out + size_t(row) * a.columns),
                 t & 1 ? make_uint2(r, w) : make_uint2(u, r));
        }
      }
      open_chunk(next);
#pragma unroll
      for (int i = 0; i < 4; ++i) lo[0][i] = lo[1][i] = hi[0][i] = hi[1][i] = 0;
    };
    ask();
    for (;;) {
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
      if (stop) {
        task = __shfl_sync(~0u, after, 0);
        where.unit = __shfl_sync(~0u, where.unit, 0);
        where.chunk = __shfl_sync(~0u, where.chunk, 0);
        open_task();
        ahead -= kUnitBytes;
      }
      const uint32_t next_chunk = where.chunk;
      if (stop) ask();
      up = reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(up) + ahead);
      q = __ldg(up);
      m = __ldg(up + 32);
      if (any == 0) {
#pragma unroll
        for (int s = 0; s < 8; ++s) step(lo, hi, address(id[s / 2], s & 1), w, 2 * s - 1);
      } else {
        constexpr uint32_t kEnds = uint32_t(kChunkEnds) << 8, kStops = uint32_t(kTaskEnds) << 8;
        uint32_t two = id[0], later[3] = {id[1], id[2], id[3]};
#pragma unroll 1
        for (int turn = -1; turn < 15; turn += 4) {
          const uint32_t first = address(two, false), second = address(two, true);
          step(lo, hi, first & 0x3fffffu, w, turn);
          if (first & kEnds) {
            close_chunk(first & kStops ? next_chunk : chunk + 1);
            if (first & kStops) break;
          }
          step(lo, hi, second & 0x3fffffu, w, turn + 2);
          if (second & kEnds) {
            close_chunk(second & kStops ? next_chunk : chunk + 1);
            if (second & kStops) break;
          }
          two = later[0];
          later[0] = later[1];
          later[1] = later[2];
        }
      }
      if (stop && task >= seg.task1) break;
    }
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

// Where to cut a slice's tasks so that its own block and the `extra` blocks that share what is left
// end together.
uint32_t cut_tasks(const SlicePlan& plan, const Pass& pass, int64_t rest, int64_t extra) {
  if (extra == 0 || rest == 0) return pass.task_count;
  const uint32_t* cost = plan.at<uint32_t>(pass.cost);
  double all = 0;
  for (uint32_t i = 0; i < pass.task_count; ++i) all += cost[i];
  const double slab = 3.0 * pass.slab_rows;  // what loading a slab costs, in the unit of cost
  const double r = double(rest) / double(extra);
  const double part = std::min(all, (r * all + (r + 1) * slab) / (r + 1));
  double done = 0;
  uint32_t cut = 0;
  while (cut < pass.task_count && done < part) done += cost[cut++];
  return cut;
}

template <bool MULTI, bool SELF, bool SCALED>
void launch(const SliceArgs& a, int blocks, cudaStream_t stream) {
  constexpr int kThreads = MULTI ? 640 : 768;
  const auto kernel = slices_kernel<MULTI, SELF, SCALED, kThreads>;
  const int bytes = int(places(a.slab_rows, a.nodes).bytes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of the slice kernel");
  kernel<<<blocks, kThreads, bytes, stream>>>(a);
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
  if (int(places(pass.slab_rows, plan.node_count()).bytes) > d.shared_bytes) return false;
  // With several panels a block must do a whole slice: too few slices leave multiprocessors idle.
  return pass.panel_count == 1 || divide_up(columns, kSliceColumns) * 5 >= d.multiprocessors * 3;
}

uint64_t slice_sums_bytes(const SlicePlan& plan, const Pass& pass) {
  if (pass.panel_count == 1) return 0;
  return uint64_t(device().multiprocessors) * pass.output_types * plan.node_count() * 64;
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
  a.panel_count = pass.panel_count;
  a.task_count = pass.task_count;
  a.slab_rows = pass.slab_rows;
  a.forward = forward;
  a.csr = csr_table(graph, !forward);
  a.slices = divide_up(a.columns, kSliceColumns);
  a.zero = 0;
  const int blocks = device().multiprocessors;
  const int64_t rest = a.slices % blocks;
  a.cut = cut_tasks(plan, pass, rest, rest == 0 ? 0 : blocks - rest);
  pass.panel_count > 1 ? launch<true>(a, blocks, stream) : launch<false>(a, blocks, stream);
}

}  // namespace lacuna::cuda
