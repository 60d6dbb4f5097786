#include "lacuna/ops/cone/cone.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/system/scratch.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

template <class Real>
using ConeSum = std::conditional_t<sizeof(Real) == 2, float, double>;

constexpr int64_t kRowsATask = 64;

// Calls body(i) for i in [0, count), some at a time.
template <class Body>
void for_rows(int64_t count, int threads, const Body& body) {
  parallel_for(uint64_t((count + kRowsATask - 1) / kRowsATask), threads, [&](uint64_t task) {
    const int64_t begin = int64_t(task) * kRowsATask;
    for (int64_t i = begin; i < std::min(begin + kRowsATask, count); ++i) body(i);
  });
}

struct ConeView {
  ConeShape shape;
  ConeLists lists;

  const int32_t* places(int64_t t, int64_t n) const {  // [B]
    return lists.place + (t * shape.nodes + n) * shape.batch;
  }
  bool gone(int64_t n, int64_t b) const { return lists.place[n * shape.batch + b] < 0; }
};

template <class Real>
void add_to(ConeSum<Real>* sum, const Real* row, int64_t width) {
  for (int64_t h = 0; h < width; ++h) sum[h] += ConeSum<Real>(Parameter<Real>(row[h]));
}
template <class Real>
void add_scaled_to(ConeSum<Real>* sum, ConeSum<Real> scale, const Real* row, int64_t width) {
  for (int64_t h = 0; h < width; ++h) sum[h] += scale * ConeSum<Real>(Parameter<Real>(row[h]));
}
template <class Real>
void write_row(Real* out, const ConeSum<Real>* sum, ConeSum<Real> scale, int64_t width) {
  for (int64_t h = 0; h < width; ++h) out[h] = Real(Parameter<Real>(scale * sum[h]));
}

std::span<const int32_t> removed_by(const RemovedView& removed, int64_t b) {
  const auto begin = size_t(removed.ptr[size_t(b)]), end = size_t(removed.ptr[size_t(b) + 1]);
  return removed.index.subspan(begin, end - begin);
}

// Marks the targets of removed genes with 1, removed genes with -1; places are 0 before.
void mark(const GraphPlan& plan, const RemovedView& removed, const ConeShape& shape, int64_t t,
          int32_t* place) {
  const CsrView csr = plan.by_source(uint32_t(t));
  for (int64_t b = 0; b < shape.batch; ++b) {
    const auto genes =
        removed.index.subspan(size_t(removed.ptr[size_t(b)]),
                              size_t(removed.ptr[size_t(b) + 1]) - size_t(removed.ptr[size_t(b)]));
    for (const int32_t gene : genes)
      for (uint32_t e = csr.ptr[gene]; e < csr.ptr[gene + 1]; ++e)
        place[int64_t(plan.neighbour(csr, e)) * shape.batch + b] = 1;
    for (const int32_t gene : genes) place[int64_t(gene) * shape.batch + b] = -1;
  }
}

}  // namespace

int64_t cone_capacity(const GraphPlan& plan, int64_t batch, int64_t widest) {
  const auto nodes = int64_t(plan.node_count());
  const auto some = size_t(std::min(widest, nodes));
  int64_t most = 0;  // rows that one sample lists
  for (uint32_t t = 0; t < plan.type_count(); ++t) {
    const CsrView csr = plan.by_source(t);
    std::vector<int64_t> degrees(size_t(nodes), 0);
    for (size_t n = 0; n < degrees.size(); ++n) degrees[n] = csr.ptr[n + 1] - csr.ptr[n];
    std::partial_sort(degrees.begin(), degrees.begin() + int64_t(some), degrees.end(),
                      std::greater<>());
    most = std::max(most,
                    std::accumulate(degrees.begin(), degrees.begin() + int64_t(some), int64_t(0)));
  }
  return batch * std::min(most, nodes);
}

int64_t cone_capacity(const GraphPlan& plan, const RemovedView& removed) {
  check_removed(removed, plan.node_count());
  int64_t most = 0;
  for (uint32_t t = 0; t < plan.type_count(); ++t) {
    const CsrView csr = plan.by_source(t);
    int64_t all = 0;
    for (int64_t b = 0; b < removed.batch(); ++b) {
      int64_t of_sample = 0;
      for (const int32_t gene : removed_by(removed, b))
        of_sample += csr.ptr[gene + 1] - csr.ptr[gene];
      all += std::min(of_sample, int64_t(plan.node_count()));
    }
    most = std::max(most, all);
  }
  return most;
}

void cone_lists(const GraphPlan& plan, const RemovedView& removed, const ConeShape& shape,
                const ConeLists& lists, int threads) {
  check_removed(removed, plan.node_count());
  const int64_t places = shape.nodes * shape.batch;
  parallel_for(uint64_t(shape.types), threads, [&](uint64_t task) {
    const auto t = int64_t(task);
    int32_t* place = lists.place + t * places;
    std::fill_n(place, places, 0);
    mark(plan, removed, shape, t, place);
    int64_t count = 0;
    for (int64_t i = 0; i < places; ++i) {
      if (place[i] <= 0) continue;
      if (count == shape.capacity)
        throw Error("a batch changes more than {} rows of edge type {}, for which there is room",
                    shape.capacity, t);
      lists.row[t * shape.capacity + count] = int32_t(i);
      place[i] = int32_t(++count);
    }
    lists.used[t] = int32_t(shape.nodes + count);
  });
}

template <class Real>
void cone_aggregate(const GraphPlan& plan, const ConeShape& shape, const ConeLists& lists,
                    int64_t width, const Real* x, const Parameter<Real>* eps, Real* u,
                    int threads) {
  const ConeView cone = {shape, lists};
  for_rows(shape.types * shape.rows(), threads, [&](int64_t task) {
    const int64_t t = task / shape.rows(), i = task % shape.rows();
    std::vector<ConeSum<Real>> sum(size_t(width), 0);
    if (i < lists.used[t]) {
      const int64_t listed =
          i < shape.nodes ? -1 : int64_t(lists.row[t * shape.capacity + i - shape.nodes]);
      const int64_t n = listed < 0 ? i : listed / shape.batch, b = listed % shape.batch;
      const CsrView csr = plan.by_target(uint32_t(t));
      for (uint32_t e = csr.ptr[n]; e < csr.ptr[n + 1]; ++e) {
        const auto from = int64_t(plan.neighbour(csr, e));
        if (listed < 0 || !cone.gone(from, b)) add_to(sum.data(), x + from * width, width);
      }
      add_scaled_to(sum.data(), 1 + ConeSum<Real>(eps[t]), x + n * width, width);
    }
    write_row(u + task * width, sum.data(), ConeSum<Real>(1), width);
  });
}

template <class Real>
void cone_aggregate_backward(const GraphPlan& plan, const ConeShape& shape, const ConeLists& lists,
                             int64_t width, const Real* x, const Parameter<Real>* eps,
                             const Real* grad_u, Real* grad_x, Parameter<Real>* grad_eps,
                             int threads) {
  using Sum = ConeSum<Real>;
  const ConeView cone = {shape, lists};
  const auto row = [&](int64_t t, int64_t i) { return grad_u + (t * shape.rows() + i) * width; };
  // The gradients of all rows of a node. [T, N, H]
  const Scratch<Sum> total(size_t(shape.types * shape.nodes * width));
  for_rows(shape.types * shape.nodes, threads, [&](int64_t task) {
    const int64_t t = task / shape.nodes, n = task % shape.nodes;
    Sum* sum = total.get() + task * width;
    std::fill_n(sum, width, Sum(0));
    add_to(sum, row(t, n), width);
    for (int64_t b = 0; b < shape.batch; ++b)
      if (const int32_t place = cone.places(t, n)[b]; place > 0)
        add_to(sum, row(t, shape.nodes + place - 1), width);
  });
  const auto total_row = [&](int64_t t, int64_t n) {
    return total.get() + (t * shape.nodes + n) * width;
  };
  for_rows(grad_x ? shape.nodes : 0, threads, [&](int64_t n) {
    std::vector<Sum> sum(size_t(width), 0);
    bool ever_gone = false;
    for (int64_t b = 0; b < shape.batch; ++b) ever_gone = ever_gone || cone.gone(n, b);
    for (int64_t t = 0; t < shape.types; ++t) {
      const CsrView csr = plan.by_source(uint32_t(t));
      for (uint32_t e = csr.ptr[n]; e < csr.ptr[n + 1]; ++e) {
        const auto target = int64_t(plan.neighbour(csr, e));
        if (!ever_gone) {
          for (int64_t h = 0; h < width; ++h) sum[size_t(h)] += total_row(t, target)[h];
          continue;
        }
        add_to(sum.data(), row(t, target), width);
        for (int64_t b = 0; b < shape.batch; ++b)
          if (const int32_t place = cone.places(t, target)[b]; place > 0 && !cone.gone(n, b))
            add_to(sum.data(), row(t, shape.nodes + place - 1), width);
      }
      for (int64_t h = 0; h < width; ++h) sum[size_t(h)] += (1 + Sum(eps[t])) * total_row(t, n)[h];
    }
    write_row(grad_x + n * width, sum.data(), Sum(1), width);
  });
  for (int64_t t = 0; grad_eps && t < shape.types; ++t) {
    double sum = 0;
    for (int64_t i = 0; i < shape.nodes * width; ++i)
      sum += double(total_row(t, 0)[i]) * double(Parameter<Real>(x[i]));
    grad_eps[t] = Parameter<Real>(sum);
  }
}

template <class Real>
void cone_sum(const ConeShape& shape, const ConeLists& lists, int64_t width, float share,
              const Real* y, Real* out, int threads) {
  using Sum = ConeSum<Real>;
  const ConeView cone = {shape, lists};
  for_rows(shape.nodes, threads, [&](int64_t n) {
    std::vector<Sum> sum(static_cast<size_t>(width));
    for (int64_t b = 0; b <= shape.batch; ++b) {
      std::fill(sum.begin(), sum.end(), Sum(0));
      for (int64_t t = 0; t < shape.types; ++t) {
        const int32_t place = b < shape.batch ? cone.places(t, n)[b] : 0;
        if (place < 0) continue;
        add_to(sum.data(),
               y + (t * shape.rows() + (place > 0 ? shape.nodes + place - 1 : n)) * width, width);
      }
      write_row(out + (n * (shape.batch + 1) + b) * width, sum.data(), Sum(share), width);
    }
  });
}

template <class Real>
void cone_sum_backward(const ConeShape& shape, const ConeLists& lists, int64_t width, float share,
                       const Real* grad_out, Real* grad_y, int threads) {
  using Sum = ConeSum<Real>;
  const ConeView cone = {shape, lists};
  for_rows(shape.types * shape.nodes, threads, [&](int64_t task) {
    const int64_t t = task / shape.nodes, n = task % shape.nodes;
    Real* rows = grad_y + t * shape.rows() * width;
    std::vector<Sum> sum(size_t(width), 0), own(static_cast<size_t>(width));
    for (int64_t b = 0; b <= shape.batch; ++b) {
      const Real* from = grad_out + (n * (shape.batch + 1) + b) * width;
      const int32_t place = b < shape.batch ? cone.places(t, n)[b] : 0;
      if (place == 0) add_to(sum.data(), from, width);
      if (place <= 0) continue;
      std::fill(own.begin(), own.end(), Sum(0));
      add_to(own.data(), from, width);
      write_row(rows + (shape.nodes + place - 1) * width, own.data(), Sum(share), width);
    }
    write_row(rows + n * width, sum.data(), Sum(share), width);
  });
  for (int64_t t = 0; t < shape.types; ++t)
    std::fill(grad_y + (t * shape.rows() + lists.used[t]) * width,
              grad_y + (t + 1) * shape.rows() * width, Real(Parameter<Real>(0)));
}

#define LACUNA_INSTANTIATE(Real)                                                                \
  template void cone_aggregate<Real>(const GraphPlan&, const ConeShape&, const ConeLists&,      \
                                     int64_t, const Real*, const Parameter<Real>*, Real*, int); \
  template void cone_aggregate_backward<Real>(                                                  \
      const GraphPlan&, const ConeShape&, const ConeLists&, int64_t, const Real*,               \
      const Parameter<Real>*, const Real*, Real*, Parameter<Real>*, int);                       \
  template void cone_sum<Real>(const ConeShape&, const ConeLists&, int64_t, float, const Real*, \
                               Real*, int);                                                     \
  template void cone_sum_backward<Real>(const ConeShape&, const ConeLists&, int64_t, float,     \
                                        const Real*, Real*, int);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
