// A small graph with removed genes, numbers for every array, and what a plain loop over all samples
// gives: for the tests of cone.h on both devices. Not a part of the library.
#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "lacuna/ops/cone/cone.h"
#include "lacuna/ops/testing.h"

namespace lacuna::testing {

struct ConeCase {
  GraphShape graph = {.nodes = 80, .edges = {700, 0, 90}, .self_loops = true, .hub = 60};
  int64_t batch = 5, width = 8;
  uint32_t removed = 4;
  int layer = 1;
};

template <class Real>
struct ConeSetting {
  RandomGraph graph;
  RandomRemoved removed;
  ConeShape shape;
  int64_t width;
  double share = 1.0 / 3;
  ConeMarks marks;
  bool shared;  // x: in the first layer
  std::vector<Real> x, y, grad_u, grad_out;
  std::vector<Parameter<Real>> eps, values;  // values [E], which a call may take

  ConeSetting(uint64_t seed, const ConeCase& c)
      : graph(random_graph(seed, c.graph)),
        removed(random_removed(seed, c.graph.nodes, c.batch, c.removed)),
        shape{int64_t(c.graph.nodes), int64_t(graph.types.size()), c.batch, 0},
        width(c.width),
        marks(mark_cone(graph.plan(), removed.view(), 1)),
        shared(c.layer == 1) {
    for (int layer = 1; layer < c.layer; ++layer) marks = mark_next(graph.plan(), marks, 1);
    shape.capacity = std::ranges::max(marks.counts()) + 3;
    x = random_numbers<Real>(seed, 1, shape.nodes * (shared ? 1 : shape.batch + 1) * width);
    y = random_numbers<Real>(seed, 2, shape.types * shape.rows() * width);
    grad_u = random_numbers<Real>(seed, 3, shape.types * shape.rows() * width);
    grad_out = random_numbers<Real>(seed, 4, shape.nodes * (shape.batch + 1) * width);
    eps = random_numbers<Parameter<Real>>(seed, 5, shape.types);
    values = random_numbers<Parameter<Real>>(seed, 6, int64_t(graph.plan().edge_count()));
  }

  ConeCall<Real> call(const ConeLists& lists) const {
    return {.shape = shape,
            .lists = lists,
            .removed = removed.view(),
            .shared = shared,
            .width = width,
            .x = x.data(),
            .eps = eps.data(),
            .threads = 1};
  }
  bool is_removed(int64_t b, int64_t n) const {
    for (int32_t i = removed.ptr[size_t(b)]; i < removed.ptr[size_t(b) + 1]; ++i)
      if (removed.index[size_t(i)] == n) return true;
    return false;
  }
  // Whether the sums of gene n in sample b miss a neighbour, or read another value of one.
  bool differs(int layer, int64_t t, int64_t n, int64_t b) const {
    if (is_removed(b, n)) return false;
    if (layer > 1 && any_differs(layer - 1, n, b)) return true;
    const EdgeList type = graph.lists()[size_t(t)];
    for (size_t e = 0; e < type.sources.size(); ++e) {
      if (type.targets[e] != n) continue;
      if (is_removed(b, type.sources[e])) return true;
      if (layer > 1 && any_differs(layer - 1, type.sources[e], b)) return true;
    }
    return false;
  }
  bool any_differs(int layer, int64_t n, int64_t b) const {
    for (int64_t t = 0; t < shape.types; ++t)
      if (differs(layer, t, n, b)) return true;
    return false;
  }
  // x[n, b], [H]; b = B: the wild type's
  int64_t x_at(int64_t n, int64_t b) const {
    return (shared ? n : n * (shape.batch + 1) + b) * width;
  }
  // The row of [N + C] that sample b (B: the wild type) reads for gene n; -1: removed.
  int64_t row_of(const std::vector<int32_t>& place, int64_t t, int64_t n, int64_t b) const {
    if (b == shape.batch) return n;
    const int32_t p = place[size_t((t * shape.nodes + n) * shape.batch + b)];
    return p < 0 ? -1 : p == 0 ? n : shape.nodes + p - 1;
  }
};

}  // namespace lacuna::testing
