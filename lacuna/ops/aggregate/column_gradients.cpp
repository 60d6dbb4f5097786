#include "lacuna/ops/aggregate/column_pass.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "lacuna/core/system/scratch.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

int thread_count(int asked) { return asked > 0 ? asked : available_threads(); }

template <class Real>
void max_backward_columns(const GraphPlan& graph, const Real* x, const ColumnPass<Real>& pass,
                          const Columns& columns) {
  using Acc = Parameter<Real>;
  const size_t block_size = size_t(pass.sources * columns.block_columns);
  const Scratch<Acc> x_block(block_size), partial(block_size);
  pack(Pack<Real>{columns, x, nullptr, x_block.get()}, 0, pass.sources);
  fill_removed(columns, *pass.removed_sources, -std::numeric_limits<Acc>::infinity(),
               x_block.get());
  std::fill_n(partial.get(), block_size, Acc(0));
  for (size_t t = 0; t < pass.types.size(); ++t) {
    const TypePass<Real>& type = pass.types[t];
    scatter_max(
        ScatterMax<Real>{columns, graph.by_target(uint32_t(t)), pass.index_bytes, x_block.get(),
                         type.load_scale, pass.removed_sources, type.source, partial.get()},
        pass.rows);
    if (!type.self) continue;
    for (int64_t row = 0; row < pass.rows; ++row)
      for (int64_t c = 0; c < columns.count; ++c)
        partial[size_t(row * columns.block_columns + c)] +=
            *type.self * Acc(type.source[row * columns.pitch() + columns.first + c]);
  }
  unpack(columns, partial.get(), pass.out, 0, pass.rows);
}

}  // namespace

template <class Real>
void run_max_backward(const GraphPlan& graph, const Real* x, const ColumnPass<Real>& pass) {
  const auto blocks =
      column_blocks(pass.sources, pass.batch, pass.width, sizeof(Parameter<Real>), false);
  parallel_for(blocks.size(), pass.threads,
               [&](uint64_t i) { max_backward_columns(graph, x, pass, blocks[i]); });
}

template <class Real>
void eps_gradient(const ColumnPass<Real>& pass, const Real* x, Parameter<Real>* grad_eps) {
  const int64_t pitch = pass.batch * pass.width;
  const size_t types = pass.types.size();
  // Blocks of rows, not of threads, so that the order of the additions is always the same; a row of
  // x is read once for all types.
  constexpr int64_t kBlockRows = 64;
  const int64_t blocks = (pass.rows + kBlockRows - 1) / kBlockRows;
  std::vector<double> sums(size_t(blocks) * types);
  parallel_for(uint64_t(blocks), pass.threads, [&](uint64_t block) {
    const int64_t begin = int64_t(block) * kBlockRows;
    for (int64_t row = begin; row < std::min(begin + kBlockRows, pass.rows); ++row)
      for (size_t t = 0; t < types; ++t)
        sums[block * types + t] += dot(pass.types[t].source + row * pitch, x + row * pitch, pitch);
  });
  for (size_t t = 0; t < types; ++t) {
    double sum = 0;
    for (int64_t block = 0; block < blocks; ++block) sum += sums[size_t(block) * types + t];
    grad_eps[t] = Parameter<Real>(sum);
  }
}

template <class Real>
void values_gradient(const GraphPlan& graph, const ColumnPass<Real>& pass, const Real* x,
                     Parameter<Real>* grad_values) {
  using Acc = Parameter<Real>;
  const bool by_sample = !pass.types.empty() && pass.types.front().masks != nullptr;
  const auto blocks = column_blocks(pass.sources, pass.batch, pass.width, sizeof(Acc), by_sample);
  if (blocks.empty()) {
    std::fill_n(grad_values, graph.edge_count(), Acc(0));
    return;
  }
  const size_t block_size = size_t(pass.sources * blocks.front().block_columns);
  const Scratch<Acc> x_block(block_size), grad_block(block_size);
  const Scratch<Acc> by_place(
      graph.edge_count());  // the types one after another, each in the order of its CSR
  std::fill_n(by_place.get(), graph.edge_count(), Acc(0));
  const int64_t ranges = std::min<int64_t>(pass.rows, 16 * thread_count(pass.threads));
  const auto for_rows = [&](const auto& body) {
    parallel_for(uint64_t(ranges), pass.threads, [&](uint64_t i) {
      body(pass.rows * int64_t(i) / ranges, pass.rows * (int64_t(i) + 1) / ranges);
    });
  };
  const auto pack_kept = [&](const Columns& columns, const Real* source, Acc* block) {
    for_rows([&](int64_t begin, int64_t end) {
      pack(Pack<Real>{columns, source, nullptr, block}, begin, end);
    });
    if (pass.removed_sources != nullptr)
      fill_removed(columns, *pass.removed_sources, Acc(0), block);
  };
  // Blocks one after another: the order in which an edge's parts are added does not depend on the
  // threads.
  for (const Columns& columns : blocks) {
    pack_kept(columns, x, x_block.get());
    for (uint32_t t = 0; t < graph.type_count(); ++t) {
      if (t == 0 || pass.types[t].source != pass.types[t - 1].source)
        pack_kept(columns, pass.types[t].source, grad_block.get());
      const uint8_t* masks = pass.types[t].masks;
      if (masks != nullptr) masks += uint64_t(columns.first_sample()) * pass.mask_stride;
      const EdgeDot<Acc> args = {columns,
                                 graph.by_target(t),
                                 pass.index_bytes,
                                 x_block.get(),
                                 grad_block.get(),
                                 masks,
                                 by_place.get() + graph.first_edge(t)};
      for_rows([&](int64_t begin, int64_t end) { edge_dot(args, begin, end); });
    }
  }
  for (uint32_t t = 0; t < graph.type_count(); ++t) {
    const CsrView csr = graph.by_target(t);
    const uint64_t first = graph.first_edge(t);
    for (uint64_t k = 0; k < graph.edge_count(t); ++k)
      grad_values[first + csr.edge[k]] = by_place[first + k];
  }
}

#define LACUNA_INSTANTIATE(Real)                                                          \
  template void run_max_backward(const GraphPlan&, const Real*, const ColumnPass<Real>&); \
  template void eps_gradient(const ColumnPass<Real>&, const Real*, Parameter<Real>*);     \
  template void values_gradient(const GraphPlan&, const ColumnPass<Real>&, const Real*,   \
                                Parameter<Real>*);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
