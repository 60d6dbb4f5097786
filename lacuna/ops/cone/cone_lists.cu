// Which rows of each layer differ, and their lists (cone.h), on the device.
//
// What differs is one bit a sample, in words of 32: a gene's words are few (one up to batch 32), so
// those of all genes stay in a multiprocessor's first cache. With reach = what differs after the
// layer before, or is removed (before the first layer: what is removed), the rows of type t are
//   (reach[n] | reach of every in-neighbour of n by t) without removed[n]
// in every layer. In the first layer, where reach holds few genes, it is marked along their
// out-edges instead (scatter). Per layer three launches:
//   mark    a block a gene, its warps take types in turn, lanes take neighbours; and how many
//   scan    a block a list: where each gene's rows start in it
//   fill    a warp a gene of a list: places and rows, in the order of genes and then samples
// Nothing depends on the order in which blocks run.
#include "lacuna/ops/cone/cone_rows.cuh"

namespace lacuna {
namespace {

using namespace cuda;

constexpr int kMarkWarps = 8, kScatterThreads = 64, kFillWarps = 8, kScanThreads = 1024;

// Of one layer, T + 1 lists: those of the types, and of all types together.
struct Marks {
  int nodes, types, words;
  const uint32_t* removed;       // [N, words]
  const uint32_t* reach_before;  // [N, words]
  uint32_t* bits;                // [T, N, words]
  uint32_t* reach;               // [N, words]
  int32_t* counts;               // [T + 1, N], then where the rows of a gene start

  __device__ const uint32_t* words_of(int list, int n) const {
    return (list < types ? bits + int64_t(list) * nodes * words : reach) + int64_t(n) * words;
  }
};

// Writes some words of a gene in one list, a lane a word, and adds up how many bits they hold.
__device__ __forceinline__ void put_words(const Marks& marks, int list, int n, int first, int here,
                                          uint32_t differs, uint32_t stored) {
  const int lane = int(threadIdx.x) % 32;
  if (lane < here) const_cast<uint32_t*>(marks.words_of(list, n))[first + lane] = stored;
  const int count = __reduce_add_sync(~0u, lane < here ? __popc(differs) : 0);
  int32_t* to = marks.counts + int64_t(list) * marks.nodes + n;
  if (lane == 0) *to = (first > 0 ? *to : 0) + count;
}

// Block (place in `removed`, type): marks the targets of one removed gene.
__global__ void __launch_bounds__(kScatterThreads)
    scatter_kernel(CsrTable by_source, bool wide_index, CudaRemoved removed, Marks marks) {
  const int i = int(blockIdx.x), t = int(blockIdx.y);
  int low = 0, high = int(removed.batch);  // the sample of place i
  while (low < high) {
    const int mid = (low + high) / 2;
    if (removed.ptr[mid + 1] <= i) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  if (low == removed.batch) return;
  const int gene = removed.index[i], word = low / 32;
  const uint32_t bit = 1u << (low % 32);
  if (gene < 0 || gene >= marks.nodes) return;
  if ((marks.removed[int64_t(gene) * marks.words + word] & bit) == 0) return;  // a wrong ptr
  const Csr& csr = by_source.of[t];
  uint32_t* to = marks.bits + int64_t(t) * marks.nodes * marks.words + word;
  for (uint32_t e = csr.ptr[gene] + threadIdx.x; e < csr.ptr[gene + 1]; e += kScatterThreads)
    atomicOr(to + int64_t(csr.node(e, wide_index)) * marks.words, bit);
}

// The words of gene n that its in-neighbours reach, a lane a word; `lanes` take a neighbour.
__device__ __forceinline__ uint32_t reached(const Csr& csr, bool wide_index, const Marks& marks,
                                            int n, int first, int word, int lanes) {
  const uint32_t* from = marks.reach_before + first + word;
  uint32_t found = from[int64_t(n) * marks.words];
#pragma unroll 4
  for (uint32_t e = csr.ptr[n] + threadIdx.x % 32 / lanes; e < csr.ptr[n + 1]; e += 32 / lanes)
    found |= from[int64_t(csr.node(e, wide_index)) * marks.words];
  return found;
}

// walks: else the words are there already.
template <bool walks>
__global__ void __launch_bounds__(kMarkWarps * 32)
    mark_kernel(CsrTable by_target, bool wide_index, Marks marks) {
  __shared__ uint32_t either[32];
  const int n = int(blockIdx.x), lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  for (int first = 0; first < marks.words; first += 32) {
    const int here = min(marks.words - first, 32);
    int lanes = 1;  // that take a neighbour's words
    while (lanes < here) lanes *= 2;
    const int word = lane % lanes;
    const int64_t own = int64_t(n) * marks.words + first + word;
    const uint32_t gone = word < here ? marks.removed[own] : ~0u;
    if (warp == 0) either[lane] = 0;
    __syncthreads();
    for (int t = warp; t < marks.types; t += kMarkWarps) {
      uint32_t found = 0;
      if (word < here)
        found = walks ? reached(by_target.of[t], wide_index, marks, n, first, word, lanes)
                      : marks.words_of(t, n)[first + word];
      for (int step = lanes; step < 32; step *= 2) found |= __shfl_xor_sync(~0u, found, step);
      found &= ~gone;
      put_words(marks, t, n, first, here, found, found);
      if (lane < here) atomicOr(&either[lane], found);
    }
    __syncthreads();
    if (warp == 0) put_words(marks, marks.types, n, first, here, either[lane], either[lane] | gone);
    __syncthreads();
  }
}

struct ListOut {
  int64_t capacity;
  int first;  // listed row of a type
  ConeLists to;
};
struct LayerOut {
  ListOut types, either;

  // The list's places [N, B], rows [C] and how many are in use.
  __device__ ListOut of(int list, int type_count, int64_t places) const {
    if (list == type_count) return either;
    ListOut out = types;
    out.to = {out.to.place + list * places, out.to.row + list * out.capacity, out.to.used + list};
    return out;
  }
};

__global__ void __launch_bounds__(kScanThreads)
    scan_kernel(Marks marks, LayerOut layer, int64_t places, int32_t* error) {
  __shared__ int of_warp[kScanThreads / 32];
  const int list = int(blockIdx.x), lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const ListOut out = layer.of(list, marks.types, places);
  int32_t* counts = marks.counts + int64_t(list) * marks.nodes;
  const int each = (marks.nodes + kScanThreads - 1) / kScanThreads;
  const int begin = min(int(threadIdx.x) * each, marks.nodes), end = min(begin + each, marks.nodes);
  int mine = 0;
  for (int n = begin; n < end; ++n) mine += counts[n];
  int running = mine;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, running, step);
    if (lane >= step) running += other;
  }
  if (lane == 31) of_warp[warp] = running;
  __syncthreads();
  int start = running - mine, total = 0;
  for (int w = 0; w < kScanThreads / 32; ++w) {
    start += w < warp ? of_warp[w] : 0;
    total += of_warp[w];
  }
  for (int n = begin; n < end; ++n) {
    const int count = counts[n];
    counts[n] = start;
    start += count;
  }
  if (threadIdx.x > 0) return;
  *out.to.used = out.first + int(min(int64_t(total), out.capacity));
  if (total > out.capacity && error) atomicOr(error, kConeTooLong);
}

__global__ void __launch_bounds__(kFillWarps * 32)
    fill_kernel(Marks marks, LayerOut layer, int batch) {
  const int list = int(blockIdx.y), lane = int(threadIdx.x) % 32;
  const int n = int(blockIdx.x) * kFillWarps + int(threadIdx.x) / 32;
  if (n >= marks.nodes) return;
  const ListOut out = layer.of(list, marks.types, int64_t(marks.nodes) * batch);
  const uint32_t* words = marks.words_of(list, n);
  const uint32_t* removed = marks.removed + int64_t(n) * marks.words;
  int64_t next = marks.counts[int64_t(list) * marks.nodes + n];
  for (int w = 0; w < marks.words; ++w) {
    const uint32_t gone = removed[w], listed = words[w] & ~gone;
    const int b = w * 32 + lane;
    const int64_t at = int64_t(n) * batch + b, row = next + __popc(listed & ((1u << lane) - 1));
    const bool is_listed = (listed >> lane & 1) && row < out.capacity;
    if (b < batch) out.to.place[at] = (gone >> lane & 1) ? -1 : is_listed ? int32_t(row) + 1 : 0;
    if (is_listed) out.to.row[row] = int32_t(at);
    next += __popc(listed);
  }
}

// Where the workspace's parts are, and its size.
struct ListsWorkspace {
  std::byte* base;
  uint64_t bytes = 0;

  template <class T>
  T* take(int64_t count) {
    auto* at = reinterpret_cast<T*>(base + bytes);
    bytes += aligned(uint64_t(count) * sizeof(T));
    return at;
  }
};
struct ListsParts {
  std::byte* removed;
  uint32_t* bits;
  uint32_t* reach[2];  // of a layer, and of the layer before
  int32_t* counts;
  uint64_t bytes;

  ListsParts(const ConeShape& shape, void* workspace) {
    const int64_t words = divide_up(shape.batch, 32) * shape.nodes;
    ListsWorkspace space = {static_cast<std::byte*>(workspace)};
    removed =
        space.take<std::byte>(int64_t(removed_bits_bytes(uint32_t(shape.nodes), shape.batch)));
    bits = space.take<uint32_t>(words * shape.types);
    for (uint32_t*& one : reach) one = space.take<uint32_t>(words);
    counts = space.take<int32_t>((shape.types + 1) * shape.nodes);
    bytes = space.bytes;
  }
};

struct ListsCall {
  const CudaGraph& graph;
  const CudaRemoved& removed;
  const CudaLaunch& launch;
};

void mark(const ListsCall& call, const ConeShape& shape, const Marks& marks, bool is_first) {
  const auto stream = stream_of(call.launch);
  const bool wide_index = call.graph.plan->index_bytes() == 4;
  const auto nodes = uint32_t(shape.nodes);
  if (!is_first) {
    mark_kernel<true>
        <<<nodes, kMarkWarps * 32, 0, stream>>>(csr_table(call.graph, false), wide_index, marks);
    return;
  }
  const uint64_t words = uint64_t(shape.types * shape.nodes) * uint64_t(marks.words);
  check(cudaMemsetAsync(marks.bits, 0, words * sizeof(uint32_t), stream),
        "clearing the marks of a cone");
  const CsrTable by_source = csr_table(call.graph, true);
  if (call.removed.capacity > 0 && shape.types > 0)
    scatter_kernel<<<dim3(uint32_t(call.removed.capacity), uint32_t(shape.types)), kScatterThreads,
                     0, stream>>>(by_source, wide_index, call.removed, marks);
  mark_kernel<false><<<nodes, kMarkWarps * 32, 0, stream>>>(by_source, wide_index, marks);
}

void make_layer(const ListsCall& call, const Marks& marks, const ConeLayer& layer, bool is_first) {
  const auto stream = stream_of(call.launch);
  const ConeShape& shape = layer.shape;
  const int first = int(shape.first());
  const LayerOut out = {{shape.capacity, first, layer.lists},
                        {layer.either_capacity, first, layer.either}};
  const auto lists = uint32_t(shape.types + (layer.either.used != nullptr));
  const auto nodes = uint32_t(shape.nodes);
  const bool is_empty = shape.batch == 0 || nodes == 0;
  if (is_empty)
    check(cudaMemsetAsync(marks.counts, 0, sizeof(int32_t) * lists * nodes, stream),
          "clearing the counts of a cone");
  else
    mark(call, shape, marks, is_first);
  scan_kernel<<<lists, kScanThreads, 0, stream>>>(marks, out, shape.nodes * shape.batch,
                                                  call.launch.error);
  if (!is_empty)
    fill_kernel<<<dim3(uint32_t(divide_up(nodes, kFillWarps)), lists), kFillWarps * 32, 0,
                  stream>>>(marks, out, int(shape.batch));
}

}  // namespace

uint64_t cone_lists_workspace(const ConeShape& shape) { return ListsParts(shape, nullptr).bytes; }

void cone_lists_cuda(const CudaGraph& graph, const CudaRemoved& removed,
                     std::span<const ConeLayer> layers, const CudaLaunch& launch) {
  if (layers.empty()) return;
  const ConeShape& shape = layers[0].shape;
  const ListsParts parts(shape, launch.workspace);
  const RemovedBits gone = make_removed_bits(removed, uint32_t(shape.nodes), parts.removed,
                                             launch.error, stream_of(launch));
  Marks marks = {int(shape.nodes), int(shape.types), gone.words,     gone.word,
                 gone.word,        parts.bits,       parts.reach[0], parts.counts};
  for (size_t i = 0; i < layers.size(); ++i) {
    marks.reach = parts.reach[i % 2];
    make_layer({graph, removed, launch}, marks, layers[i], i == 0);
    marks.reach_before = marks.reach;
  }
  check_launch("cone_lists");
}

}  // namespace lacuna
