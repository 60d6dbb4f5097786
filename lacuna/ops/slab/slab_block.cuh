// What a block of a slab kernel does around its sums: which segments it works on, loading a slab,
// the rows of removed nodes, and waiting for other blocks. A kernel gives the sums themselves as a
// Work (see do_segments).
#pragma once

#include "lacuna/ops/slab/slab_aggregate.cuh"

namespace lacuna::cuda {

// Where dynamic shared memory starts when there is no static one (sm_80 and later).
constexpr uint32_t kSlabAt = 1024;
constexpr uint32_t kCardBytes = 48;
constexpr int kAtOnce = 6;  // pieces of a slab that a thread looks up together

// Shared memory after the slab: the panel's node_at, two bits a node (removed from the sample of
// half 0, of half 1), the task counter, two cards, 1 + eps.
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

__device__ __forceinline__ void copy_async(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from));
}
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
__device__ __forceinline__ void add_to(float* p, const float* v) {  // four in a row
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(p), "f"(v[0]), "f"(v[1]),
               "f"(v[2]), "f"(v[3])
               : "memory");
#else
  for (int i = 0; i < 4; ++i) atomicAdd(p + i, v[i]);
#endif
}
__device__ __forceinline__ int load_acquire(const int* p) {
  int v;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void add_release(int* p, int v) {
  asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ int take_task(uint32_t counter) {
  int task;
  asm volatile("atom.shared.add.u32 %0, [%1], 1;" : "=r"(task) : "r"(counter) : "memory");
  return task;
}

// What a block does with the sums of a segment. Passes of one panel write them at once. With
// several panels, the first one stores them, the next ones add, and the last one reads, adds and
// writes; a helper stores them for the strip's owner.
enum class Mode { write, store, add, finish, help };
struct Segment {
  int strip, panel, task0, task1;
  Mode mode;
  bool helped;  // the strip's owner has helpers
};

// The work of a block, counted from 0. Strips are dealt out in rounds. Those of the last round that
// do not fill it have an owner each, and the other blocks share the tasks from `cut` on of all of
// them, in order: of the only panel, or of `shared_panel`.
template <class Real, bool MULTI>
struct Share {
  int rounds, rest, tail, low, high, count;
  __device__ explicit Share(const SlabArgs<Real>& a) {
    const int blocks = gridDim.x, b = blockIdx.x;
    rounds = a.strips / blocks;
    rest = a.strips % blocks;
    tail = a.shared_end - a.cut;
    low = high = 0;
    count = (rounds + (b < rest ? 1 : 0)) * int(a.panel_count);
    if (b >= rest) {
      range(b, low, high);
      if (high > low) count += (high - 1) / tail - low / tail + 1;
    }
  }
  // Tasks of the tails of all strips that block b helps with.
  __device__ void range(int b, int& first, int& last) const {
    const int helpers = gridDim.x - rest;
    const int64_t all = int64_t(rest) * tail;
    first = int((b - rest) * all / helpers);
    last = int((b - rest + 1) * all / helpers);
  }
  // Segments of helpers that a strip of the last round gets.
  __device__ int helpers_of(int s) const {
    int n = 0;
    for (int b = rest; b < int(gridDim.x) && tail > 0; ++b) {
      int first, last;
      range(b, first, last);
      n += max(first, s * tail) < min(last, (s + 1) * tail);
    }
    return n;
  }
  __device__ Segment get(const SlabArgs<Real>& a, int k) const {
    const int blocks = gridDim.x, b = blockIdx.x, panels = a.panel_count;
    const int round = k / panels, panel = k % panels;
    if (round < rounds || b < rest) {
      Segment seg = {round * blocks + b, panel,       0,
                     int(a.task_count),  Mode::write, round == rounds && tail > 0};
      if (MULTI) {
        seg.mode = panel == 0 ? Mode::store : panel + 1 == panels ? Mode::finish : Mode::add;
        // Each sample starts at another panel, so that loads of slabs spread over time.
        if (seg.mode == Mode::add) {
          const int sample = seg.strip * kStripColumns<Real> / a.width;
          seg.panel = 1 + (panel - 1 + sample) % (panels - 2);
        }
        seg.task0 = a.first_task[seg.panel];
        seg.task1 = a.first_task[seg.panel + 1];
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

// A segment as the block's threads read it, from shared memory: registers are short.
struct Card {
  int strip, panel, task0, task1, mode, helped,
      need;            // strip -1: no more. need: segments of helpers to wait for
  int type;            // of the panel's source
  uint32_t first_row;  // where its sums stand, in output rows
  int last_round;      // the strip's number among those of the last round
};
static_assert(sizeof(Card) <= kCardBytes);

template <class Real, bool MULTI>
__device__ void write_card(const SlabArgs<Real>& a, int k, volatile Card* card) {
  const Share<Real, MULTI> share(a);
  if (k >= share.count) {
    card->strip = -1;
    card->panel = 0;
    return;
  }
  const Segment seg = share.get(a, k);
  const int last_round = seg.strip - share.rounds * int(gridDim.x);
  const uint32_t rows = uint32_t(a.forward ? a.types : 1) * a.nodes;
  card->strip = seg.strip;
  card->panel = seg.panel;
  card->task0 = seg.task0;
  card->task1 = seg.task1;
  card->mode = int(seg.mode);
  card->helped = seg.helped;
  card->need = seg.helped && seg.mode == Mode::finish ? share.helpers_of(last_round) : 0;
  card->type = a.forward ? 0 : int(a.panel_type[seg.panel]);
  card->first_row = (seg.mode == Mode::help ? gridDim.x + last_round : blockIdx.x) * rows;
  card->last_round = last_round;
}

// Marks the nodes that the samples of a strip's halves remove.
template <class Real, int THREADS>
__device__ void mark_removed(const SlabArgs<Real>& a, int column, uint32_t* bits,
                             uint32_t bit_words) {
  for (uint32_t i = threadIdx.x; i < bit_words; i += THREADS) bits[i] = 0;
  __syncthreads();
  for (int h = 0; h < 2; ++h) {
    const int at = column + kHalfColumns<Real> * h;
    if (at >= a.columns) break;
    const int b = at / a.width;
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
__device__ __forceinline__ bool is_marked(const uint32_t* bits, uint32_t node, uint32_t half) {
  return bits[node >> 4] >> (2 * (node & 15) + half) & 1;
}

// Rows of removed nodes, once the others are written: the self term alone (of one type in the
// forward pass, of all in the backward pass), or nothing. Columns of halves [h0, h1), which are of
// one sample; a thread writes them in a row.
template <class Real, bool MULTI, int THREADS>
__device__ void write_removed_rows(const SlabArgs<Real>& a, int task0, int task1, int column,
                                   int h0, int h1) {
  constexpr int kHalf = kHalfColumns<Real>;
  const int b = (column + kHalf * h0) / a.width;
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
      Pack<Real, kHalf> result;
      if (a.eps != nullptr) {
        float v[kHalf] = {};
        for (int t = a.forward ? type : 0; t < (a.forward ? type + 1 : a.types); ++t) {
          Pack<Real, kHalf> own;
          own.load(a.source + t * a.source_stride + int64_t(node) * a.columns + column + kHalf * h);
          for (int c = 0; c < kHalf; ++c) v[c] = fmaf(1 + a.eps[t], widen(own.value[c]), v[c]);
        }
        for (int c = 0; c < kHalf; ++c) result.value[c] = round_to<Real>(v[c]);
      }
      result.store(a.out + row * a.columns + column + kHalf * h);
    }
  }
}

// All segments of this block. Work has
//   piece(position, half)   where 16 bytes of a slab row lie, in pieces of 16 bytes
//   open(card, column)      the first task's loads, while the slab comes
//   sum(card, column)       all tasks of a segment; the slab is there
template <class Real, bool MULTI, int THREADS, class Work>
__device__ __forceinline__ void do_segments(const SlabArgs<Real>& a, Work& work) {
  extern __shared__ __align__(128) uint4 shared[];
  const Places at = places(a.slab_rows, a.nodes, a.types);
  char* const memory = reinterpret_cast<char*>(shared);
  const uint16_t* const table = reinterpret_cast<const uint16_t*>(memory + at.table);
  uint32_t* const bits = reinterpret_cast<uint32_t*>(memory + at.bits);
  int* const next_task = reinterpret_cast<int*>(memory + at.counter);
  float* const scales = reinterpret_cast<float*>(memory + at.scales);  // [T]
  auto card_at = [&](int k) {
    return reinterpret_cast<volatile Card*>(memory + at.cards + (k & 1) * kCardBytes);
  };
  auto fetch_table = [&](uint32_t panel, uint32_t thread, uint32_t threads) {
    const uint16_t* from = a.node_at + size_t(panel) * a.slab_rows;
    for (uint32_t i = thread; i < a.slab_rows / 8; i += threads) {
      copy_async(kSlabAt + at.table + i * 16, from + i * 8);
    }
  };
  if (uint32_t(__cvta_generic_to_shared(shared)) != kSlabAt) __trap();
  if (a.eps != nullptr) {
    for (int i = threadIdx.x; i < a.types; i += THREADS) scales[i] = 1 + a.eps[i];
  }
  if (threadIdx.x == 0) write_card<Real, MULTI>(a, 0, card_at(0));
  __syncthreads();
  if (card_at(0)->strip < 0) return;
  fetch_table(card_at(0)->panel, threadIdx.x, THREADS);
  int marked = -1;  // the strip whose removed nodes are in bits
  for (int k = 0;; ++k) {
    volatile Card* const card = card_at(k);
    if (card->strip < 0) break;
    const int column = card->strip * kStripColumns<Real>;
    if (card->strip != marked) {
      marked = card->strip;
      __syncthreads();
      mark_removed<Real, THREADS>(a, column, bits, at.bit_words);
    }
    wait_copies();    // the table
    __syncthreads();  // and the segment before is done with the slab
    if (threadIdx.x == 0) *next_task = card->task0 + THREADS / 32;
    const Real* const source = a.source + card->type * a.source_stride + column;
    // Two lanes a row, all copies in flight.
    for (uint32_t i0 = threadIdx.x; i0 < a.slab_rows * 2; i0 += kAtOnce * THREADS) {
      uint32_t node[kAtOnce];
      bool zero[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const uint32_t i = i0 + j * THREADS;
        node[j] = i < a.slab_rows * 2 ? table[i >> 1] : slab::kNoNode;
      }
      const uint32_t h = threadIdx.x & 1;
      const bool outside = column + kHalfColumns<Real> * int(h) >= a.columns;
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        zero[j] = node[j] == slab::kNoNode || outside || is_marked(bits, node[j], h);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const uint32_t i = i0 + j * THREADS, to = work.piece(i >> 1, h);
        if (!zero[j]) {
          copy_async(kSlabAt + to * 16,
                     source + int64_t(node[j]) * a.columns + h * kHalfColumns<Real>);
        } else if (i < a.slab_rows * 2) {
          shared[to] = make_uint4(0, 0, 0, 0);
        }
      }
    }
    work.open(card, column);
    wait_copies();
    if (MULTI && threadIdx.x == 0 && card->need > 0) {
      while (load_acquire(a.done + card->last_round) < card->need) {
      }
    }
    __syncthreads();
    // The last warp finds out what comes next, and fetches its table: this one is no longer needed.
    if (threadIdx.x >= THREADS - 32) {
      if (threadIdx.x == THREADS - 32) write_card<Real, MULTI>(a, k + 1, card_at(k + 1));
      __syncwarp();
      fetch_table(card_at(k + 1)->panel, threadIdx.x & 31, 32);
    }
    work.sum(card, column);
    if (MULTI && card->mode == int(Mode::help)) {
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) add_release(a.done + card->last_round, 1);
    }
    if (card->mode == int(Mode::finish) || card->mode == int(Mode::write)) {
      __syncthreads();
      constexpr int kHalf = kHalfColumns<Real>;
      const int task0 = card->task0, task1 = card->task1;
      const bool two = column + kHalf < a.columns;
      if (two && column / a.width == (column + kHalf) / a.width) {
        write_removed_rows<Real, MULTI, THREADS>(a, task0, task1, column, 0, 2);
      } else {
        write_removed_rows<Real, MULTI, THREADS>(a, task0, task1, column, 0, 1);
        if (two) write_removed_rows<Real, MULTI, THREADS>(a, task0, task1, column, 1, 2);
      }
    }
    __syncthreads();  // the next card is there
  }
  wait_copies();
}

// Sets the kernel's shared memory and starts it. Owners of strips wait for helpers where there are
// several panels, so all blocks must run at the same time.
template <class Real>
void launch_blocks(void (*kernel)(SlabArgs<Real>), const SlabArgs<Real>& a, int blocks, int threads,
                   cudaStream_t stream) {
  const int bytes = int(places(a.slab_rows, a.nodes, a.types).bytes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of the slab kernel");
  void* arguments[] = {const_cast<SlabArgs<Real>*>(&a)};
  if (a.panel_count > 1) {
    check(
        cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(threads), arguments, bytes, stream),
        "aggregate (slabs)");
  } else {
    check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(threads),
                           arguments, bytes, stream),
          "aggregate (slabs)");
  }
  check_launch("aggregate (slabs)");
}

}  // namespace lacuna::cuda
