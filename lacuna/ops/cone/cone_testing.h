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
};

template <class Real>
struct ConeSetting {
  RandomGraph graph;
  RandomRemoved removed;
  ConeShape shape;
  int64_t width;
  float share = 0.5f;
  std::vector<Real> x, y, grad_u, grad_out;
  std::vector<Parameter<Real>> eps;

  ConeSetting(uint64_t seed, const ConeCase& c)
      : graph(random_graph(seed, c.graph)),
        removed(random_removed(seed, c.graph.nodes, c.batch, c.removed)),
        shape{int64_t(c.graph.nodes), int64_t(graph.types.size()), c.batch, 0},
        width(c.width) {
    shape.capacity = cone_capacity(graph.plan(), removed.view()) + 3;
    x = random_numbers<Real>(seed, 1, shape.nodes * width);
    y = random_numbers<Real>(seed, 2, shape.types * shape.rows() * width);
    grad_u = random_numbers<Real>(seed, 3, shape.types * shape.rows() * width);
    grad_out = random_numbers<Real>(seed, 4, shape.nodes * (shape.batch + 1) * width);
    eps = random_numbers<Parameter<Real>>(seed, 5, shape.types);
  }

  bool is_removed(int64_t b, int64_t n) const {
    for (int32_t i = removed.ptr[size_t(b)]; i < removed.ptr[size_t(b) + 1]; ++i)
      if (removed.index[size_t(i)] == n) return true;
    return false;
  }
  // Whether the sums of gene n in sample b miss a neighbour.
  bool differs(int64_t t, int64_t n, int64_t b) const {
    const EdgeList type = graph.lists()[size_t(t)];
    for (size_t e = 0; e < type.sources.size(); ++e)
      if (type.targets[e] == n && is_removed(b, type.sources[e])) return true;
    return false;
  }
  // The row of [N + C] that sample b (B: the wild type) reads for gene n; -1: removed.
  int64_t row_of(const std::vector<int32_t>& place, int64_t t, int64_t n, int64_t b) const {
    if (b == shape.batch) return n;
    const int32_t p = place[size_t((t * shape.nodes + n) * shape.batch + b)];
    return p < 0 ? -1 : p == 0 ? n : shape.nodes + p - 1;
  }
};

}  // namespace lacuna::testing
