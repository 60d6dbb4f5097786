// The chunks layout on tensor cores: bf16 sums. A step gathers 32 rows of the slab with two
// ldmatrix (16 bytes a lane) as the second operand of mma.m16n8k16; the first is the 0/1 membership
// of 16 lines x 16 neighbours, expanded from bits.
#include "lacuna/ops/slab/slab_block.cuh"

namespace lacuna::cuda {
namespace {

using namespace slab;

// 16-byte piece of the slab where half h of a row lies. Equal halves of the eight classes of a
// group lie in different banks. ADJACENT: a row is 32 bytes in one place, which is faster to load;
// the halves of classes 4 to 7 are swapped. Otherwise a group is eight pieces of half 0, then eight
// of half 1, which is faster to gather.
template <bool ADJACENT>
__device__ __forceinline__ uint32_t slab_piece(uint32_t position, uint32_t h) {
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
// The step is known to the compiler, which then shifts by multiplying: the other units are busier.
__device__ __forceinline__ void add_step(float (&lo)[2][4], float (&hi)[2][4], const Pieces& p,
                                         const uint32_t (&w)[4], int step) {
  uint32_t a[4], b[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t v = step == 0 ? w[i] >> 1 : w[i] * (1u << ((2 * step - 1) & 31));
    a[i] = v & 0x40004000u;
    b[i] = v & 0x20002000u;
  }
  multiply_add(lo[0], a, p.half0[0], p.half0[1]);
  multiply_add(lo[1], a, p.half1[0], p.half1[1]);
  multiply_add(hi[0], b, p.half0[2], p.half0[3]);
  multiply_add(hi[1], b, p.half1[2], p.half1[3]);
}

// The sums of one line without tensor cores, term by term: where a term is not finite, 0 * x would
// reach other lines.
template <bool ADJACENT>
__device__ __noinline__ float4 exact_line(const SlabArgs<BFloat16>& a, uint32_t panel,
                                          uint32_t type, uint32_t node) {
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
                   : "r"(kSlabAt + slab_piece<ADJACENT>(position, h) * 16 + t * 4));
    }
    v.x += low(word[0]);
    v.y += high(word[0]);
    v.z += low(word[1]);
    v.w += high(word[1]);
  }
  return v;
}

template <bool MULTI, bool SELF, bool SCALED>
struct ChunkWork {
  const SlabArgs<BFloat16>& a;
  uint32_t counter;     // the task counter's address
  const float* scales;  // [T] 1 + eps, in shared memory
  int lane, t;
  uint32_t low_bits;  // address bits below the group, half 0: fixed for a lane

  // Where the warp is.
  int task, after;  // after: the next task, of lane 0
  Task where;       // where it lies, of lane 0
  uint4 q, m;       // ids and membership bits of the unit that comes next
  const uint4* up;
  uint32_t chunk, head;
  uint32_t line[2], own;  // of the chunk: lines lane / 4 and that + 8; own row of line lane & 15

  __device__ __forceinline__ explicit ChunkWork(const SlabArgs<BFloat16>& args) : a(args) {
    extern __shared__ __align__(128) uint4 shared[];
    const Places at = places(a.slab_rows, a.nodes, a.types);
    counter = kSlabAt + at.counter;
    scales = reinterpret_cast<const float*>(reinterpret_cast<const char*>(shared) + at.scales);
    lane = threadIdx.x & 31;
    t = lane & 3;
    low_bits = slab_piece<MULTI>(lane & 7, 0) * 16;
  }
  __device__ __forceinline__ static uint32_t piece(uint32_t position, uint32_t h) {
    return slab_piece<MULTI>(position, h);
  }
  __device__ __forceinline__ void open_task() {
    up = reinterpret_cast<const uint4*>(a.units + size_t(where.unit) * kUnitBytes) + lane;
  }
  __device__ __forceinline__ void load_lines(uint32_t of, uint32_t (&two)[2], uint32_t& own_row) {
    two[0] = __ldg(a.lines + of * kLines + (lane >> 2));
    two[1] = __ldg(a.lines + of * kLines + (lane >> 2) + 8);
    if (SELF) own_row = __ldg(a.own + of * kLines + (lane & 15));
  }
  __device__ __forceinline__ void open(volatile const Card* card, int) {
    task = card->task0 + int(threadIdx.x >> 5);
    after = 0;
    where = {};
    line[0] = line[1] = own = head = 0;
    if (task < card->task1) {
      where = a.tasks[task];
      open_task();
      q = __ldg(up);
      m = __ldg(up + 32);
      chunk = where.chunk;
      head = __ldg(a.heads + chunk);
      load_lines(chunk, line, own);
    }
  }
  // The next task, and where it lies.
  __device__ __forceinline__ void ask(int task1) {
    if (lane == 0) {
      after = take_task(counter);
      where = a.tasks[min(after, task1 - 1)];
    }
  }

  // What stands in the sums of the panels before, for the last one; the loads of both lines are in
  // flight together.
  __device__ __forceinline__ void read_sums(const float* sums, const float* help,
                                            const uint32_t (&line)[2], const uint32_t (&row)[2],
                                            float4 (&f)[2]) const {
    float4 g[2] = {};
    bool from_help[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      from_help[i] =
          help != nullptr && line[i] != kNoLine && int(__ldg(a.task_of + row[i])) >= a.cut;
      if (line[i] != kNoLine) f[i] = __ldcg(reinterpret_cast<const float4*>(sums + row[i] * 16));
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (from_help[i]) g[i] = __ldcg(reinterpret_cast<const float4*>(help + row[i] * 16));
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      f[i] = make_float4(f[i].x + g[i].x, f[i].y + g[i].y, f[i].z + g[i].z, f[i].w + g[i].w);
    }
  }

  __device__ __forceinline__ void sum(volatile const Card* card, int column) {
    const int task1 = card->task1, mode = card->mode, panel_type = card->type;
    const bool writes = column + 8 * (t & 1) < a.columns;
    const uint32_t out_bytes = 2 * (column + (t & 1 ? 6 + 2 * t : 2 * t));
    const size_t rows = size_t(a.forward ? a.types : 1) * a.nodes;
    float* const sums = MULTI ? a.sums + size_t(card->first_row) * 16 + t * 4 : nullptr;
    const float* const help = MULTI && card->helped
                                  ? a.sums + (gridDim.x + card->last_round) * rows * 16 + t * 4
                                  : nullptr;
    float lo[2][4] = {}, hi[2][4] = {};
    auto close_chunk = [&] {
      const uint32_t row[2] = {(line[0] >> 16) * a.nodes + (line[0] & 0xffff),
                               (line[1] >> 16) * a.nodes + (line[1] & 0xffff)};
      float4 before[2] = {};
      if (MULTI && mode == int(Mode::finish)) read_sums(sums, help, line, row, before);
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
        const uint32_t node = line[i] & 0xffff, type = a.forward ? line[i] >> 16 : panel_type;
        const bool there = line[i] != kNoLine;
        if (exact && there) {
          const float4 f = exact_line<MULTI>(a, card->panel, type, node);
          v[i][0] = f.x;
          v[i][1] = f.y;
          v[i][2] = f.z;
          v[i][3] = f.w;
        }
        if (SCALED && there) {
          const int batch = a.columns / a.width, b0 = column / a.width;
          const int b1 = min((column + 8) / a.width, batch - 1);
          const float s0 = a.row_scale[int64_t(row[i]) * batch + b0];
          const float s1 = a.row_scale[int64_t(row[i]) * batch + b1];
          v[i][0] = s0 == 0 ? 0 : v[i][0] * s0;  // no kept neighbours
          v[i][1] = s0 == 0 ? 0 : v[i][1] * s0;
          v[i][2] = s1 == 0 ? 0 : v[i][2] * s1;
          v[i][3] = s1 == 0 ? 0 : v[i][3] * s1;
        }
        if (SELF) {
          const float scale = scales[there ? type : 0];
          v[i][0] = fmaf(scale, low(s[i]), v[i][0]);
          v[i][1] = fmaf(scale, high(s[i]), v[i][1]);
          v[i][2] = fmaf(scale, low(s[i + 2]), v[i][2]);
          v[i][3] = fmaf(scale, high(s[i + 2]), v[i][3]);
        }
        if (MULTI && mode != int(Mode::finish)) {
          if (there && mode == int(Mode::add)) {
            add_to(sums + row[i] * 16, v[i]);
          } else if (there) {
            __stcg(reinterpret_cast<float4*>(sums + row[i] * 16),
                   make_float4(v[i][0], v[i][1], v[i][2], v[i][3]));
          }
          continue;
        }
        // Trade with the neighbour lane, so that each stores 8 bytes: even lanes of half 0, odd
        // ones of half 1.
        const float4 f = before[i];
        const uint32_t u = pack(v[i][0] + f.x, v[i][1] + f.y),
                       w = pack(v[i][2] + f.z, v[i][3] + f.w);
        const uint32_t r = __shfl_xor_sync(~0u, t & 1 ? u : w, 1);
        if (there && writes) {
          char* const to = reinterpret_cast<char*>(a.out) +
                           (uint64_t(row[i]) * (uint32_t(a.columns) * 2) + out_bytes);
          __stcs(reinterpret_cast<uint2*>(to), t & 1 ? make_uint2(r, w) : make_uint2(u, r));
        }
      }
    };
    if (task < task1) ask(task1);
    int steps = int(head & kHeadSteps);
    while (task < task1) {
      // Groups become addresses, then q and m are loaded anew in place: the loads have all eight
      // steps to arrive. `zero` makes their address depend on the last uses of q, else the compiler
      // loads first and waits at once to move the new value.
      const uint32_t id[4] = {q.x, q.y, q.z, q.w}, w[4] = {m.x, m.y, m.z, m.w};
      const bool ends = steps <= int(kSteps);
      int ahead = int(kUnitBytes + ((id[0] | id[1] | id[2] | id[3]) & a.zero));
      uint32_t next_chunk = chunk + 1;
      if (ends && head & kHeadLast) {  // the next task
        task = __shfl_sync(~0u, after, 0);
        where.unit = __shfl_sync(~0u, where.unit, 0);
        next_chunk = __shfl_sync(~0u, where.chunk, 0);
        open_task();
        ahead -= kUnitBytes;
        ask(task1);
      }
      up = reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(up) + ahead);
      q = __ldg(up);
      m = __ldg(up + 32);
      uint32_t next_line[2] = {}, next_own = 0;
      if (ends) {
        head = __ldg(a.heads + next_chunk);
        // Chunks of one small type are short: there is no time to load their lines later.
        if (MULTI) load_lines(next_chunk, next_line, next_own);
      }
      // Byte 0 of an address from low_bits, bytes 1 and 2 the group.
      auto address = [&](int s) {
        return __byte_perm(id[s / 2], low_bits, s & 1 ? 0x5324 : 0x5104);
      };
      if (steps >= int(kSteps)) {
#pragma unroll
        for (int s = 0; s < int(kSteps); ++s) {
          add_step(lo, hi, gather_step<MULTI>(address(s)), w, s);
        }
      } else {
#pragma unroll
        for (int s = 0; s < int(kSteps) - 1; ++s) {
          if (s < steps) add_step(lo, hi, gather_step<MULTI>(address(s)), w, s);
        }
      }
      steps -= int(kSteps);
      if (!ends) continue;
      close_chunk();
      chunk = next_chunk;
      if (MULTI) {
        line[0] = next_line[0];
        line[1] = next_line[1];
        own = next_own;
      } else {
        load_lines(chunk, line, own);
      }
      steps = int(head & kHeadSteps);
#pragma unroll
      for (int i = 0; i < 4; ++i) lo[0][i] = lo[1][i] = hi[0][i] = hi[1][i] = 0;
    }
  }
};

template <bool MULTI, bool SELF, bool SCALED, int THREADS>
__global__ void __launch_bounds__(THREADS, 1)
    chunks_kernel(const __grid_constant__ SlabArgs<BFloat16> a) {
  ChunkWork<MULTI, SELF, SCALED> work(a);
  do_segments<BFloat16, MULTI, THREADS>(a, work);
}

template <bool MULTI, bool SELF, bool SCALED>
void launch(const SlabArgs<BFloat16>& a, int blocks, cudaStream_t stream) {
  constexpr int kThreads = MULTI ? 640 : 768;  // as many as the registers allow
  launch_blocks<BFloat16>(chunks_kernel<MULTI, SELF, SCALED, kThreads>, a, blocks, kThreads,
                          stream);
}
template <bool MULTI>
void launch(const SlabArgs<BFloat16>& a, int blocks, cudaStream_t stream) {
  if (a.row_scale != nullptr) {
    a.eps != nullptr ? launch<MULTI, true, true>(a, blocks, stream)
                     : launch<MULTI, false, true>(a, blocks, stream);
  } else {
    a.eps != nullptr ? launch<MULTI, true, false>(a, blocks, stream)
                     : launch<MULTI, false, false>(a, blocks, stream);
  }
}

}  // namespace

void launch_chunks(const SlabArgs<BFloat16>& a, int blocks, cudaStream_t stream) {
  a.panel_count > 1 ? launch<true>(a, blocks, stream) : launch<false>(a, blocks, stream);
}

}  // namespace lacuna::cuda
