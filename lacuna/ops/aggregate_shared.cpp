#include "lacuna/ops/aggregate_shared.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/threads.h"
#include "lacuna/ops/aggregate_pass.h"
#include "lacuna/ops/kept_degree.h"
#include "lacuna/ops/scratch.h"
#include "lacuna/ops/slice_kernels.h"

namespace lacuna {
namespace {

// The arguments of a call, in double where sums are taken.
template <class Real>
struct Shared {
  const GraphPlan& graph;
  const AggregateOptions& options;
  int64_t nodes, batch, width;
  RemovedSets removed;
  std::vector<double> x;       // [N, H]
  std::vector<double> values;  // [E] or empty
  std::vector<double> self;    // [T], 1 + eps; 0 without
  // Types whose results are added up in one output: each by itself, or all of them.
  std::vector<std::pair<uint32_t, uint32_t>> groups;  // [first, end)

  Shared(const GraphPlan& graph_, const AggregateOptions& options_, int64_t width_, const Real* x_,
         const RemovedView& removed_, const Parameter<Real>* values_, const Parameter<Real>* eps)
      : graph(graph_),
        options(options_),
        nodes(graph_.node_count()),
        batch(removed_.batch()),
        width(width_),
        removed(removed_sets(removed_)) {
    if (x_ != nullptr)
      for (int64_t i = 0; i < nodes * width; ++i) x.push_back(double(Parameter<Real>(x_[i])));
    if (values_ != nullptr) values.assign(values_, values_ + graph.edge_count());
    for (uint32_t t = 0; t < graph.type_count(); ++t) self.push_back(eps ? 1.0 + eps[t] : 0.0);
    if (options.sum_types)
      groups.emplace_back(0, graph.type_count());
    else
      for (uint32_t t = 0; t < graph.type_count(); ++t) groups.emplace_back(t, t + 1);
  }

  const double* values_of(uint32_t t) const {
    return values.empty() ? nullptr : values.data() + graph.first_edge(t);
  }
  const double* x_of(int64_t node) const { return x.data() + node * width; }
  int64_t degree(uint32_t t, int64_t node) const {
    const uint32_t* ptr = graph.by_target(t).ptr;
    return int64_t(ptr[node + 1]) - int64_t(ptr[node]);
  }
  // What a sum of `terms` terms is multiplied with.
  double scale(int64_t terms) const {
    return options.reduce == Reduce::mean ? degree_scale(Reduce::mean, double(terms)) : 1.0;
  }
};

uint32_t neighbour(const GraphPlan& graph, const CsrView& csr, uint32_t k) {
  return graph.index_bytes() == 2 ? static_cast<const uint16_t*>(csr.neighbour)[k]
                                  : static_cast<const uint32_t*>(csr.neighbour)[k];
}

void add_scaled(double factor, const double* from, int64_t count, double* to) {
  for (int64_t h = 0; h < count; ++h) to[h] += factor * from[h];
}
bool all_finite(const double* row, int64_t count) {
  return std::all_of(row, row + count, [](double number) { return std::isfinite(number); });
}

void check(const GraphPlan& graph, const AggregateOptions& options, int64_t width, bool has_values,
           const RemovedView& removed) {
  check_options(options, width, has_values);
  if (options.reduce != Reduce::sum && options.reduce != Reduce::mean)
    throw Error(
        "reduce '{}' is not offered for a shared x; repeat x for every sample and use "
        "aggregate",
        name(options.reduce));
  check_removed(removed, graph.node_count());
}

void check_given(const void* pointer, const char* argument, int64_t elements) {
  if (pointer == nullptr && elements > 0)
    throw Error("{} is missing; it needs {} elements", argument, elements);
}

// ---- forward

// The wild type's sums, [T, N, H].
template <class Real>
Scratch<double> shared_product(const Shared<Real>& in) {
  Scratch<double> product(in.graph.type_count() * size_t(in.nodes * in.width));
  SlicePass<double> pass = {.sources = in.nodes,
                            .rows = in.nodes,
                            .batch = 1,
                            .width = in.width,
                            .index_bytes = in.graph.index_bytes()};
  pass.threads = in.options.threads;
  for (uint32_t t = 0; t < in.graph.type_count(); ++t) {
    TypePass<double> type = {.source = in.x.data(), .csr = in.graph.by_target(t)};
    type.values = in.values_of(t);
    type.out = product.get() + t * in.nodes * in.width;
    pass.types.push_back(type);
  }
  run(pass);
  return product;
}

// One output (a group of types) of one sample, made from the shared product.
template <class Real>
class SampleWriter {
 public:
  SampleWriter(const Shared<Real>& in, const double* product, size_t group, int64_t sample,
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
          const uint32_t v = neighbour(in_.graph, csr, k);
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
        const uint32_t u = neighbour(in_.graph, csr, k);
        if (in_.removed.contains(sample_, u)) continue;
        add_scaled(values ? values[csr.edge[k]] : 1.0, in_.x_of(u), in_.width, sum.data());
        ++terms;
      }
      if (terms > 0) add_scaled(in_.scale(terms), sum.data(), in_.width, row_.data());
    }
  }

  const Shared<Real>& in_;
  const double* product_;  // [T, N, H]
  std::pair<uint32_t, uint32_t> types_;
  int64_t sample_;
  Real* out_;                       // [N, B, H] of the group
  std::vector<double> row_;         // [H]
  std::vector<uint32_t> affected_;  // [A] kept nodes with removed in-neighbours
  std::vector<int64_t> terms_;      // [A, types] how many
  std::vector<double> excess_;      // [A, types, H] what they would add
};

// ---- backward

template <class Real>
class SharedBackward {
 public:
  SharedBackward(const Shared<Real>& in, const Real* grad_out)
      : in_(in),
        grad_out_(grad_out),
        scales_(
            degree_scales(in.graph, in.options.reduce, in.removed, in.batch, in.options.threads)),
        all_(size()),
        kept_(size()),
        grad_x_(size_t(in.nodes * in.width)) {
    sum_over_samples();
    transpose();
    const auto removers = group_by_node();
    parallel_for(removers.size(), in_.options.threads,
                 [&](uint64_t i) { correct(removers[i].first, removers[i].second); });
  }

  void write_x(Real* grad_x) {
    for (int64_t v = 0; v < in_.nodes; ++v) {
      double* row = &grad_x_[size_t(v * in_.width)];
      for (uint32_t t = 0; t < in_.graph.type_count(); ++t)
        if (in_.self[t] != 0) add_scaled(in_.self[t], all_row(t, v), in_.width, row);
      for (int64_t h = 0; h < in_.width; ++h)
        grad_x[v * in_.width + h] = Real(Parameter<Real>(row[h]));
    }
  }

  void write_eps(Parameter<Real>* grad_eps) const {
    for (uint32_t t = 0; t < in_.graph.type_count(); ++t)
      grad_eps[t] = Parameter<Real>(dot(in_.x.data(), all_row(t, 0), in_.nodes * in_.width));
  }

  void write_values(Parameter<Real>* grad_values) const {
    std::vector<double> grad(in_.graph.edge_count());
    for (uint32_t t = 0; t < in_.graph.type_count(); ++t) {
      const CsrView csr = in_.graph.by_source(t);
      double* of_type = grad.data() + in_.graph.first_edge(t);
      parallel_for(uint64_t(in_.nodes), in_.options.threads, [&](uint64_t u) {
        for (uint32_t k = csr.ptr[u]; k < csr.ptr[u + 1]; ++k)
          of_type[csr.edge[k]] =
              dot(in_.x_of(int64_t(u)), kept_row(t, neighbour(in_.graph, csr, k)), in_.width);
      });
    }
    std::vector<double> row(static_cast<size_t>(in_.width));
    for (const auto& [u, samples] : group_by_node())
      for (const int64_t b : samples)
        for_kept_targets(u, b, [&](uint32_t t, uint32_t e, uint32_t v) {
          std::fill(row.begin(), row.end(), 0.0);
          add_gradient(t, v, b, 1.0, row.data());
          grad[in_.graph.first_edge(t) + e] -= dot(in_.x_of(u), row.data(), in_.width);
        });
    for (size_t e = 0; e < grad.size(); ++e) grad_values[e] = Parameter<Real>(grad[e]);
  }

 private:
  size_t size() const { return in_.graph.type_count() * size_t(in_.nodes * in_.width); }
  double* all_row(uint32_t t, int64_t v) const {
    return all_.get() + (t * in_.nodes + v) * in_.width;
  }
  double* kept_row(uint32_t t, int64_t v) const {
    return kept_.get() + (t * in_.nodes + v) * in_.width;
  }
  double scale(uint32_t t, int64_t v, int64_t b) const {
    return scales_[t].empty() ? 1.0 : scales_[t][size_t(v * in_.batch + b)];
  }

  // to += factor * grad_out[t, v, b]
  void add_gradient(uint32_t t, int64_t v, int64_t b, double factor, double* to) const {
    const int64_t group = in_.options.sum_types ? 0 : t;
    const Real* from = grad_out_ + ((group * in_.nodes + v) * in_.batch + b) * in_.width;
    for (int64_t h = 0; h < in_.width; ++h) to[h] += factor * double(Parameter<Real>(from[h]));
  }

  // all[t, v] = sum over samples of grad_out, kept[t, v] = the part that goes on to the
  // in-neighbours.
  void sum_over_samples() {
    parallel_for(uint64_t(in_.nodes), in_.options.threads, [&](uint64_t node) {
      const auto v = int64_t(node);
      std::vector<int64_t> removers;
      for (int64_t b = 0; b < in_.batch; ++b)
        if (in_.removed.contains(b, uint32_t(v))) removers.push_back(b);
      for (uint32_t t = 0; t < in_.graph.type_count(); ++t) {
        double* all = all_row(t, v);
        double* kept = kept_row(t, v);
        std::fill_n(all, in_.width, 0.0);
        for (int64_t b = 0; b < in_.batch; ++b) add_gradient(t, v, b, 1.0, all);
        if (removers.empty() && scales_[t].empty()) {
          std::copy_n(all, in_.width, kept);
          continue;
        }
        std::fill_n(kept, in_.width, 0.0);
        for (int64_t b = 0; b < in_.batch; ++b)
          if (scale(t, v, b) != 0 && !std::binary_search(removers.begin(), removers.end(), b))
            add_gradient(t, v, b, scale(t, v, b), kept);
      }
    });
  }

  void transpose() {
    SlicePass<double> pass = {.sources = in_.nodes,
                              .rows = in_.nodes,
                              .batch = 1,
                              .width = in_.width,
                              .index_bytes = in_.graph.index_bytes()};
    pass.sum_types = true;
    pass.summed_out = grad_x_.data();
    pass.threads = in_.options.threads;
    for (uint32_t t = 0; t < in_.graph.type_count(); ++t) {
      TypePass<double> type = {.source = kept_row(t, 0), .csr = in_.graph.by_source(t)};
      type.values = in_.values_of(t);
      pass.types.push_back(type);
    }
    run(pass);
  }

  // The samples that remove each node.
  std::vector<std::pair<uint32_t, std::vector<int64_t>>> group_by_node() const {
    std::vector<std::pair<uint32_t, int64_t>> pairs;
    for (int64_t b = 0; b < in_.batch; ++b)
      for (const uint32_t u : in_.removed.of(b)) pairs.emplace_back(u, b);
    std::sort(pairs.begin(), pairs.end());
    std::vector<std::pair<uint32_t, std::vector<int64_t>>> groups;
    for (const auto& [u, b] : pairs) {
      if (groups.empty() || groups.back().first != u) groups.push_back({u, {}});
      groups.back().second.push_back(b);
    }
    return groups;
  }

  // Calls visit(type, edge, target) for the out-edges of u whose target sample b keeps.
  template <class Visit>
  void for_kept_targets(uint32_t u, int64_t b, Visit visit) const {
    for (uint32_t t = 0; t < in_.graph.type_count(); ++t) {
      const CsrView csr = in_.graph.by_source(t);
      for (uint32_t k = csr.ptr[u]; k < csr.ptr[u + 1]; ++k) {
        const uint32_t v = neighbour(in_.graph, csr, k);
        if (!in_.removed.contains(b, v)) visit(t, csr.edge[k], v);
      }
    }
  }

  // row += sign * what u gets from sample b through the edges
  void add_sample(uint32_t u, int64_t b, double sign, double* row) const {
    for_kept_targets(u, b, [&](uint32_t t, uint32_t e, uint32_t v) {
      const double factor = scale(t, v, b) * (in_.values.empty() ? 1.0 : in_.values_of(t)[e]);
      if (scale(t, v, b) != 0) add_gradient(t, v, b, sign * factor, row);
    });
  }

  // Takes away what came from the samples that remove u; where they are most, or a difference is
  // not finite, adds up what came from the others.
  void correct(uint32_t u, const std::vector<int64_t>& samples) {
    double* row = &grad_x_[size_t(u * in_.width)];
    if (2 * int64_t(samples.size()) <= in_.batch) {
      for (const int64_t b : samples) add_sample(u, b, -1.0, row);
      if (all_finite(row, in_.width)) return;
    }
    std::fill_n(row, in_.width, 0.0);
    for (int64_t b = 0; b < in_.batch; ++b)
      if (!in_.removed.contains(b, u)) add_sample(u, b, 1.0, row);
  }

  const Shared<Real>& in_;
  const Real* grad_out_;
  std::vector<std::vector<double>> scales_;  // [T][N, B], empty for sum
  Scratch<double> all_, kept_;               // [T, N, H]
  std::vector<double> grad_x_;               // [N, H]
};

}  // namespace

template <class Real>
void aggregate_shared(const GraphPlan& graph, const AggregateOptions& options, int64_t width,
                      const Real* x, const RemovedView& removed, const Parameter<Real>* values,
                      const Parameter<Real>* eps, Real* out) {
  check(graph, options, width, values != nullptr, removed);
  check_given(x, "x", graph.node_count() * width);
  const Shared<Real> in(graph, options, width, x, removed, values, eps);
  check_given(out, "out", int64_t(in.groups.size()) * in.nodes * in.batch * width);
  const Scratch<double> product = shared_product(in);

  constexpr int64_t kBlockRows = 256;
  const int64_t blocks = (in.nodes + kBlockRows - 1) / kBlockRows;
  parallel_for(in.groups.size() * uint64_t(blocks), options.threads, [&](uint64_t i) {
    const int64_t begin = int64_t(i) % blocks * kBlockRows;
    SampleWriter<Real> writer(in, product.get(), i / uint64_t(blocks), 0, out);
    writer.write_wild_type(begin, std::min(begin + kBlockRows, in.nodes));
  });
  parallel_for(in.groups.size() * uint64_t(in.batch), options.threads, [&](uint64_t i) {
    const auto batch = uint64_t(in.batch);
    SampleWriter<Real>(in, product.get(), i / batch, int64_t(i % batch), out).write_corrections();
  });
}

template <class Real>
void aggregate_shared_backward(const GraphPlan& graph, const AggregateOptions& options,
                               int64_t width, const Real* grad_out, const Real* x,
                               const RemovedView& removed, const Parameter<Real>* values,
                               const Parameter<Real>* eps, Real* grad_x, Parameter<Real>* grad_eps,
                               Parameter<Real>* grad_values) {
  check(graph, options, width, values != nullptr || grad_values != nullptr, removed);
  const int64_t elements = graph.node_count() * width;
  if (grad_eps != nullptr || grad_values != nullptr) check_given(x, "x", elements);
  check_given(grad_x, "grad_x", elements);
  const Shared<Real> in(graph, options, width, x, removed, values, eps);
  check_given(grad_out, "grad_out", int64_t(in.groups.size()) * elements * in.batch);
  SharedBackward<Real> backward(in, grad_out);
  backward.write_x(grad_x);
  if (grad_eps != nullptr) backward.write_eps(grad_eps);
  if (grad_values != nullptr) backward.write_values(grad_values);
}

#define LACUNA_INSTANTIATE(Real)                                                                  \
  template void aggregate_shared(const GraphPlan&, const AggregateOptions&, int64_t, const Real*, \
                                 const RemovedView&, const Parameter<Real>*,                      \
                                 const Parameter<Real>*, Real*);                                  \
  template void aggregate_shared_backward(const GraphPlan&, const AggregateOptions&, int64_t,     \
                                          const Real*, const Real*, const RemovedView&,           \
                                          const Parameter<Real>*, const Parameter<Real>*, Real*,  \
                                          Parameter<Real>*, Parameter<Real>*);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
