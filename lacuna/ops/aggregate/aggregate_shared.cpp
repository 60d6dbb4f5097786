#include "lacuna/ops/aggregate/aggregate_shared.h"

#include <algorithm>

#include "lacuna/core/system/scratch.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/ops/aggregate/column_pass.h"

namespace lacuna {
namespace {

// The wild type's sums, [T, N, H].
template <class Real>
Scratch<double> shared_product(const SharedInput<Real>& in) {
  Scratch<double> product(in.graph.type_count() * size_t(in.nodes * in.width));
  ColumnPass<double> pass = {.sources = in.nodes,
                             .rows = in.nodes,
                             .batch = 1,
                             .width = in.width,
                             .index_bytes = in.graph.index_bytes()};
  pass.out = product.get();
  pass.threads = in.call.threads;
  for (uint32_t t = 0; t < in.graph.type_count(); ++t) {
    TypePass<double> type = {.source = in.x.data(), .csr = in.graph.by_target(t)};
    type.values = in.values_of(t);
    pass.types.push_back(type);
  }
  run(pass);
  return product;
}

// One output (a group of types) of one sample, made from the shared product.
template <class Real>
class SampleWriter {
 public:
  SampleWriter(const SharedInput<Real>& in, const double* product, size_t group, int64_t sample,
               Real* out)
      : in_(in),
        product_(product),
        types_(in.groups[group]),
        sample_(sample),
        out_(out + int64_t(group) * in.nodes * in.batch * in.width),
        row_(size_t(in.width)) {}

  // All samples' rows as if nothing were removed.
  void write_wild_type(int64_t begin, int64_t end) {
    std::vector<Real> rounded(row_.size());
    for (int64_t v = begin; v < end; ++v) {
      start_row(v);
      for (uint32_t t = types_.first; t < types_.second; ++t)
        add_scaled(in_.scale(in_.degree(t, v)), product_row(t, v), in_.width, row_.data());
      for (int64_t h = 0; h < in_.width; ++h) rounded[size_t(h)] = round(row_[size_t(h)]);
      repeat_row(rounded.data(), in_.width, in_.batch, out_ + v * in_.batch * in_.width);
    }
  }

  // This sample's removed rows and their out-neighbours.
  void write_corrections() {
    collect_removed_terms();
    for (size_t i = 0; i < affected_.size(); ++i) {
      start_row(affected_[i]);
      for (uint32_t t = types_.first; t < types_.second; ++t) add_kept(i, t);
      if (!all_finite(row_.data(), in_.width)) sum_anew(affected_[i]);
      store_row(affected_[i]);
    }
    for (const uint32_t v : in_.removed.of(sample_)) {
      start_row(v);
      store_row(v);
    }
  }

 private:
  static Real round(double value) { return Real(Parameter<Real>(value)); }
  const double* product_row(uint32_t t, int64_t v) const {
    return product_ + (t * in_.nodes + v) * in_.width;
  }
  size_t type_count() const { return types_.second - types_.first; }

  // A row starts with its self terms.
  void start_row(int64_t v) {
    std::fill(row_.begin(), row_.end(), 0.0);
    for (uint32_t t = types_.first; t < types_.second; ++t)
      if (in_.self[t] != 0) add_scaled(in_.self[t], in_.x_of(v), in_.width, row_.data());
  }
  void store_row(int64_t v) {
    Real* out = out_ + (v * in_.batch + sample_) * in_.width;
    for (int64_t h = 0; h < in_.width; ++h) out[h] = round(row_[size_t(h)]);
  }

  // Adds up, for every kept node with removed in-neighbours, what the product holds too much.
  void collect_removed_terms() {
    std::vector<int64_t> slot(size_t(in_.nodes), -1);
    const size_t types = type_count(), width = size_t(in_.width);
    for (uint32_t t = types_.first; t < types_.second; ++t) {
      const CsrView csr = in_.graph.by_source(t);
      const double* values = in_.values_of(t);
      for (const uint32_t u : in_.removed.of(sample_))
        for (uint32_t k = csr.ptr[u]; k < csr.ptr[u + 1]; ++k) {
          const uint32_t v = in_.graph.neighbour(csr, k);
          if (in_.removed.contains(sample_, v)) continue;
          if (slot[v] < 0) {
            slot[v] = int64_t(affected_.size());
            affected_.push_back(v);
            terms_.resize(terms_.size() + types, 0);
            excess_.resize(excess_.size() + types * width, 0.0);
          }
          const size_t at = size_t(slot[v]) * types + (t - types_.first);
          ++terms_[at];
          add_scaled(values ? values[csr.edge[k]] : 1.0, in_.x_of(u), in_.width,
                     &excess_[at * width]);
        }
    }
  }

  void add_kept(size_t i, uint32_t t) {
    const size_t at = i * type_count() + (t - types_.first);
    const int64_t kept = in_.degree(t, affected_[i]) - terms_[at];
    if (kept == 0) return;  // exactly nothing, not what rounding leaves of a difference
    const double scale = in_.scale(kept);
    const double* product = product_row(t, affected_[i]);
    const double* excess = &excess_[at * size_t(in_.width)];
    for (int64_t h = 0; h < in_.width; ++h) row_[size_t(h)] += scale * (product[h] - excess[h]);
  }

  // The row's kept terms, one by one.
  void sum_anew(int64_t v) {
    start_row(v);
    std::vector<double> sum(row_.size());
    for (uint32_t t = types_.first; t < types_.second; ++t) {
      const CsrView csr = in_.graph.by_target(t);
      const double* values = in_.values_of(t);
      std::fill(sum.begin(), sum.end(), 0.0);
      int64_t terms = 0;
      for (uint32_t k = csr.ptr[v]; k < csr.ptr[v + 1]; ++k) {
        const uint32_t u = in_.graph.neighbour(csr, k);
        if (in_.removed.contains(sample_, u)) continue;
        add_scaled(values ? values[csr.edge[k]] : 1.0, in_.x_of(u), in_.width, sum.data());
        ++terms;
      }
      if (terms > 0) add_scaled(in_.scale(terms), sum.data(), in_.width, row_.data());
    }
  }

  const SharedInput<Real>& in_;
  const double* product_;  // [T, N, H]
  std::pair<uint32_t, uint32_t> types_;
  int64_t sample_;
  Real* out_;                       // [N, B, H] of the group
  std::vector<double> row_;         // [H]
  std::vector<uint32_t> affected_;  // [A] kept nodes with removed in-neighbours
  std::vector<int64_t> terms_;      // [A, types] how many
  std::vector<double> excess_;      // [A, types, H] what they would add
};

}  // namespace

template <class Real>
void aggregate_shared(const GraphPlan& graph, const AggregateCall<Real>& call, Real* out) {
  const SharedInput<Real> in(graph, call);
  ask_for_huge_pages(out, in.groups.size() * size_t(in.nodes * in.batch * in.width) * sizeof(Real));
  const Scratch<double> product = shared_product(in);

  constexpr int64_t kBlockRows = 256;
  const int64_t blocks = (in.nodes + kBlockRows - 1) / kBlockRows;
  parallel_for(in.groups.size() * uint64_t(blocks), call.threads, [&](uint64_t i) {
    const int64_t begin = int64_t(i) % blocks * kBlockRows;
    SampleWriter<Real> writer(in, product.get(), i / uint64_t(blocks), 0, out);
    writer.write_wild_type(begin, std::min(begin + kBlockRows, in.nodes));
  });
  parallel_for(in.groups.size() * uint64_t(in.batch), call.threads, [&](uint64_t i) {
    const auto batch = uint64_t(in.batch);
    SampleWriter<Real>(in, product.get(), i / batch, int64_t(i % batch), out).write_corrections();
  });
}

#define LACUNA_INSTANTIATE(Real) \
  template void aggregate_shared(const GraphPlan&, const AggregateCall<Real>&, Real*);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
