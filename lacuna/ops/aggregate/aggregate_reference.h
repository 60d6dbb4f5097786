// aggregate() in plain loops over the edge lists, in double: what every faster version is held
// against.
//
// Arguments and shapes as in aggregate.h; an empty span stands for a null pointer. It walks edges
// one by one in their own order and shares no code with what it judges. Slow: for tests, not
// a part of the library.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/ops/aggregate/aggregate.h"

namespace lacuna {

struct ReferenceInput {
  uint32_t node_count = 0;
  std::span<const EdgeList> types;
  Reduce reduce = Reduce::sum;
  bool sum_types = false;
  int64_t width = 0;
  RemovedView removed;
  std::span<const double> x;       // [N, B, H]
  std::span<const double> values;  // [E] or empty
  std::span<const double> eps;     // [T] or empty
};

namespace reference {

// The kept graph of every sample, spelled out.
class Kept {
 public:
  explicit Kept(const ReferenceInput& in) : in_(in), batch_(in.removed.batch()) {
    check_removed(in.removed, in.node_count);
    keep_.assign(size_t(batch_) * in.node_count, 1);
    for (int64_t b = 0; b < batch_; ++b)
      for (int32_t k = in.removed.ptr[size_t(b)]; k < in.removed.ptr[size_t(b) + 1]; ++k)
        keep_[place(in.removed.index[size_t(k)], b)] = 0;
    for (const EdgeList& edges : in.types) {
      std::vector<double> degree(keep_.size());
      for (size_t e = 0; e < edges.sources.size(); ++e)
        for (int64_t b = 0; b < batch_; ++b)
          if (edge(edges, e, b)) degree[place(edges.targets[e], b)] += 1;
      degree_.push_back(std::move(degree));
    }
  }

  int64_t batch() const { return batch_; }
  bool edge(const EdgeList& edges, size_t e, int64_t b) const {
    return keep_[place(edges.sources[e], b)] != 0 && keep_[place(edges.targets[e], b)] != 0;
  }
  double degree(size_t type, int64_t node, int64_t b) const {
    return degree_[type][place(node, b)];
  }

  // What a kept edge's source is multiplied with on its way into the sum.
  double weight(size_t type, size_t e, uint64_t first_edge, int64_t b) const {
    const int64_t u = in_.types[type].sources[e], v = in_.types[type].targets[e];
    switch (in_.reduce) {
      case Reduce::sum:
        return in_.values.empty() ? 1.0 : in_.values[first_edge + e];
      case Reduce::mean:
        return 1.0 / degree(type, v, b);
      case Reduce::gcn:
        return degree(type, u, b) == 0 ? 0.0
                                       : 1.0 / std::sqrt(degree(type, u, b) * degree(type, v, b));
      case Reduce::max:
        return 1.0;
    }
    return 0.0;
  }

 private:
  size_t place(int64_t node, int64_t b) const { return size_t(node * batch_ + b); }

  const ReferenceInput& in_;
  int64_t batch_;
  std::vector<char> keep_;                   // [N, B]
  std::vector<std::vector<double>> degree_;  // [T][N, B] kept in-edges
};

// Calls visit(type, edge, edge in the row of all types, sample) for every edge that a sample keeps,
// in edge order.
template <class Visit>
void for_kept_edges(const ReferenceInput& in, const Kept& kept, Visit visit) {
  uint64_t first_edge = 0;
  for (size_t t = 0; t < in.types.size(); ++t) {
    for (size_t e = 0; e < in.types[t].sources.size(); ++e)
      for (int64_t b = 0; b < kept.batch(); ++b)
        if (kept.edge(in.types[t], e, b)) visit(t, e, first_edge, b);
    first_edge += in.types[t].sources.size();
  }
}

struct Places {
  int64_t nodes, batch, width;
  bool sum_types;
  size_t in(int64_t node, int64_t b, int64_t h) const {
    return size_t((node * batch + b) * width + h);
  }
  size_t out(size_t type, int64_t node, int64_t b, int64_t h) const {
    return in(node + (sum_types ? 0 : int64_t(type) * nodes), b, h);
  }
};

// For every element of [T, N, B, H] the edge whose source is the maximum (the first one, a NaN
// before all else), or -1.
inline std::vector<int64_t> arg_max(const ReferenceInput& in, const Kept& kept, const Places& at) {
  std::vector<int64_t> best(in.types.size() * size_t(at.nodes * at.batch * at.width), -1);
  for_kept_edges(in, kept, [&](size_t t, size_t e, uint64_t, int64_t b) {
    const EdgeList& edges = in.types[t];
    for (int64_t h = 0; h < at.width; ++h) {
      int64_t& winner = best[at.out(t, edges.targets[e], b, h)];
      const double candidate = in.x[at.in(edges.sources[e], b, h)];
      if (winner >= 0) {
        const double held = in.x[at.in(edges.sources[size_t(winner)], b, h)];
        if (std::isnan(held) || !(candidate > held || std::isnan(candidate))) continue;
      }
      winner = int64_t(e);
    }
  });
  return best;
}

}  // namespace reference

// [T, N, B, H] or [N, B, H]
inline std::vector<double> aggregate_reference(const ReferenceInput& in) {
  const reference::Kept kept(in);
  const reference::Places at{in.node_count, kept.batch(), in.width, in.sum_types};
  const size_t types = in.types.size(), nodes = in.node_count;
  std::vector<double> out((in.sum_types ? 1 : types) * nodes * size_t(at.batch * at.width), 0.0);
  if (in.reduce == Reduce::max) {
    LACUNA_ASSERT(!in.sum_types);
    const std::vector<int64_t> best = reference::arg_max(in, kept, at);
    for (size_t t = 0; t < types; ++t)
      for (size_t i = 0, n = out.size() / types; i < n; ++i) {
        const int64_t e = best[t * n + i];
        const int64_t column = int64_t(i) % (at.batch * at.width);
        if (e >= 0) out[t * n + i] = in.x[at.in(in.types[t].sources[size_t(e)], 0, column)];
      }
  } else {
    reference::for_kept_edges(in, kept, [&](size_t t, size_t e, uint64_t first_edge, int64_t b) {
      const double weight = kept.weight(t, e, first_edge, b);
      if (in.reduce == Reduce::gcn && weight == 0) return;
      for (int64_t h = 0; h < at.width; ++h)
        out[at.out(t, in.types[t].targets[e], b, h)] +=
            weight * in.x[at.in(in.types[t].sources[e], b, h)];
    });
  }
  if (!in.eps.empty())
    for (size_t t = 0; t < types; ++t)
      for (int64_t v = 0; v < at.nodes; ++v)
        for (int64_t c = 0; c < at.batch * at.width; ++c)
          out[at.out(t, v, 0, c)] += (1 + in.eps[t]) * in.x[at.in(v, 0, c)];
  return out;
}

struct ReferenceGradients {
  std::vector<double> x;       // [N, B, H]
  std::vector<double> eps;     // [T], empty without eps
  std::vector<double> values;  // [E], empty without values
};
inline ReferenceGradients aggregate_reference_backward(const ReferenceInput& in,
                                                       std::span<const double> grad_out) {
  const reference::Kept kept(in);
  const reference::Places at{in.node_count, kept.batch(), in.width, in.sum_types};
  const size_t types = in.types.size();
  ReferenceGradients grad;
  grad.x.assign(size_t(at.nodes * at.batch * at.width), 0.0);
  grad.eps.assign(in.eps.size(), 0.0);
  grad.values.assign(in.values.size(), 0.0);
  if (in.reduce == Reduce::max) {
    LACUNA_ASSERT(!in.sum_types);
    const std::vector<int64_t> best = reference::arg_max(in, kept, at);
    for (size_t t = 0; t < types; ++t)
      for (size_t i = 0, n = grad.x.size(); i < n; ++i) {
        const int64_t e = best[t * n + i];
        const int64_t column = int64_t(i) % (at.batch * at.width);
        if (e >= 0) grad.x[at.in(in.types[t].sources[size_t(e)], 0, column)] += grad_out[t * n + i];
      }
  } else {
    reference::for_kept_edges(in, kept, [&](size_t t, size_t e, uint64_t first_edge, int64_t b) {
      const double weight = kept.weight(t, e, first_edge, b);
      if (in.reduce == Reduce::gcn && weight == 0) return;
      for (int64_t h = 0; h < at.width; ++h) {
        const double g = grad_out[at.out(t, in.types[t].targets[e], b, h)];
        const size_t source = at.in(in.types[t].sources[e], b, h);
        grad.x[source] += weight * g;
        if (!in.values.empty()) grad.values[first_edge + e] += g * in.x[source];
      }
    });
  }
  if (!in.eps.empty())
    for (size_t t = 0; t < types; ++t)
      for (int64_t v = 0; v < at.nodes; ++v)
        for (int64_t c = 0; c < at.batch * at.width; ++c) {
          const double g = grad_out[at.out(t, v, 0, c)];
          grad.x[at.in(v, 0, c)] += (1 + in.eps[t]) * g;
          grad.eps[t] += g * in.x[at.in(v, 0, c)];
        }
  return grad;
}

}  // namespace lacuna
