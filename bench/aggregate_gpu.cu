// Aggregation on a GPU: the ladder of versions against cuSPARSE, in one run.
//
//   aggregate_gpu ladder [edges.bin]    yeast size without and with hubs, and a real graph; all
//                                       versions
//   aggregate_gpu human                 20,000 genes, five types
//   aggregate_gpu grid [nodes]          widths x batches x removed x nodes, or of one graph
//   aggregate_gpu masks                 mask records of a batch from indices
//
// Times are medians of 21 runs in milliseconds, after 5 to warm up. cuSPARSE has its descriptors,
// buffers and preprocessing ready, its fastest algorithm is taken, and it removes nothing. x is
// random; outputs are checked against a plain sum in double on a few thousand elements. edges.bin:
// for each type a u32 count, then pairs of u16 (target, source).
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cusparse.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "gpu_timing.cuh"
#include "lacuna/core/random.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/ops/aggregate/aggregate_cuda.h"
#include "lacuna/ops/masks/masks_cuda.h"

using namespace lacuna;

namespace {

#define SPARSE(call)                                                                           \
  do {                                                                                         \
    const cusparseStatus_t status_ = (call);                                                   \
    if (status_ != CUSPARSE_STATUS_SUCCESS) {                                                  \
      std::printf("%s:%d cuSPARSE %s\n", __FILE__, __LINE__, cusparseGetErrorString(status_)); \
      std::exit(1);                                                                            \
    }                                                                                          \
  } while (0)

// A number for element i, the same on both sides: triangular in (-2, 2), exact in bf16.
__host__ __device__ inline float number(uint64_t i, uint32_t seed) {
  uint32_t h = uint32_t(i) * 0x9e3779b9u + uint32_t(i >> 32) * 0x7f4a7c15u + seed;
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  h ^= h >> 16;
  return float(int(h & 0x7f) - 64) * 0.03125f;
}
template <class Real>
__global__ void fill(Real* p, uint64_t count, uint32_t seed) {
  for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < count;
       i += uint64_t(gridDim.x) * blockDim.x) {
    const float v = number(i, seed);
    if constexpr (sizeof(Real) == 2) {
      p[i].bits = uint16_t(__float_as_uint(v) >> 16);
    } else {
      p[i] = v;
    }
  }
}

// The first rung: a thread an element of out, neighbours one by one, removed nodes looked up in a
// table of bytes.
template <class Real>
__global__ void naive(const uint32_t* ptr, const uint16_t* neighbour, const uint8_t* gone,
                      int nodes, int columns, int width, const Real* x, Real* out) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= int64_t(nodes) * columns) return;
  const int row = int(i / columns), column = int(i % columns), b = column / width;
  float sum = 0;
  if (!gone[b * nodes + row]) {
    for (uint32_t k = ptr[row]; k < ptr[row + 1]; ++k) {
      const int u = neighbour[k];
      if (gone[b * nodes + u]) continue;
      if constexpr (sizeof(Real) == 2) {
        sum += __uint_as_float(uint32_t(x[int64_t(u) * columns + column].bits) << 16);
      } else {
        sum += x[int64_t(u) * columns + column];
      }
    }
  }
  if constexpr (sizeof(Real) == 2) {
    out[i].bits = __bfloat16_as_ushort(__float2bfloat16_rn(sum));
  } else {
    out[i] = sum;
  }
}

// Edges of all types, and removed nodes of a batch, that own their numbers.
struct EdgeLists {
  uint32_t nodes = 0;
  std::vector<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> types;  // sources, targets

  GraphPlan plan() const {
    std::vector<EdgeList> lists;
    for (const auto& [sources, targets] : types) lists.push_back({sources, targets});
    return GraphPlan::make(nodes, lists);
  }
};
struct RemovedLists {
  std::vector<int32_t> index, ptr = {0};
};

EdgeLists generated(GraphSize size) {
  const HeteroGraph graph = generate_graph(size, 1);
  EdgeLists lists;
  lists.nodes = graph.genes().size();
  for (const EdgeType* edges : graph.gene_edges()) {
    lists.types.emplace_back(edges->sources(), edges->targets());
  }
  return lists;
}

// Node i is drawn with weight U^exponent, U uniform in (low, 1): moderate degrees for (0.01, -0.4).
EdgeLists drawn(uint32_t nodes, const std::vector<uint64_t>& counts, double low, double exponent) {
  Random random(1);
  std::vector<double> sum(nodes);
  double total = 0;
  for (double& s : sum) {
    s = total += std::pow(low + (1 - low) * random.uniform(), exponent);
  }
  auto draw = [&] {
    const auto at = std::upper_bound(sum.begin(), sum.end(), random.uniform() * total);
    return uint32_t(std::min<size_t>(size_t(at - sum.begin()), nodes - 1));
  };
  EdgeLists lists;
  lists.nodes = nodes;
  for (const uint64_t count : counts) {
    std::vector<uint32_t> sources(count), targets(count);
    for (uint64_t e = 0; e < count; ++e) {
      sources[e] = draw();
      targets[e] = draw();
    }
    lists.types.emplace_back(std::move(sources), std::move(targets));
  }
  return lists;
}
const std::vector<uint64_t> kYeastCounts = {1002806, 17692,  79224, 828701, 18394,
                                            153320,  144211, 44310, 207250};

float to_float(float v) { return v; }
float to_float(BFloat16 v) { return float(v); }

struct Setup {
  EdgeLists graph;
  GraphPlan plan;
  std::unique_ptr<SlabPlan> slabs;
  Buffer<std::byte> plan_bytes;
  std::unique_ptr<Buffer<std::byte>> slab_bytes;

  explicit Setup(EdgeLists g, bool want_slabs = true)
      : graph(std::move(g)),
        plan(graph.plan()),
        plan_bytes(std::vector<std::byte>(plan.bytes().begin(), plan.bytes().end())) {
    uint64_t longest_in = 0, longest_out = 0;
    for (uint32_t t = 0; t < plan.type_count(); ++t) {
      for (uint32_t v = 0; v < plan.node_count(); ++v) {
        longest_in =
            std::max<uint64_t>(longest_in, plan.by_target(t).ptr[v + 1] - plan.by_target(t).ptr[v]);
        longest_out = std::max<uint64_t>(longest_out,
                                         plan.by_source(t).ptr[v + 1] - plan.by_source(t).ptr[v]);
      }
    }
    std::printf("%u nodes, %u types, %lu edges, longest row %lu in, %lu out\n", plan.node_count(),
                plan.type_count(), (unsigned long)plan.edge_count(), (unsigned long)longest_in,
                (unsigned long)longest_out);
    if (want_slabs && plan.node_count() < 65535) {
      int bytes = 0;
      CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
      const auto begin = std::chrono::steady_clock::now();
      slabs = std::make_unique<SlabPlan>(SlabPlan::make(
          plan, {slab_capacity(uint64_t(bytes), plan.node_count(), plan.type_count())}));
      const double s =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      slab_bytes = std::make_unique<Buffer<std::byte>>(
          std::vector<std::byte>(slabs->bytes().begin(), slabs->bytes().end()));
      const auto &f = slabs->forward(), &b = slabs->backward();
      std::printf(
          "slab plan: %.2f s, %.1f MB; gathers an edge %.3f (chunks), %.3f (rows) forward in %u "
          "panels, %.3f, %.3f backward in %u\n",
          s, double(slabs->bytes().size()) / 1e6, double(f.chunks.gathers) / double(f.edges),
          double(f.rows.gathers) / double(f.edges), f.panel_count,
          double(b.chunks.gathers) / double(b.edges), double(b.rows.gathers) / double(b.edges),
          b.panel_count);
    }
  }
  CudaGraph view(bool with_slabs = true) const {
    if (!with_slabs || !slabs) return {&plan, plan_bytes.data, nullptr, nullptr};
    return {&plan, plan_bytes.data, slabs.get(), slab_bytes->data};
  }
};

struct Batch {
  RemovedLists removed;
  Buffer<int32_t> index, ptr;
  Batch(RemovedLists r) : removed(std::move(r)), index(removed.index), ptr(removed.ptr) {}
  CudaRemoved view() const {
    return {index.data, ptr.data, int64_t(index.count), int64_t(ptr.count) - 1};
  }
  RemovedView nodes() const { return {{index.data, index.count}, {ptr.data, ptr.count}}; }
};
Batch make_batch(uint32_t nodes, int64_t batch, uint32_t each) {
  RemovedLists r;
  Random random(3);
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<int32_t> s(each);
    for (uint32_t i = 0; i < each; ++i)
      s[i] = each >= nodes ? int32_t(i) : int32_t(random.below(nodes));
    r.index.insert(r.index.end(), s.begin(), s.end());
    r.ptr.push_back(int32_t(r.index.size()));
  }
  return Batch(std::move(r));
}

// cuSPARSE over all types; the best of its algorithms. transposed: summed over types with beta 1.
template <class Real>
double cusparse_ms(const Setup& s, int64_t columns, const Real* x, Real* out, bool transposed,
                   int times = 21) {
  const cudaDataType type = sizeof(Real) == 2 ? CUDA_R_16BF : CUDA_R_32F;
  const int nodes = int(s.plan.node_count()), types = int(s.plan.type_count());
  static cusparseHandle_t handle = nullptr;
  if (handle == nullptr) SPARSE(cusparseCreate(&handle));
  const int64_t size = int64_t(nodes) * columns;
  std::vector<std::unique_ptr<Buffer<int32_t>>> keep;
  std::vector<std::unique_ptr<Buffer<Real>>> ones;
  std::vector<cusparseSpMatDescr_t> matrix;
  cusparseSpMatDescr_t m;
  for (int t = 0; t < types; ++t) {
    const CsrView view = transposed ? s.plan.by_source(t) : s.plan.by_target(t);
    const size_t edges = s.plan.edge_count(t);
    std::vector<int32_t> ptr(view.ptr, view.ptr + nodes + 1), nb(edges);
    for (size_t i = 0; i < edges; ++i) {
      nb[i] = s.plan.index_bytes() == 2 ? int32_t(static_cast<const uint16_t*>(view.neighbour)[i])
                                        : int32_t(static_cast<const uint32_t*>(view.neighbour)[i]);
    }
    keep.push_back(std::make_unique<Buffer<int32_t>>(ptr));
    keep.push_back(std::make_unique<Buffer<int32_t>>(nb));
    ones.push_back(std::make_unique<Buffer<Real>>(std::vector<Real>(edges, Real(1.f))));
    SPARSE(cusparseCreateCsr(&m, nodes, nodes, int64_t(edges), keep[2 * t]->data,
                             keep[2 * t + 1]->data, ones.back()->data, CUSPARSE_INDEX_32I,
                             CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, type));
    matrix.push_back(m);
  }
  std::vector<cusparseDnMatDescr_t> from(types), to(types);
  for (int t = 0; t < types; ++t) {
    SPARSE(cusparseCreateDnMat(&from[t], nodes, columns, columns,
                               const_cast<Real*>(x) + (transposed ? t * size : 0), type,
                               CUSPARSE_ORDER_ROW));
    SPARSE(cusparseCreateDnMat(&to[t], nodes, columns, columns, out + (transposed ? 0 : t * size),
                               type, CUSPARSE_ORDER_ROW));
  }
  double best = 1e30;
  const float one = 1, zero = 0;
  for (const auto algorithm :
       {CUSPARSE_SPMM_CSR_ALG2, CUSPARSE_SPMM_CSR_ALG3, CUSPARSE_SPMM_ALG_DEFAULT}) {
    std::vector<std::unique_ptr<Buffer<std::byte>>> memory;
    bool able = true;
    for (int t = 0; t < types && able; ++t) {
      size_t bytes = 0;
      const float* beta = transposed && t > 0 ? &one : &zero;
      const auto op = CUSPARSE_OPERATION_NON_TRANSPOSE;
      if (cusparseSpMM_bufferSize(handle, op, op, &one, matrix[t], from[t], beta, to[t], CUDA_R_32F,
                                  algorithm, &bytes) != CUSPARSE_STATUS_SUCCESS) {
        able = false;
        break;
      }
      memory.push_back(std::make_unique<Buffer<std::byte>>(bytes + 16));
      able =
          cusparseSpMM_preprocess(handle, op, op, &one, matrix[t], from[t], beta, to[t], CUDA_R_32F,
                                  algorithm, memory.back()->data) == CUSPARSE_STATUS_SUCCESS;
    }
    auto run = [&] {
      for (int t = 0; t < types && able; ++t) {
        const float* beta = transposed && t > 0 ? &one : &zero;
        const auto op = CUSPARSE_OPERATION_NON_TRANSPOSE;
        able = cusparseSpMM(handle, op, op, &one, matrix[t], from[t], beta, to[t], CUDA_R_32F,
                            algorithm, memory[t]->data) == CUSPARSE_STATUS_SUCCESS;
      }
    };
    if (able) run();
    if (!able || cudaDeviceSynchronize() != cudaSuccess) {
      cudaGetLastError();
      continue;
    }
    best = std::min(best, median_ms(run, times));
  }
  for (auto& d : matrix) cusparseDestroySpMat(d);
  for (auto& d : from) cusparseDestroyDnMat(d);
  for (auto& d : to) cusparseDestroyDnMat(d);
  return best;
}

// Largest relative error in norm on a sample of elements, against double.
template <class Real>
double check(const Setup& s, const Batch& batch, int64_t width, bool backward, const float* eps,
             const float* values, const Buffer<Real>& out) {
  const int64_t nodes = s.plan.node_count(), b_count = batch.view().batch,
                columns = b_count * width;
  const int types = int(s.plan.type_count());
  std::unordered_set<uint64_t> removed;  // sample << 32 | node; few, or all
  const bool all = int64_t(batch.removed.index.size()) == nodes * b_count;
  for (int64_t b = 0; b < b_count && !all; ++b) {
    for (int32_t i = batch.removed.ptr[b]; i < batch.removed.ptr[b + 1]; ++i) {
      removed.insert(uint64_t(b) << 32 | uint64_t(batch.removed.index[i]));
    }
  }
  Random random(11);
  double apart = 0, size = 0;
  for (int k = 0; k < 3000; ++k) {
    const int64_t v = int64_t(random.below(nodes)), column = int64_t(random.below(columns));
    const int64_t b = column / width;
    auto gone = [&](int64_t node) {
      return all || removed.count(uint64_t(b) << 32 | uint64_t(node)) != 0;
    };
    const int t0 = backward ? 0 : int(random.below(types)), t1 = backward ? types : t0 + 1;
    double want = 0;
    for (int t = t0; t < t1; ++t) {
      const CsrView csr = backward ? s.plan.by_source(t) : s.plan.by_target(t);
      const int64_t base = backward ? t * nodes * columns : 0;
      const uint32_t seed = backward ? 2 : 1;
      if (!gone(v)) {
        for (uint32_t i = csr.ptr[v]; i < csr.ptr[v + 1]; ++i) {
          const int64_t u = s.plan.index_bytes() == 2
                                ? static_cast<const uint16_t*>(csr.neighbour)[i]
                                : static_cast<const uint32_t*>(csr.neighbour)[i];
          if (!gone(u))
            want += (values ? double(values[s.plan.first_edge(t) + csr.edge[i]]) : 1.0) *
                    number(base + u * columns + column, seed);
        }
      }
      if (eps) want += (1 + double(eps[t])) * number(base + v * columns + column, seed);
    }
    Real got;
    CUDA(cudaMemcpy(&got, out.data + (t0 * nodes * (backward ? 0 : 1) + v) * columns + column,
                    sizeof(Real), cudaMemcpyDeviceToHost));
    const double d = double(to_float(got)) - want;
    apart += d * d;
    size += want * want;
  }
  return size == 0 ? std::sqrt(apart) : std::sqrt(apart / size);
}

struct Options {
  bool slabs = true, eps = false, values = false, backward = false, grad_eps = false;
};
template <class Real>
double ours_ms(const Setup& s, const Batch& batch, int64_t width, const Options& o,
               const Buffer<Real>& x, const Buffer<Real>& grad_out, Buffer<Real>& out,
               double* error, int times = 21) {
  const CudaGraph graph = s.view(o.slabs);
  std::vector<float> eps(s.plan.type_count(), 0.25f), values(o.values ? s.plan.edge_count() : 1);
  for (size_t i = 0; i < values.size(); ++i) values[i] = number(i, 5) + 0.01f;
  Buffer<float> d_eps(eps), d_values(values), d_grad_eps(eps.size());
  const AggregateCall<Real> call = {.keep = batch.nodes(),
                                    .width = width,
                                    .x = x.data,
                                    .values = o.values ? d_values.data : nullptr,
                                    .eps = o.eps ? d_eps.data : nullptr};
  Buffer<std::byte> workspace(aggregate_cuda_workspace(graph, call));
  const CudaLaunch launch = {.workspace = workspace.data};
  CUDA(cudaMemset(out.data, 0xff, out.count * sizeof(Real)));
  auto run = [&] {
    if (o.backward) {
      aggregate_backward_cuda(
          graph, call,
          {.out = grad_out.data, .x = out.data, .eps = o.grad_eps ? d_grad_eps.data : nullptr},
          launch);
    } else {
      aggregate_cuda(graph, call, out.data, launch);
    }
  };
  const double ms = median_ms(run, times);
  if (error)
    *error = check<Real>(s, batch, width, o.backward, o.eps ? eps.data() : nullptr,
                         o.values ? values.data() : nullptr, out);
  return ms;
}

void line(const char* what, double ms, double opponent, double error) {
  std::printf("  %-46s %8.3f ms  %6.2fx cuSPARSE", what, ms, opponent / ms);
  if (error >= 0) std::printf("   error %.1e", error);
  std::printf("\n");
  std::fflush(stdout);
}

template <class Real>
void ladder_of(const Setup& s, int64_t batch_size, int64_t width, bool with_naive) {
  const char* real = sizeof(Real) == 2 ? "bf16" : "f32";
  const Batch batch = make_batch(s.plan.node_count(), batch_size, 3);
  const int64_t columns = batch_size * width, nodes = s.plan.node_count(),
                types = s.plan.type_count();
  Buffer<Real> x(nodes * columns), out(nodes * columns * types), grad_out(nodes * columns * types);
  fill<<<1024, 256>>>(x.data, x.count, 1);
  fill<<<1024, 256>>>(grad_out.data, grad_out.count, 2);
  double error = 0;
  const double forward = cusparse_ms<Real>(s, columns, x.data, out.data, false);
  std::printf("forward, %s, batch %ld, width %ld, three removed a sample\n", real, (long)batch_size,
              (long)width);
  line("cuSPARSE, nothing removed", forward, forward, -1);
  if (with_naive) {
    std::vector<uint8_t> gone(size_t(batch_size * nodes));
    for (int64_t b = 0; b < batch_size; ++b) {
      for (int32_t i = batch.removed.ptr[b]; i < batch.removed.ptr[b + 1]; ++i)
        gone[b * nodes + batch.removed.index[i]] = 1;
    }
    Buffer<uint8_t> d_gone(gone);
    CUDA(cudaMemset(out.data, 0xff, out.count * sizeof(Real)));
    auto run = [&] {
      for (int t = 0; t < types; ++t) {
        const CsrView v = s.plan.by_target(t);
        const std::byte* host = s.plan.bytes().data();
        naive<Real><<<unsigned((nodes * columns + 255) / 256), 256>>>(
            reinterpret_cast<const uint32_t*>(s.plan_bytes.data +
                                              (reinterpret_cast<const std::byte*>(v.ptr) - host)),
            reinterpret_cast<const uint16_t*>(s.plan_bytes.data +
                                              (static_cast<const std::byte*>(v.neighbour) - host)),
            d_gone.data, int(nodes), int(columns), int(width), x.data,
            out.data + t * nodes * columns);
      }
    };
    const double ms = median_ms(run, 5);
    line("naive: a thread an element", ms, forward,
         check<Real>(s, batch, width, false, nullptr, nullptr, out));
  }
  auto row = [&](const char* what, Options o, double opponent) {
    const double ms = ours_ms<Real>(s, batch, width, o, x, grad_out, out, &error);
    line(what, ms, opponent, error);
    return ms;
  };
  row("gather", {.slabs = false}, forward);
  if (s.slabs) {
    row("shared memory", {}, forward);
    row("shared memory, self term", {.eps = true}, forward);
  }
  row("gather, edge values", {.slabs = false, .values = true}, forward);
  if (s.slabs) row("shared memory, edge values", {.values = true}, forward);
  const double back = cusparse_ms<Real>(s, columns, grad_out.data, out.data, true);
  std::printf("backward, %s, summed over types\n", real);
  line("cuSPARSE, nothing removed, no self term", back, back, -1);
  row("gather, self term", {.slabs = false, .eps = true, .backward = true}, back);
  if (s.slabs) {
    row("shared memory", {.backward = true}, back);
    row("shared memory, self term", {.eps = true, .backward = true}, back);
    row("shared memory, self term, gradient of eps",
        {.eps = true, .backward = true, .grad_eps = true}, back);
    row("shared memory, edge values, self term", {.eps = true, .values = true, .backward = true},
        back);
  }
}

EdgeLists from_file(const char* path, uint32_t nodes) {
  EdgeLists graph;
  graph.nodes = nodes;
  FILE* f = std::fopen(path, "rb");
  if (f == nullptr) {
    std::printf("cannot open %s\n", path);
    std::exit(1);
  }
  uint32_t count;
  while (std::fread(&count, 4, 1, f) == 1) {
    std::vector<uint16_t> pairs(2 * size_t(count));
    if (std::fread(pairs.data(), 4, count, f) != count) std::exit(1);
    std::vector<uint32_t> sources, targets;
    for (size_t i = 0; i < count; ++i) {
      targets.push_back(pairs[2 * i]);
      sources.push_back(pairs[2 * i + 1]);
    }
    graph.types.emplace_back(std::move(sources), std::move(targets));
  }
  std::fclose(f);
  return graph;
}

void grid(uint32_t only) {
  std::printf("%9s %5s %5s %8s %10s %10s %7s %10s %10s %7s  %s\n", "nodes", "H", "B", "removed",
              "cuSPARSE", "forward", "ratio", "cuSPARSE", "backward", "ratio", "errors");
  size_t free_bytes = 0, total = 0;
  for (const uint32_t nodes : {1000000u, 6607u, 20000u}) {
    if (only != 0 && nodes != only) continue;
    const Setup s(nodes == 6607    ? generated(GraphSize::yeast)
                  : nodes == 20000 ? generated(GraphSize::human)
                                   : drawn(nodes, {20000000}, 1e-4, -0.4));
    for (const int64_t width : {8, 64, 72, 512}) {
      for (const int64_t b : {1, 28, 29, 256}) {
        const int64_t columns = b * width, types = s.plan.type_count();
        const double need = 2.0 * nodes * double(columns) * double(2 * types + 2) +
                            double(nodes) * types * 64 * 132;
        CUDA(cudaMemGetInfo(&free_bytes, &total));
        if (need > 0.9 * double(free_bytes)) {
          std::printf("%9u %5ld %5ld  does not fit\n", nodes, (long)width, (long)b);
          continue;
        }
        Buffer<BFloat16> x(nodes * columns), out(nodes * columns * types),
            grad_out(nodes * columns * types);
        fill<<<1024, 256>>>(x.data, x.count, 1);
        fill<<<1024, 256>>>(grad_out.data, grad_out.count, 2);
        const double f = cusparse_ms<BFloat16>(s, columns, x.data, out.data, false, 5);
        const double g = cusparse_ms<BFloat16>(s, columns, grad_out.data, out.data, true, 5);
        for (const uint32_t removed : {0u, 3u, nodes}) {
          if (removed == nodes && int64_t(nodes) * b > 300000000) continue;
          const Batch batch = make_batch(nodes, b, removed);
          double e1 = 0, e2 = 0;
          const double ours =
              ours_ms<BFloat16>(s, batch, width, {}, x, grad_out, out,
                                removed == nodes && nodes > 20000 ? nullptr : &e1, 5);
          const double back =
              ours_ms<BFloat16>(s, batch, width, {.backward = true}, x, grad_out, out,
                                removed == nodes && nodes > 20000 ? nullptr : &e2, 5);
          std::printf("%9u %5ld %5ld %8u %10.3f %10.3f %6.2fx %10.3f %10.3f %6.2fx  %.0e %.0e%s\n",
                      nodes, (long)width, (long)b, removed, f, ours, f / ours, g, back, g / back,
                      e1, e2, ours > 1.2 * f || back > 1.2 * g ? "  SLOW" : "");
          std::fflush(stdout);
        }
      }
    }
  }
}

void masks() {
  const HeteroGraph graph = generate_graph(GraphSize::yeast, 1);
  const RemovalRules rules(graph);
  const MaskLayout layout(rules, MaskForm::u8);
  const MaskTable table(rules, layout);
  const Buffer<uint32_t> ptr(table.ptr), place(table.place);
  const Batch batch = make_batch(table.gene_count(), 28, 3);
  const Buffer<uint8_t> records(28 * layout.stride());
  const double fill_ms = median_ms([&] { CUDA(cudaMemsetAsync(records.data, 1, records.count)); });
  const double ms = median_ms([&] {
    write_masks_cuda(layout, {ptr.data, place.data, table.gene_count()}, batch.view(), records.data,
                     nullptr, nullptr);
  });
  std::printf(
      "masks of 28 samples, %.1f MB, tables %.1f MB: %.3f ms (cudaMemset of the same bytes %.3f)\n",
      double(records.count) / 1e6, double(table.ptr.size() + table.place.size()) * 4 / 1e6, ms,
      fill_ms);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "ladder";
  cudaDeviceProp prop;
  CUDA(cudaGetDeviceProperties(&prop, 0));
  int version = 0;
  CUDA(cudaDriverGetVersion(&version));
  std::printf("%s, %d multiprocessors, %zu KB of shared memory a block, driver for CUDA %d.%d\n",
              prop.name, prop.multiProcessorCount, prop.sharedMemPerBlockOptin / 1024,
              version / 1000, version % 1000 / 10);
  if (mode == "ladder") {
    for (const bool hubs : {false, true}) {
      std::printf("\n=== yeast size, %s\n", hubs ? "hubs of 5,000 in and out" : "moderate degrees");
      const Setup s(hubs ? generated(GraphSize::yeast) : drawn(6607, kYeastCounts, 0.01, -0.4));
      ladder_of<BFloat16>(s, 28, 64, true);
      ladder_of<float>(s, 28, 64, false);
    }
    if (argc > 2) {
      std::printf("\n=== real networks, %s\n", argv[2]);
      const Setup s(from_file(argv[2], 6607));
      ladder_of<BFloat16>(s, 28, 64, true);
      ladder_of<float>(s, 28, 64, false);
    }
  } else if (mode == "human") {
    std::printf("\n=== human size\n");
    const Setup s(generated(GraphSize::human));
    ladder_of<BFloat16>(s, 28, 64, false);
  } else if (mode == "masks") {
    masks();
  } else if (mode == "grid") {
    grid(argc > 2 ? uint32_t(std::atol(argv[2])) : 0);
  } else {
    std::printf("usage: aggregate_gpu ladder [edges.bin] | human | masks | grid [nodes]\n");
    return 2;
  }
}
