#include "lacuna/ops/aggregate/column_pass.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>

#include "lacuna/core/error.h"
#include "lacuna/core/system/scratch.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

int64_t second_level_cache_bytes() {
  static const int64_t bytes = [] {
    const long known = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
    return known > 0 ? int64_t(known) : int64_t(1) << 20;
  }();
  return bytes;
}

// Calls a function for ranges that cover [0, count), on one thread or several.
using ForRows = std::function<void(int64_t count, const std::function<void(int64_t, int64_t)>&)>;

void on_this_thread(int64_t count, const std::function<void(int64_t, int64_t)>& body) {
  body(0, count);
}
ForRows on_threads(int threads) {
  return [threads](int64_t count, const std::function<void(int64_t, int64_t)>& body) {
    const int64_t ranges = std::min<int64_t>(count, 16 * int64_t(threads));
    parallel_for(uint64_t(ranges), threads, [&](uint64_t i) {
      body(count * int64_t(i) / ranges, count * (int64_t(i) + 1) / ranges);
    });
  };
}

// Every type's values in the order of its CSR: sorted once, they are read in a row by every block.
template <class Real>
std::vector<Scratch<Parameter<Real>>> values_by_place(const ColumnPass<Real>& pass) {
  std::vector<Scratch<Parameter<Real>>> by_place(pass.types.size());
  parallel_for(pass.types.size(), pass.threads, [&](uint64_t t) {
    const TypePass<Real>& type = pass.types[t];
    if (type.values == nullptr) return;
    const uint32_t edges = type.csr.ptr[pass.rows];
    by_place[t] = Scratch<Parameter<Real>>(edges);
    for (uint32_t k = 0; k < edges; ++k) by_place[t][k] = type.values[type.csr.edge[k]];
  });
  return by_place;
}

template <class Real>
class ColumnWorker {
  using Acc = Parameter<Real>;

 public:
  ColumnWorker(const ColumnPass<Real>& pass, const std::vector<Scratch<Acc>>& values,
               int64_t block_columns)
      : pass_(pass), values_(values), block_(size_t((pass.sources + 1) * block_columns)) {
    std::fill_n(&block_[size_t(pass.sources * block_columns)], block_columns, Acc(0));
    const bool own_self = std::any_of(pass.types.begin(), pass.types.end(),
                                      [&](const auto& type) { return needs_self_block(type); });
    if (own_self) self_block_ = Scratch<Acc>(size_t(pass.sources * block_columns));
    if (pass.sum_types) partial_ = Scratch<Acc>(size_t(pass.rows * block_columns));
  }

  void run(const Columns& columns, const ForRows& for_rows) {
    columns_ = columns;
    packed_ = self_packed_ = nullptr;
    for (const TypePass<Real>& type : pass_.types) {
      pack_sources(type, for_rows);
      walk_type(type, for_rows);
      if (!pass_.sum_types) rewrite_removed_rows(type);
    }
    if (!pass_.sum_types) return;
    sum_removed_rows();
    for_rows(pass_.rows, [&](int64_t begin, int64_t end) {
      unpack(columns_, partial_.get(), pass_.out, begin, end);
    });
  }

 private:
  size_t number(const TypePass<Real>& type) const { return size_t(&type - pass_.types.data()); }
  // Where the type's rows go, unless the types are summed.
  Real* out_of(const TypePass<Real>& type) const {
    return pass_.sum_types ? nullptr
                           : pass_.out + int64_t(number(type)) * pass_.rows * columns_.pitch();
  }
  // The block itself serves as the self term where it is the plain source.
  bool needs_self_block(const TypePass<Real>& type) const {
    return type.self && (type.load_scale != nullptr || pass_.maximum);
  }

  void pack_sources(const TypePass<Real>& type, const ForRows& for_rows) {
    if (type.source != packed_ || type.load_scale != packed_scale_) {
      pack_block({columns_, type.source, type.load_scale, block_.get()}, for_rows);
      const Acc absent = pass_.maximum ? -std::numeric_limits<Acc>::infinity() : Acc(0);
      if (pass_.removed_sources != nullptr)
        fill_removed(columns_, *pass_.removed_sources, absent, block_.get());
      packed_ = type.source;
      packed_scale_ = type.load_scale;
    }
    if (needs_self_block(type) && type.source != self_packed_) {
      pack_block({columns_, type.source, nullptr, self_block_.get()}, for_rows);
      self_packed_ = type.source;
    }
  }

  void pack_block(const Pack<Real>& args, const ForRows& for_rows) {
    for_rows(pass_.sources, [&](int64_t begin, int64_t end) { pack(args, begin, end); });
  }

  void walk_type(const TypePass<Real>& type, const ForRows& for_rows) {
    Walk<Real> args = {.columns = columns_,
                       .csr = type.csr,
                       .index_bytes = pass_.index_bytes,
                       .block = block_.get(),
                       .zero_row = uint32_t(pass_.sources)};
    args.maximum = pass_.maximum;
    args.values = values_[number(type)].get();
    if (type.masks != nullptr)
      args.mask = type.masks + uint64_t(columns_.first_sample()) * pass_.mask_stride;
    args.scale = type.store_scale;
    if (type.self) {
      args.self = needs_self_block(type) ? self_block_.get() : block_.get();
      args.self_factor = *type.self;
    }
    args.partial = pass_.sum_types ? partial_.get() : nullptr;
    args.add = &type != &pass_.types.front();
    args.out = out_of(type);
    args.out_pitch = columns_.pitch();
    args.out_first = columns_.first;
    for_rows(pass_.rows, [&](int64_t begin, int64_t end) { walk(args, begin, end); });
  }

  // Calls visit(row, sample) for the removed rows of the samples in the block.
  template <class Visit>
  void for_removed_rows(Visit visit) {
    if (pass_.removed_rows == nullptr) return;
    for (int64_t b = columns_.first_sample(); b <= columns_.last_sample(); ++b)
      for (const uint32_t row : pass_.removed_rows->of(b)) visit(int64_t(row), b);
  }

  // As if added to an empty sum: 0 + -0 is 0.
  static Acc self_term(const TypePass<Real>& type, int64_t at) {
    return type.self ? Acc(0) + *type.self * Acc(type.source[at]) : Acc(0);
  }

  void rewrite_removed_rows(const TypePass<Real>& type) {
    Real* const out = out_of(type);
    for_removed_rows([&](int64_t row, int64_t b) {
      for (int64_t c = columns_.begin_of(b); c < columns_.end_of(b); ++c) {
        const int64_t at = row * columns_.pitch() + columns_.first + c;
        out[at] = Real(self_term(type, at));
      }
    });
  }

  void sum_removed_rows() {
    for_removed_rows([&](int64_t row, int64_t b) {
      for (int64_t c = columns_.begin_of(b); c < columns_.end_of(b); ++c) {
        Acc sum = 0;
        for (const TypePass<Real>& type : pass_.types)
          sum += self_term(type, row * columns_.pitch() + columns_.first + c);
        partial_[size_t(row * columns_.block_columns + c)] = sum;
      }
    });
  }

  const ColumnPass<Real>& pass_;
  const std::vector<Scratch<Acc>>& values_;    // [T]
  Scratch<Acc> block_, self_block_, partial_;  // [sources + 1, C], [sources, C], [rows, C]
  Columns columns_ = {};
  const Real* packed_ = nullptr;  // what the blocks hold
  const double* packed_scale_ = nullptr;
  const Real* self_packed_ = nullptr;
};

}  // namespace

std::vector<Columns> column_blocks(int64_t rows, int64_t batch, int64_t width, int64_t item_bytes,
                                   bool by_sample) {
  const int64_t line = kCacheLine / item_bytes;
  const int64_t span = by_sample ? width : batch * width;
  // Two lines a row feed the adders better, but only while the block leaves room for the stream of
  // edges; a block that does not fit in any case is read from further away, where longer rows are
  // better again.
  const int64_t cache = second_level_cache_bytes();
  const bool one_fits = rows * kCacheLine <= cache,
             two_fit = rows * 2 * kCacheLine <= cache * 7 / 8;
  const int64_t columns = span > line && (two_fit || !one_fits) ? 2 * line : line;
  std::vector<Columns> blocks;
  for (int64_t start = 0; start < batch * width; start += span)
    for (int64_t first = start; first < start + span; first += columns)
      blocks.push_back({batch, width, first, std::min(columns, start + span - first), columns});
  return blocks;
}

template <class Acc>
void fill_removed(const Columns& columns, const RemovedSets& removed, Acc fill, Acc* block) {
  for (int64_t b = columns.first_sample(); b <= columns.last_sample(); ++b)
    for (const uint32_t node : removed.of(b)) {
      Acc* row = block + int64_t(node) * columns.block_columns;
      std::fill(row + columns.begin_of(b), row + columns.end_of(b), fill);
    }
}

template <class Real>
void run(const ColumnPass<Real>& pass) {
  const int64_t elements = pass.rows * pass.batch * pass.width;
  if (pass.types.empty() && pass.sum_types) std::fill_n(pass.out, elements, Real(0));
  if (pass.types.empty() || elements == 0) return;

  using Acc = Parameter<Real>;
  const bool by_sample = pass.types.front().masks != nullptr;
  const std::vector<Columns> blocks =
      column_blocks(pass.sources, pass.batch, pass.width, sizeof(Acc), by_sample);
  const int64_t block_columns = blocks.front().block_columns;
  ask_for_huge_pages(pass.out,
                     (pass.sum_types ? 1 : pass.types.size()) * size_t(elements) * sizeof(Real));
  const auto values = values_by_place(pass);
  const int threads = pass.threads > 0 ? pass.threads : available_threads();

  // Threads take whole blocks where there are enough and the blocks are small, else they share each
  // block's rows.
  constexpr int64_t kLargeBlock = int64_t(16) << 20;
  const bool blocks_each = int64_t(blocks.size()) >= threads &&
                           pass.sources * block_columns * int64_t(sizeof(Acc)) <= kLargeBlock;
  if (blocks_each) {
    std::atomic<size_t> next = 0;
    parallel_for(uint64_t(threads), threads, [&](uint64_t) {
      if (next >= blocks.size()) return;  // nothing left: no block is needed
      ColumnWorker<Real> worker(pass, values, block_columns);
      for (size_t i = next++; i < blocks.size(); i = next++) {
        throw_if_stopped();
        worker.run(blocks[i], on_this_thread);
      }
    });
  } else {
    ColumnWorker<Real> worker(pass, values, block_columns);
    for (const Columns& columns : blocks) worker.run(columns, on_threads(threads));
  }
}

template void run(const ColumnPass<float>&);
template void run(const ColumnPass<BFloat16>&);
template void run(const ColumnPass<double>&);
template void fill_removed(const Columns&, const RemovedSets&, float, float*);
template void fill_removed(const Columns&, const RemovedSets&, double, double*);

}  // namespace lacuna
