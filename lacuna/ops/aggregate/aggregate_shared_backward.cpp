#include <algorithm>

#include "lacuna/core/system/scratch.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/ops/aggregate/aggregate_shared.h"
#include "lacuna/ops/aggregate/column_pass.h"

namespace lacuna {
namespace {

template <class Real>
class SharedBackward {
 public:
  SharedBackward(const SharedInput<Real>& in, const Real* grad_out)
      : in_(in),
        grad_out_(grad_out),
        scales_(degree_scales(in.graph, in.call.reduce, in.call.keep, in.removed, in.call.threads)),
        all_(size()),
        kept_(size()),
        grad_x_(size_t(in.nodes * in.width)) {
    sum_over_samples();
    transpose();
    const auto removers = group_by_node();
    parallel_for(removers.size(), in_.call.threads,
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
      parallel_for(uint64_t(in_.nodes), in_.call.threads, [&](uint64_t u) {
        for (uint32_t k = csr.ptr[u]; k < csr.ptr[u + 1]; ++k)
          of_type[csr.edge[k]] =
              dot(in_.x_of(int64_t(u)), kept_row(t, in_.graph.neighbour(csr, k)), in_.width);
      });
    }
    std::vector<double> row(static_cast<size_t>(in_.width));
    for (const auto& [u, samples] : group_by_node())
      for (const int64_t b : samples)
        for_kept_targets(u, b, [&, source = u](uint32_t t, uint32_t e, uint32_t v) {
          std::fill(row.begin(), row.end(), 0.0);
          add_gradient(t, v, b, 1.0, row.data());
          grad[in_.graph.first_edge(t) + e] -= dot(in_.x_of(source), row.data(), in_.width);
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
    const int64_t group = in_.call.sum_types ? 0 : t;
    const Real* from = grad_out_ + ((group * in_.nodes + v) * in_.batch + b) * in_.width;
    for (int64_t h = 0; h < in_.width; ++h) to[h] += factor * double(Parameter<Real>(from[h]));
  }

  // all[t, v] = sum over samples of grad_out, kept[t, v] = the part that goes on to the
  // in-neighbours.
  void sum_over_samples() {
    parallel_for(uint64_t(in_.nodes), in_.call.threads, [&](uint64_t node) {
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
    ColumnPass<double> pass = {.sources = in_.nodes,
                               .rows = in_.nodes,
                               .batch = 1,
                               .width = in_.width,
                               .index_bytes = in_.graph.index_bytes()};
    pass.sum_types = true;
    pass.out = grad_x_.data();
    pass.threads = in_.call.threads;
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
        const uint32_t v = in_.graph.neighbour(csr, k);
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

  const SharedInput<Real>& in_;
  const Real* grad_out_;
  std::vector<std::vector<double>> scales_;  // [T][N, B], empty for sum
  Scratch<double> all_, kept_;               // [T, N, H]
  std::vector<double> grad_x_;               // [N, H]
};

}  // namespace

template <class Real>
void aggregate_shared_backward(const GraphPlan& graph, const AggregateCall<Real>& call,
                               const AggregateGradients<Real>& gradients) {
  const SharedInput<Real> in(graph, call);
  SharedBackward<Real> backward(in, gradients.out);
  backward.write_x(gradients.x);
  if (gradients.eps != nullptr) backward.write_eps(gradients.eps);
  if (gradients.values != nullptr) backward.write_values(gradients.values);
}

#define LACUNA_INSTANTIATE(Real)                                                        \
  template void aggregate_shared_backward(const GraphPlan&, const AggregateCall<Real>&, \
                                          const AggregateGradients<Real>&);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
